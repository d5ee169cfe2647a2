"""A result with everything that tables, files, report and notebook derive from it, each computed once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from sight.results.days import Day, clock, find_days
from sight.results.segments import Segments, find_segments
from sight.results.tables import Row, table
from sight.results.tables.rules import TableRules
from sight.types import UNLABELLED, Array, Result, Warning

#: Windows have low confidence if the probability of their class is below this value: no class has a majority.
LOW_CONFIDENCE = 0.5


class ResultSummary:
    """A result with values derived from it; days and rows of tables are computed when they are first used.

    `rules` decide which days are valid and how long bouts last at least. `info` is what the result does not have:
    "title" and "subject" are shown at the top of the report, mappings such as "input" (facts of the file) and "model"
    (its card) are copied to `info.json`.

    Attributes
    ----------
    raw, refined
        Class of each window as predicted by the source model alone and by the method, (N,).
    changed
        Whether the two differ, (N,) bool.
    confidence, uncertain
        Refined probability of the refined class, (N,), and whether it is low, (N,) bool.
    truth
        Labels (N,), -1 for unlabelled windows; None if no window has a label.
    worn
        Whether the sensor was worn, (N,) bool.
    start_s, end_s, seconds
        Time that each window represents and its length, (N,). It ends at the next window, or with the window before a
        gap, so that times neither overlap nor cover gaps.
    gaps
        Start and end of each gap, (G, 2) seconds.
    intensity
        Intensity of movement in each window, name to (N,); empty if unknown.
    """

    def __init__(self, result: Result, rules: TableRules | None = None, info: Mapping[str, Any] | None = None) -> None:
        windows, shape = result.windows, (len(result.windows), len(result.classes))
        for name, array in (("p", result.p), ("q", result.q)):
            if array.shape != shape:
                raise ValueError(
                    f"Expected {name} of shape {shape} for {shape[0]} windows and {shape[1]} classes, got "
                    f"{array.shape}; pass the result as the run returned it."
                )
        self.result, self.classes = result, result.classes
        self.rules, self.info = rules or TableRules(), dict(info or {})
        self.intensity: Mapping[str, Array] = windows.intensity
        self.raw: Array = result.p.argmax(axis=1)
        self.refined: Array = result.q.argmax(axis=1)
        self.changed: Array = self.raw != self.refined
        self.confidence: Array = result.q.max(axis=1).astype(np.float64)
        self.uncertain: Array = self.confidence < LOW_CONFIDENCE
        self.truth: Array | None = windows.label if (windows.label != UNLABELLED).any() else None
        self.worn: Array = np.ones(len(windows), bool) if windows.wear is None else windows.wear.astype(bool)
        self.start_s: Array = windows.time_s
        own_end_s = windows.time_s + max(windows.window_s, windows.stride_s)
        next_s = np.append(windows.time_s[1:], np.inf)
        next_s[next_s <= windows.time_s] = np.inf  # the clock was set back
        self.end_s: Array = np.minimum(own_end_s, next_s)
        self.seconds: Array = self.end_s - self.start_s
        after_gap = np.flatnonzero(windows.gap_before_s[1:] > 0) + 1
        gap_end_s = windows.time_s[after_gap]
        self.gaps: Array = np.stack([gap_end_s - windows.gap_before_s[after_gap], gap_end_s], axis=1)
        self._rows: dict[str, Sequence[Row]] = {}

    def __len__(self) -> int:
        return len(self.result.windows)

    def minutes(self, labels: Array, where: Array) -> Array:
        """Return the minutes of each class among the windows `where`, (K,); labels of -1 are ignored."""
        keep = where & (labels >= 0)
        return np.bincount(labels[keep], weights=self.seconds[keep], minlength=len(self.classes)) / 60

    def segments(self, labels: Array) -> Segments:
        """Return the runs of equal labels (N,) of the stream."""
        w = self.result.windows
        return find_segments(labels, w.time_s, w.window_s, w.stride_s, w.gap_before_s)

    def clock(self, seconds: float) -> datetime | None:
        """Return the wall-clock time at a second of the stream, or None if the start time is unknown."""
        start = self.result.windows.start
        return None if start is None else clock(start, seconds)

    @cached_property
    def days(self) -> list[Day]:
        return find_days(self.start_s, self.end_s, self.result.windows.start)

    def rows(self, name: str) -> Sequence[Row]:
        """Return the rows of a registered table."""
        if name not in self._rows:
            self._rows[name] = table(name).rows(self)
        return self._rows[name]

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """Warnings of reading, and one if the recording is long but has no valid day."""
        needed, daily = self.rules.valid_day_h, self.rows("daily")
        span_h = float(self.end_s[-1] - self.start_s[0]) / 3600 if len(self) else 0.0
        if span_h < needed or any(row["valid"] for row in daily):
            return self.result.windows.warnings
        most = max((row["wear_h"] for row in daily), default=0.0)
        return (
            *self.result.windows.warnings,
            Warning(
                kind="valid-days",
                severity="warning",
                text=f"No day is valid: the sensor was worn for at most {most:.1f} h a day, and a valid day needs "
                f"{needed:g} h. Means over days are empty.",
                remedy="a shorter valid day can be chosen with --valid-day.",
            ),
        )
