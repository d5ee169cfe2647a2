"""Options and model of a fleet: a model file, a method and the kind of rows, sent to every worker."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from sight import registry
from sight._util.hashing import file_sha256
from sight.apps.stream.session import make_windower
from sight.models.card import ModelCard, require_card
from sight.models.onnx import OnnxSource
from sight.recordings.signal.clock import MAX_GAP_S

#: Content of an input row: features and probabilities, a window, or a packet of samples.
Kind = Literal["features", "windows", "samples"]
#: State that a wearer keeps under a new model with the same classes and feature size.
Carry = Literal["all", "habits"]


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
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

    options: FleetOptions
    source: OnnxSource
    card: ModelCard
    adapter: Any  # its `many` updates several wearers together

    @property
    def name(self) -> str:
        """Name in every output row: file name and first digits of the digest."""
        return f"{Path(self.options.path).stem}@{self.options.digest[:12]}"

    @property
    def classes(self) -> tuple[str, ...]:
        return self.source.classes

    @property
    def rate_in_hz(self) -> float:
        return self.options.rate_in_hz or self.card.rate_hz

    def windower(self) -> Any:
        return make_windower(self.card, self.rate_in_hz, max_gap_s=self.options.max_gap_s)


@lru_cache(maxsize=2)
def load_fleet_model(options: FleetOptions) -> FleetModel:
    """Load the model and method of a fleet, once per process; raise ValueError if they cannot run a fleet."""
    if not options.path.endswith(".onnx"):
        raise ValueError(f"A fleet runs exported models (.onnx), got {options.path}; export it with sight export.")
    if file_sha256(options.path) != options.digest:
        raise ValueError(
            f"{options.path} has changed since the job was started; give a new model a new name and restart."
        )
    source = OnnxSource(options.path)
    card = require_card(source, options.path)
    cls = registry.get("methods", options.method)
    if not hasattr(cls, "many"):
        able = ", ".join(registry.supporting("many"))
        raise ValueError(f"A fleet updates many wearers in one call, which {options.method} cannot; use {able}.")
    return FleetModel(options, source, card, registry.method(options.method, assignments=options.params).bind(source))
