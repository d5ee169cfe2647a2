"""Limits on what clients may send: sizes, rates, counts and ranges of values."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields

from sight.apps.serve.errors import Refused

#: Regular expression of a wearer's name, and its greatest length. Names of dots alone would change the path of a URL.
WEARER, WEARER_LENGTH = r"\.*[A-Za-z0-9_-][A-Za-z0-9._-]*", 64
#: Most buckets of a rate limiter; beyond it the least recently used is dropped.
MAX_BUCKETS = 100_000
WEARER_RULE = "The name of a wearer has 1 to 64 letters, digits, ., _ or -, and not dots alone."


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the service; each is set with ``sight serve --limit NAME=VALUE``.

    Parameters
    ----------
    message_bytes
        Largest request body and largest WebSocket message.
    message_chunks
        Most chunks in one binary message.
    samples
        Most samples in one chunk.
    chunks_per_s
        Chunks of one wearer per second, on average; ten seconds' worth may come at once.
    connection_chunks_per_s
        Chunks per second of one WebSocket; a faster one is read more slowly.
    wearers
        Most wearers stored.
    state_bytes
        Most bytes that the method of one wearer may hold; a wearer that would need more is not created.
    connections
        Most open WebSockets that have shown a token.
    unauthenticated
        Most open WebSockets that have not; the oldest is closed for a new one.
    open_connections
        Most open connections of any kind; the one that has waited longest for its headers is closed for a new one.
    queue
        Most chunks waiting to be processed; beyond it chunks are refused with status 503.
    time_s
        Largest absolute sample time. Seconds since 1970 are accepted, milliseconds are not.
    value
        Largest absolute sample value, in the unit of its channel.
    """

    message_bytes: int = 1 << 20
    message_chunks: int = 1_000
    samples: int = 20_000
    chunks_per_s: float = 100.0
    connection_chunks_per_s: float = 10_000.0
    wearers: int = 10_000
    state_bytes: int = 4 << 20
    connections: int = 1_000
    unauthenticated: int = 100
    open_connections: int = 2_000
    queue: int = 20_000
    time_s: float = 1e10
    value: float = 1e9

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"Expected a limit {field.name} above 0, got {getattr(self, field.name)}.")


def check_wearer(name: str) -> str:
    """Return the name of a wearer; raise `Refused` if it is not valid.

    Examples
    --------
    >>> check_wearer("lab-07")
    'lab-07'
    >>> check_wearer("../etc")
    Traceback (most recent call last):
    ...
    sight.apps.serve.errors.Refused: The name of a wearer has 1 to 64 letters, digits, ., _ or -, and not dots alone.
    """
    if len(name) > WEARER_LENGTH or not re.fullmatch(WEARER, name):
        raise Refused("wearer", WEARER_RULE)
    return name


class RateLimiter:
    """Token bucket for each of many callers.

    Parameters
    ----------
    per_s
        Units that flow into each bucket per second.
    burst_s
        Seconds after which an empty bucket is full.

    Examples
    --------
    >>> now = [0.0]
    >>> limiter = RateLimiter(2.0, burst_s=1.0, clock=lambda: now[0])
    >>> [limiter.delay_s("a") for _ in range(3)]
    [0.0, 0.0, 0.5]
    >>> now[0] = 0.5
    >>> limiter.delay_s("a")
    0.0
    """

    def __init__(self, per_s: float, burst_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_s, self.capacity, self.clock = per_s, max(1.0, per_s * burst_s), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def delay_s(self, caller: str) -> float:
        """Take one unit and return 0; or, if there is none, return the seconds until there is."""
        now = self.clock()
        level, updated = self._buckets.pop(caller, (self.capacity, now))
        level = min(self.capacity, level + (now - updated) * self.per_s)
        missing = 1.0 - level
        self._buckets[caller] = (level - 1.0 if missing <= 0 else level, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return max(0.0, missing / self.per_s)
