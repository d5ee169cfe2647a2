"""A chunk of samples as clients send it, and the acknowledgement they receive."""

from dataclasses import dataclass

import numpy as np

from sight.apps.serve.errors import Refused
from sight.apps.serve.limits import Limits
from sight.types import Array, Event

#: Largest chunk number, the largest integer that every JSON reader represents exactly.
LAST_SEQ = 2**53


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive samples of one wearer; raises `Refused` if its parts do not fit together."""

    wearer: str
    seq: int | None  # 1, 2, 3 and so on; None lets the service number it
    values: Array  # (n, C), float32
    time_s: Array | None = None  # (n,) in seconds on the wearer's clock
    t0: float | None = None  # time of the first sample, instead of `time_s`; the others follow at the wearer's rate

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):  # float64 beyond the range of float32 becomes infinite and is refused
            object.__setattr__(self, "values", np.ascontiguousarray(self.values, np.float32))
        if self.seq is not None and not 1 <= self.seq <= LAST_SEQ:
            raise Refused("seq", f"Expected chunks numbered from 1 to 2**53, got {self.seq}.")
        if self.values.ndim != 2 or not self.values.size:
            raise Refused("shape", f"Expected values as n rows of C numbers, got shape {list(self.values.shape)}.")
        if self.time_s is not None:
            object.__setattr__(self, "time_s", np.ascontiguousarray(self.time_s, np.float64))
            if self.time_s.shape != (len(self.values),):
                raise Refused(
                    "shape", f"Expected {len(self.values)} times for as many samples, got {self.time_s.size}."
                )


def check_limits(chunk: Chunk, limits: Limits) -> Chunk:
    """Return the chunk; raise `Refused` if it is too long or has values or times that are not finite or too large."""
    count = len(chunk.values)
    if count > limits.samples:
        raise Refused("samples", f"Expected at most {limits.samples} samples, got {count}; send smaller chunks.", 413)
    if not np.abs(chunk.values).max() <= limits.value:  # also true for NaN
        raise Refused("values", f"Expected finite values up to {limits.value:g}; leave out samples without a value.")
    times = chunk.t0 if chunk.time_s is None else chunk.time_s
    if times is not None and not np.abs(times).max() <= limits.time_s:
        raise Refused("time", f"Expected finite times in seconds up to {limits.time_s:g}; check the unit.")
    return chunk


@dataclass(frozen=True, eq=False)
class Ack:
    """Acknowledgement of a chunk that is durable."""

    chunk: Chunk  # as applied: with its number, and with the time of each sample if the client gave any
    events: list[Event]  # one prediction for each window that the chunk completed
    classes: tuple[str, ...]
    rate_hz: float
    start_s: float = 0.0  # time of the first sample if the client gave none
    duplicate: bool = False  # applied before: nothing was changed, and `events` are those of the first time
    dropped: int | None = None  # samples not used because their time does not increase; None if no longer known

    @property
    def wearer(self) -> str:
        return self.chunk.wearer

    @property
    def seq(self) -> int:
        assert self.chunk.seq is not None  # set when the chunk was applied
        return self.chunk.seq

    def sample_times(self) -> Array:
        if self.chunk.time_s is not None:
            return self.chunk.time_s
        return self.start_s + np.arange(len(self.chunk.values)) / self.rate_hz
