"""Seconds of each class in short parts of each day, the numbers behind the drawings of days."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sight.results.days import SECONDS_PER_DAY
from sight.results.summary import ResultSummary
from sight.types import Array

#: Length of a part of a day, in seconds.
BIN_S = 300
#: Seconds to which the length of rows that begin with waking is rounded up.
HALF_HOUR_S = 1800


class DayGrid(NamedTuple):
    """Days of a stream in parts of equal length, five minutes by default.

    The rows follow the local clock from hour `first_h` on; without a clock, or from waking to waking, they follow the
    time since the start of the day.
    """

    valid: Array  # whether each of the D days is valid, bool
    seconds: Array  # awake seconds of each class, then worn seconds in bed, then not worn ones, (D, K + 2, parts)
    recorded: Array  # seconds between start and end of the recording, (D, parts): 0 in an hour that summer time skips
    bin_s: int  # length of a part
    first_h: int  # hour of the clock at the first part
    unit: str  # "" if hours are those of the clock, else "h" or, since waking, "h awake"

    @property
    def hours(self) -> int:
        """Length of a row, rounded up."""
        return -(-int(self.recorded.shape[1]) * self.bin_s // 3600)

    def hour_label(self, hour: int) -> str:
        """Return the name of the moment this many hours after the start of a row."""
        if self.unit:
            return f"{hour} h"
        at = self.first_h + hour
        return f"{at:02d}" if at == 24 else f"{at % 24:02d}"

    def shares(self, day: int) -> Array:
        """Return the share of each part of a day, as `seconds`, (K + 2, parts)."""
        return np.asarray(self.seconds[day] / np.maximum(self.recorded[day], self.bin_s))

    def main_classes(self) -> Array:
        """Return the most frequent class of each part, K in bed, K + 1 if not worn, -1 without data, (D, parts)."""
        return np.where(self.seconds.any(axis=1), self.seconds.argmax(axis=1), -1)


def day_grid(summary: ResultSummary, labels: Array | None = None, bin_s: int = BIN_S) -> DayGrid:
    """Return the grid of a stream of at least one window; `labels` are its refined classes by default, (N,)."""
    listed, classes = summary.days, len(summary.classes)
    first_h, unit, row_s = _axis(summary)
    seconds, recorded = (np.zeros((len(listed), *shape, row_s // bin_s)) for shape in ((classes + 2,), ()))
    keys = np.where(summary.in_bed, classes, summary.refined if labels is None else labels)
    keys = np.where(summary.worn, keys, classes + 1)
    first, last = float(summary.start_s[0]), float(summary.end_s.max())
    for d, day in enumerate(listed):
        edges = np.append(np.arange(day.start_s, day.end_s - 1e-6, bin_s), day.end_s)
        place = _places(summary, edges, bin_s, None if unit else first_h)
        np.add.at(recorded[d], place, np.clip(np.diff(np.clip(edges, first, last)), 0, None))
        own = (summary.end_s > day.start_s) & (summary.start_s < day.end_s)
        for which, part, length in _pieces(summary.start_s[own], summary.end_s[own], edges):
            np.add.at(seconds[d], (keys[own][which], place[part]), length)
    valid = np.array([row["valid"] for row in summary.rows("daily")], bool)
    return DayGrid(valid, seconds, recorded, bin_s, first_h, unit)


def _axis(summary: ResultSummary) -> tuple[int, str, int]:
    """Return the clock hour at which rows begin, the unit of hours that are not of the clock, and seconds of a row."""
    begin = summary.clock(float(summary.start_s[0]))
    if begin is None:
        return 0, "h", SECONDS_PER_DAY
    if summary.days_from == "waking":
        longest = max(day.end_s - day.start_s for day in summary.days)
        return 0, "h awake", int(-(-longest // HALF_HOUR_S) * HALF_HOUR_S)
    return begin.hour if summary.days_from == "start" else 0, "", SECONDS_PER_DAY


def _places(summary: ResultSummary, edges: Array, bin_s: int, first_h: int | None) -> Array:
    """Return the part of a row that follows each edge but the last.

    With `first_h` it is that of the local clock: a skipped or repeated hour moves parts.
    """
    middle = ((edges[:-1] + edges[1:]) / 2).tolist()
    if first_h is None:
        return np.arange(len(middle))
    clocks = [moment for moment in map(summary.clock, middle) if moment is not None]
    of_day = np.array([3600 * (c.hour - first_h) + 60 * c.minute + c.second for c in clocks], np.int64)
    return np.asarray(of_day % SECONDS_PER_DAY // bin_s)


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
