"""Seconds of each class in short parts of each local day, the numbers behind the drawings of days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sight.results.tables import Day, ResultSummary, daily_rows, days
from sight.types import Array

#: Length of a part of a day, in seconds.
BIN_S = 300
BINS = 24 * 60 * 60 // BIN_S


class DayGrid(NamedTuple):
    """Days of a stream in parts of five minutes of the local clock.

    Attributes
    ----------
    days, rows
        The D days and their rows of `daily.csv`.
    seconds
        Worn seconds of each class and, last, seconds in which the sensor was not worn, (D, K + 1, BINS).
    recorded
        Seconds between the start and the end of the recording, (D, BINS): none in the hour that a change to summer time
        skips, twice as many in the hour that is repeated.
    """

    days: Sequence[Day]
    rows: Sequence[Mapping[str, Any]]
    seconds: Array
    recorded: Array

    @property
    def valid(self) -> Array:
        """Whether each day is valid, (D,) bool."""
        return np.array([row["valid"] for row in self.rows], bool)

    def shares(self, day: int) -> Array:
        """Return the share of each part of a day, as `seconds`, (K + 1, BINS)."""
        return np.asarray(self.seconds[day] / np.maximum(self.recorded[day], BIN_S))


def day_grid(summary: ResultSummary) -> DayGrid:
    """Return the grid of a stream of at least one window."""
    listed, count = days(summary), len(summary.classes) + 1
    seconds, recorded = np.zeros((len(listed), count, BINS)), np.zeros((len(listed), BINS))
    keys = np.where(summary.worn, summary.refined, count - 1)
    first, last = float(summary.start_s[0]), float(summary.end_s.max())
    for d, day in enumerate(listed):
        edges = np.arange(day.start_s, day.end_s + 1, BIN_S)
        place = _local_bins(summary, edges)
        np.add.at(recorded[d], place, np.clip(np.diff(np.clip(edges, first, last)), 0, None))
        own = (summary.end_s > day.start_s) & (summary.start_s < day.end_s)
        piece, part, length = _split(summary.start_s[own], summary.end_s[own], edges)
        np.add.at(seconds[d], (keys[own][piece], place[part]), length)
    return DayGrid(listed, daily_rows(summary), seconds, recorded)


def _local_bins(summary: ResultSummary, edges: Array) -> Array:
    """Return the part of the local day that follows each edge but the last; a skipped or repeated hour moves them."""
    middle = (edges[:-1] + BIN_S / 2).tolist()
    clocks = [summary.clock(second) for second in middle]
    if clocks[0] is None:
        return np.arange(len(middle)) % BINS
    return np.array([(3600 * c.hour + 60 * c.minute + c.second) // BIN_S for c in clocks if c is not None], np.int64)


def _split(start: Array, end: Array, edges: Array) -> tuple[Array, Array, Array]:
    """Cut intervals at edges; return the interval, the part and the length of each piece.

    Examples
    --------
    >>> [a.tolist() for a in _split(np.array([1.0, 9]), np.array([4.0, 25]), np.array([0, 10, 20]))]
    [[0, 1, 1], [0, 0, 1], [3.0, 1.0, 10.0]]
    """
    last = len(edges) - 2
    low = np.clip(np.searchsorted(edges, start, side="right") - 1, 0, last)
    high = np.clip(np.searchsorted(edges, end, side="left") - 1, low, last)
    piece = np.repeat(np.arange(len(start)), high - low + 1)
    part = low[piece] + np.arange(len(piece)) - np.repeat(np.cumsum(high - low + 1) - (high - low + 1), high - low + 1)
    length = np.minimum(end[piece], edges[part + 1]) - np.maximum(start[piece], edges[part])
    return piece, part, np.clip(length, 0, None)
