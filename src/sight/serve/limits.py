"""How much one client may ask of the service: sizes, rates, numbers, and what a sane sample looks like."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from sight.serve.errors import KeeperError
from sight.types import Array

#: What a wearer may be called; it never meets a file system, and still could not harm one.
WEARER = r"[A-Za-z0-9._-]{1,64}"
_WEARER = re.compile(WEARER)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of the service, all of them options of the command.

    Parameters
    ----------
    message_bytes
        Largest body of a request and largest message of a socket.
    samples
        Most samples of one chunk.
    chunks_per_s
        Chunks of one wearer in a second, on average; ten seconds' worth may come at once.
    connection_chunks_per_s
        Chunks of one socket in a second; one that sends more is read more slowly.
    wearers
        Most wearers kept.
    connections
        Most open sockets.
    queue
        Most chunks that wait for their turn; beyond it callers are told to come back.
    time_s
        Largest absolute time of a sample. Seconds since 1970 pass, milliseconds do not.
    value
        Largest absolute value of a sample, in whatever unit.
    """

    message_bytes: int = 1 << 20
    samples: int = 20_000
    chunks_per_s: float = 100.0
    connection_chunks_per_s: float = 10_000.0
    wearers: int = 10_000
    connections: int = 1_000
    queue: int = 20_000
    time_s: float = 1e10
    value: float = 1e9

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"Expected a limit {field.name} above 0, got {getattr(self, field.name)}.")


class Refused(KeeperError):  # noqa: N818 - a refusal is no failure of ours
    """An input that is turned away before anything was changed.

    Parameters
    ----------
    reason
        One word for the metrics.
    text
        One sentence for the caller.
    status
        The HTTP status that says the same.
    """

    def __init__(self, reason: str, text: str, status: int = 422) -> None:
        super().__init__(text)
        self.reason = reason
        self.status = status


def check_wearer(name: str) -> str:
    """Return the name of a wearer, or refuse it.

    Examples
    --------
    >>> check_wearer("lab-07")
    'lab-07'
    >>> check_wearer("../etc")
    Traceback (most recent call last):
    ...
    sight.serve.limits.Refused: Expected a wearer named by 1 to 64 letters, digits, '.', '_' or '-'.
    """
    if not _WEARER.fullmatch(name):
        raise Refused("wearer", "Expected a wearer named by 1 to 64 letters, digits, '.', '_' or '-'.")
    return name


def check_samples(values: Array, time_s: Array | None, limits: Limits) -> None:
    """Refuse a chunk that is too long, or holds what no sensor measures."""
    if values.ndim != 2 or not values.size:
        raise Refused("shape", f"Expected values as n rows of C numbers, got shape {list(values.shape)}.")
    if len(values) > limits.samples:
        raise Refused("samples", f"Expected at most {limits.samples} samples, got {len(values)}; cut the chunk.", 413)
    if not np.abs(values).max() <= limits.value:  # also where one is NaN
        raise Refused("values", f"Expected finite values up to {limits.value:g}, got others; drop them.")
    if time_s is None:
        return
    if time_s.shape != (len(values),):
        raise Refused("shape", f"Expected {len(values)} times for as many samples, got {time_s.size}.")
    if not np.abs(time_s).max() <= limits.time_s:
        raise Refused("time", f"Expected times in seconds up to {limits.time_s:g}, got others; check the unit.")


class Pace:
    """Counts what each of many callers sends, by a bucket that fills at a fixed rate.

    Parameters
    ----------
    per_s
        What flows into each bucket in a second.
    burst_s
        Seconds after which a bucket is full.
    callers
        Most buckets kept; the one longest unused goes, and would be full by then.

    Examples
    --------
    >>> now = [0.0]
    >>> pace = Pace(2.0, burst_s=1.0, clock=lambda: now[0])
    >>> [pace.wait("a") for _ in range(3)]
    [0.0, 0.0, 0.5]
    >>> now[0] = 0.5
    >>> pace.wait("a")
    0.0
    """

    def __init__(
        self, per_s: float, burst_s: float = 10.0, callers: int = 100_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.per_s, self.most, self.callers, self.clock = per_s, max(1.0, per_s * burst_s), callers, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str, amount: float = 1.0) -> float:
        """Take from a bucket and return 0, or take nothing and return the seconds until there is enough."""
        now = self.clock()
        level, then = self._buckets.pop(caller, (self.most, now))
        level = min(self.most, level + (now - then) * self.per_s)
        missing = min(amount, self.most) - level
        self._buckets[caller] = (level - amount if missing <= 0 else level, now)
        if len(self._buckets) > self.callers:
            self._buckets.popitem(last=False)
        return max(0.0, missing / self.per_s)
