"""Live views: answers and a thinned signal go to whoever watches; a slow watcher is moved on, nobody waits for it."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sight.serve.chunk_format import dumps
from sight.types import Array

#: Samples a second that a page gets to draw, answers it starts with, and seconds between two pictures.
SIGHT_HZ, HISTORY, PICTURE_S = 25.0, 600, 1.0


class Watcher:
    """The outbox of a socket for one wearer.

    Parameters
    ----------
    some
        Set when there is something to send.
    most
        Messages that may wait; beyond it all are dropped, and the watcher starts anew from the newest.

    Examples
    --------
    >>> watcher = Watcher(asyncio.Event(), most=2)
    >>> watcher.lagging = False
    >>> for text in "abc":
    ...     watcher.push(text)
    >>> list(watcher.outbox), watcher.lagging
    ([], True)
    """

    def __init__(self, some: asyncio.Event, most: int = 256) -> None:
        self.outbox: deque[tuple[str, int | None]] = deque()
        self.some = some
        self.lagging, self.greeted = True, False  # everybody begins by catching up
        self.most = most

    def push(self, text: str, window: int | None = None) -> None:
        """Add a message and the window it is about, or drop all and remember that."""
        if len(self.outbox) >= self.most:
            self.outbox.clear()
            self.lagging = True
        else:
            self.outbox.append((text, window))
        self.some.set()


class Hub:
    """Who watches whom.

    Parameters
    ----------
    picture
        Called with a wearer whose picture is due; it sends one with `tell` when it has it.
    """

    def __init__(self, picture: Callable[[str], None]) -> None:
        self._watched: dict[str, _Watched] = {}
        self._picture = picture

    def join(self, wearer: str, watcher: Watcher) -> None:
        """Let a watcher see a wearer from now on."""
        self._watched.setdefault(wearer, _Watched()).watchers.add(watcher)

    def leave(self, wearer: str, watcher: Watcher) -> None:
        """Let a watcher see a wearer no longer."""
        watched = self._watched.get(wearer)
        if watched is not None:
            watched.watchers.discard(watcher)
            if not watched.watchers:
                del self._watched[wearer]

    def watched(self, wearer: str) -> bool:
        """Tell whether anybody watches."""
        return wearer in self._watched

    def tell(self, wearer: str, content: dict[str, Any], window: int | None = None) -> None:
        """Send a message to all watchers of a wearer."""
        if wearer in self._watched:
            text = dumps(content)
            for watcher in self._watched[wearer].watchers:
                watcher.push(text, window)

    def set_clock(self, wearer: str, end_s: float | None, rate_hz: float) -> None:
        """Say when the latest sample was, for chunks that come without times."""
        if wearer in self._watched:
            watched = self._watched[wearer]
            watched.end_s = -1 / rate_hz if end_s is None else end_s
            watched.thinner = watched.thinner or Thinner(rate_hz)

    def signal(self, wearer: str, values: Array, time_s: Array | None) -> None:
        """Send samples, as few as a page can draw."""
        watched = self._watched[wearer]
        if watched.thinner is None:  # nobody has been greeted yet
            return
        if time_s is None:
            time_s = watched.end_s + np.arange(1, len(values) + 1) / watched.thinner.rate_hz
        watched.end_s = float(time_s[-1])
        kept = watched.thinner.keep(len(values))
        if len(kept):
            times, rows = np.round(time_s[kept], 4).tolist(), np.round(values[kept].astype(np.float64), 4).tolist()
            self.tell(wearer, {"type": "signal", "wearer": wearer, "time_s": times, "values": rows})

    def after_answers(self, wearer: str) -> None:
        """Ask for a picture where the last one is a second old."""
        now, watched = time.monotonic(), self._watched[wearer]
        if now - watched.pictured >= PICTURE_S:
            watched.pictured = now
            self._picture(wearer)


@dataclass(eq=False)
class _Watched:
    """A wearer whom somebody watches."""

    watchers: set[Watcher] = field(default_factory=set)
    thinner: Thinner | None = None
    end_s: float = 0.0
    pictured: float = -math.inf


class Thinner:
    """Chooses every n-th sample of a stream that comes in chunks.

    Examples
    --------
    >>> thinner = Thinner(100.0)
    >>> [thinner.keep(3).tolist() for _ in range(4)]
    [[0], [1], [2], []]
    """

    def __init__(self, rate_hz: float) -> None:
        self.rate_hz = rate_hz
        self.step = max(1, math.ceil(rate_hz / SIGHT_HZ))
        self._next = 0

    def keep(self, count: int) -> Array:
        """Return which of the next `count` samples to keep."""
        kept = np.arange(self._next, count, self.step)
        self._next += len(kept) * self.step - count
        return kept
