"""Limits on what clients may send: sizes, rates, counts and ranges of values."""

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
    """Largest sizes, counts, rates and values accepted; each is set with ``sight serve --limit NAME=VALUE``."""

    message_bytes: int = 1 << 20  # of a request body or a WebSocket message
    message_chunks: int = 1_000  # in one binary message
    samples: int = 20_000  # in one chunk
    chunks_per_s: float = 100.0  # of one wearer, on average; ten seconds' worth may come at once
    connection_chunks_per_s: float = 10_000.0  # of one WebSocket; a faster one is read more slowly
    requests_per_s: float = 100.0  # of one token, without those that send samples; ten seconds' worth may come at once
    wearers: int = 10_000  # stored
    state_bytes: int = 4 << 20  # that the method of one wearer may hold; a wearer that would need more is not created
    connections: int = 1_000  # open WebSockets that have shown a token
    unauthenticated: int = 100  # open WebSockets that have not; the oldest is closed for a new one
    open_connections: int = 2_000  # of any kind; the one that waits longest for its request is closed for a new one
    queue: int = 20_000  # chunks waiting to be processed; beyond it chunks are refused with status 503
    time_s: float = 1e10  # largest absolute sample time; seconds since 1970 are accepted, milliseconds are not
    value: float = 1e9  # largest absolute sample value, in the unit of its channel

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"Expected a limit {field.name} above 0, got {getattr(self, field.name)}.")


def check_wearer(name: str) -> str:
    """Return the name of a wearer; raise `Refused` if it is not valid."""
    if len(name) > WEARER_LENGTH or not re.fullmatch(WEARER, name):
        raise Refused("wearer", WEARER_RULE)
    return name


class RateLimiter:
    """Token bucket for each of many callers; an empty bucket is full after `burst_s` seconds."""

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
