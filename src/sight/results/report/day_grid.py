"""Seconds of each class in short parts of each local day, the numbers behind the drawings of days."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sight.results.days import SECONDS_PER_DAY
from sight.results.summary import ResultSummary
from sight.types import Array

#: Length of a part of a day, in seconds.
BIN_S = 300
BINS = SECONDS_PER_DAY // BIN_S


class DayGrid(NamedTuple):
    """Days of a stream in parts of equal length of the local clock, five minutes by default."""

    valid: Array  # whether each of the D days is valid, bool
    seconds: Array  # worn seconds of each class and, last, seconds in which the sensor was not worn, (D, K + 1, parts)
    recorded: Array  # seconds between start and end of the recording, (D, parts): 0 in an hour that summer time skips

    def shares(self, day: int) -> Array:
        """Return the share of each part of a day, as `seconds`, (K + 1, parts)."""
        part_s = SECONDS_PER_DAY // self.recorded.shape[1]
        return np.asarray(self.seconds[day] / np.maximum(self.recorded[day], part_s))

    def main_classes(self) -> Array:
        """Return the most frequent class of each part, K if not worn and -1 without data, (D, parts)."""
        return np.where(self.seconds.any(axis=1), self.seconds.argmax(axis=1), -1)


def day_grid(summary: ResultSummary, labels: Array | None = None, bin_s: int = BIN_S) -> DayGrid:
    """Return the grid of a stream of at least one window; `labels` are its refined classes by default, (N,)."""
    listed, count, bins = summary.days, len(summary.classes) + 1, SECONDS_PER_DAY // bin_s
    seconds, recorded = np.zeros((len(listed), count, bins)), np.zeros((len(listed), bins))
    keys = np.where(summary.worn, summary.refined if labels is None else labels, count - 1)
    first, last = float(summary.start_s[0]), float(summary.end_s.max())
    for d, day in enumerate(listed):
        edges = np.arange(day.start_s, day.end_s + 1, bin_s)
        place = _local_bins(summary, edges, bin_s)
        np.add.at(recorded[d], place, np.clip(np.diff(np.clip(edges, first, last)), 0, None))
        own = (summary.end_s > day.start_s) & (summary.start_s < day.end_s)
        for which, part, length in _pieces(summary.start_s[own], summary.end_s[own], edges):
            np.add.at(seconds[d], (keys[own][which], place[part]), length)
    return DayGrid(np.array([row["valid"] for row in summary.rows("daily")], bool), seconds, recorded)


def _local_bins(summary: ResultSummary, edges: Array, bin_s: int) -> Array:
    """Return the part of the local day that follows each edge but the last; a skipped or repeated hour moves them."""
    middle = (edges[:-1] + bin_s / 2).tolist()
    if summary.clock(0.0) is None:
        return np.arange(len(middle)) % (SECONDS_PER_DAY // bin_s)
    clocks = [moment for moment in map(summary.clock, middle) if moment is not None]
    return np.array([(3600 * c.hour + 60 * c.minute + c.second) // bin_s for c in clocks], np.int64)


def _pieces(start: Array, end: Array, edges: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Cut intervals at edges: yield the interval, the part and the length of their first pieces, then of the second."""
    start, end = np.maximum(start, edges[0]), np.minimum(end, edges[-1])
    which = np.flatnonzero(start < end)
    while len(which):
        part = np.searchsorted(edges, start[which], side="right") - 1
        stop = np.minimum(end[which], edges[part + 1])
        yield which, part, stop - start[which]
        start[which] = stop
        which = which[stop < end[which]]
