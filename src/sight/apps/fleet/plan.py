"""Plan of a fleet: a model file, a method and the kind of rows, small enough to be sent to every worker."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from sight import params, registry
from sight.apps.stream.session import make_windower
from sight.models.card import ModelCard, require_card
from sight.models.onnx import OnnxSource
from sight.recordings.signal.clock import MAX_GAP_S

#: Content of an input row: features and probabilities, a window, or a packet of samples.
Kind = Literal["features", "windows", "samples"]
#: State that a wearer keeps under a new model with the same classes and feature size.
Carry = Literal["all", "habits"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Model, method and options of a fleet."""

    path: str  # of the .onnx file
    digest: str  # SHA-256 of the file; every worker checks that it reads the same one
    kind: Kind = "features"
    method: str = registry.RECOMMENDED
    params: tuple[str, ...] = ()  # hyper-parameters of the method as KEY=VALUE
    shards: int = 64  # number of groups of wearers; fixed for a checkpoint
    carry: Carry = "all"  # "habits" resets the prototypes to the head of a new model
    max_gap_s: float = MAX_GAP_S  # a longer pause counts as a gap
    rate_in_hz: float | None = None  # sampling rate of packets; None is the model's

    def __post_init__(self) -> None:
        for name, values in (("kind", get_args(Kind)), ("carry", get_args(Carry))):
            if getattr(self, name) not in values:
                raise ValueError(f"Expected {name} {' or '.join(values)}, got {getattr(self, name)!r}.")
        if not self.max_gap_s >= 0:
            raise ValueError(f"Expected max_gap_s of 0 or more, got {self.max_gap_s}.")


@dataclass(frozen=True, eq=False)
class FleetModel:
    """A loaded model with its bound method."""

    plan: Plan
    source: OnnxSource
    card: ModelCard
    adapter: Any

    @property
    def name(self) -> str:
        """Name in every output row: file name and first digits of the digest."""
        return f"{Path(self.plan.path).stem}@{self.plan.digest[:12]}"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the K classes."""
        return self.source.classes

    @property
    def rate_in_hz(self) -> float:
        """Sampling rate of packets."""
        return self.plan.rate_in_hz or self.card.rate_hz

    def windower(self) -> Any:
        """Return a windower for one wearer's samples."""
        return make_windower(self.card, self.rate_in_hz, max_gap_s=self.plan.max_gap_s)

    def adapters(self, count: int) -> Any:
        """Return the method for `count` new wearers, updated together."""
        return self.adapter.many(count)


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a model file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}; check the path.")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@lru_cache(maxsize=2)
def load_plan(plan: Plan) -> FleetModel:
    """Load the model and method of a plan, once per process; raise ValueError if they cannot run a fleet."""
    if not plan.path.endswith(".onnx"):
        raise ValueError(f"A fleet runs exported models (.onnx), got {plan.path}; export it with sight export.")
    if file_digest(plan.path) != plan.digest:
        raise ValueError(f"{plan.path} has changed since the job was started; give a new model a new name and restart.")
    source = OnnxSource(plan.path)
    card = require_card(source, plan.path)
    cls = registry.get("methods", plan.method)
    if not hasattr(cls, "many"):
        able = ", ".join(registry.supporting("many"))
        raise ValueError(f"A fleet updates many wearers in one call, which {plan.method} cannot; use {able}.")
    adapter = cls(**params.parse(cls, plan.params)).bind(source)
    return FleetModel(plan, source, card, adapter)
