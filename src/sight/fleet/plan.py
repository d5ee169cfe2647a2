"""What a fleet runs: a model file, a method and how rows are read; small enough to travel to every worker."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from sight import params, registry
from sight.card import ModelCard
from sight.signal import Windower
from sight.signal.clock import MAX_GAP_S
from sight.sources.onnx import OnnxSource

#: What a row of the input holds: features with probabilities, a window, or a packet of samples.
Kind = Literal["features", "windows", "samples"]
#: What a wearer keeps when a new model of the same classes and feature size takes over.
Carry = Literal["all", "habits"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings of a fleet.

    Parameters
    ----------
    path, digest
        The .onnx file and the SHA-256 of its bytes; every worker checks that it reads the same file.
    kind
        What a row of the input holds.
    method, settings
        Registry name of the method, and its fields as KEY=VALUE.
    shards
        Groups that wearers are spread over; fixed for the life of a checkpoint.
    carry
        "all" keeps a wearer's whole state under a new model; "habits" restarts the prototypes at its head.
    max_gap_s
        Pause that counts as a gap.
    rate_in_hz
        Sampling rate of packets; the model's own by default.
    """

    path: str
    digest: str
    kind: Kind = "features"
    method: str = registry.RECOMMENDED
    settings: tuple[str, ...] = ()
    shards: int = 64
    carry: Carry = "all"
    max_gap_s: float = MAX_GAP_S
    rate_in_hz: float | None = None

    def __post_init__(self) -> None:
        for name, known in (("kind", get_args(Kind)), ("carry", get_args(Carry))):
            if getattr(self, name) not in known:
                raise ValueError(f"Expected {name} {' or '.join(known)}, got {getattr(self, name)!r}.")
        if not self.max_gap_s >= 0:
            raise ValueError(f"Expected a longest pause of zero or more seconds, got {self.max_gap_s}.")


@dataclass(frozen=True, eq=False)
class FleetModel:
    """A loaded model with its method: all that a shard needs beyond the wearers' states."""

    plan: Plan
    source: OnnxSource
    card: ModelCard
    adapter: Any

    @property
    def name(self) -> str:
        """Name in every row of the output: the file's, and the first digits of its content."""
        return f"{Path(self.plan.path).stem}@{self.plan.digest[:12]}"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the K classes."""
        return self.source.classes

    def windower(self) -> Windower:
        """Make the way of one wearer's samples to windows on the model's clock."""
        return Windower(
            rate_in_hz=self.plan.rate_in_hz or self.card.rate_hz,
            rate_hz=self.card.rate_hz,
            channels=len(self.card.channels),
            window_s=self.card.window_s,
            stride_s=self.card.stride_s,
            max_gap_s=self.plan.max_gap_s,
        )


def digest(path: str | Path) -> str:
    """Return the SHA-256 of a model file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}; check the path.")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@lru_cache(maxsize=2)
def load(plan: Plan) -> FleetModel:
    """Load what a plan names, once for each process; refuse what cannot serve a fleet."""
    if not plan.path.endswith(".onnx"):
        raise ValueError(f"A fleet runs exported models (.onnx), got {plan.path}; make one with sight export.")
    if digest(plan.path) != plan.digest:
        raise ValueError(f"{plan.path} is not the file the job began with; give a new model a new name and restart.")
    source = OnnxSource(plan.path)
    if source.card is None:
        raise ValueError(
            f"{plan.path} has no model card, so its windows and gaps are unknown; export it with sight export."
        )
    cls = registry.get("methods", plan.method)
    if not hasattr(cls, "many"):
        raise ValueError(
            f"A fleet advances many wearers in one call, which {plan.method} cannot; methods that can: "
            f"{', '.join(registry.supporting('many'))}."
        )
    adapter = cls(**params.parse(cls, plan.settings)).bind(source)
    return FleetModel(plan, source, source.card, adapter)
