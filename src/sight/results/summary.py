"""A result with everything that tables, files, report and notebook derive from it, each computed once."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from sight.recordings.signal.intensity import cut_points
from sight.recordings.signal.nights import Night, in_bed
from sight.results.days import SECONDS_PER_DAY, Day, clock, find_days
from sight.results.movement import Movement
from sight.results.nights import nights_of, wakes_of, why_no_nights
from sight.results.output_tables import Row, table
from sight.results.output_tables.rules import TableRules
from sight.results.segments import Segments, find_segments
from sight.types import SEVERITIES, UNLABELLED, Array, Result, Severity, Warning

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
    in_bed, awake
        Whether the window lies in the sleep period of a night, and whether it was worn and does not, (N,) bool. Without
        nights, all worn time is `awake`.
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
        self.in_bed: Array = in_bed(self.nights, (self.start_s + self.end_s) / 2)
        self.awake: Array = self.worn & ~self.in_bed
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
        begins_s = wakes_of(self.nights) if self.days_from == "waking" else ()
        midnight, start = self.days_from == "midnight", self.result.windows.start
        return find_days(self.start_s, self.end_s, start, midnight=midnight, begins_s=begins_s)

    @property
    def days_from(self) -> str:
        """Where days begin, see `TableRules`: at midnight also if no night was found to wake from."""
        asleep = any(night.is_found for night in self.nights)
        return "midnight" if self.rules.days_from == "waking" and not asleep else self.rules.days_from

    @cached_property
    def nights(self) -> list[Night]:
        """Nights with enough data, found or not; empty if nights cannot be computed."""
        return [] if self.no_nights else nights_of(self.result.windows)

    @property
    def no_nights(self) -> str:
        """Why nights cannot be computed; empty if they can."""
        return why_no_nights(self.result.windows)

    @cached_property
    def movement(self) -> Movement | None:
        """Levels of intensity in epochs of five seconds; None if there are no epochs."""
        windows = self.result.windows
        if windows.epochs is None:
            return None
        return Movement.of(windows.epochs, self.nights, cut_points(self.rules.cut_points, windows.facts.placement))

    def rows(self, name: str) -> Sequence[Row]:
        """Return the rows of a registered table."""
        if name not in self._rows:
            self._rows[name] = table(name).rows(self)
        return self._rows[name]

    @property
    def severities(self) -> dict[Severity, int]:
        """Number of warnings of each severity."""
        found = [warning.severity for warning in self.warnings]
        return {severity: found.count(severity) for severity in SEVERITIES}

    @property
    def usable(self) -> bool:
        """Whether the numbers can be shown as results: no warning is an error."""
        return not self.severities["error"]

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """Warnings of reading, and those about days and nights of a long recording."""
        return (*self.result.windows.warnings, *self._night_warnings(), *self._day_warnings())

    @property
    def span_h(self) -> float:
        """Hours from the start to the end of the recording."""
        return float(self.end_s[-1] - self.start_s[0]) / 3600 if len(self) else 0.0

    def _night_warnings(self) -> Iterator[Warning]:
        if self.span_h < SECONDS_PER_DAY / 3600:
            return
        if self.no_nights:
            text = f"Nights are not computed: {self.no_nights}. Sleep counts as time of the classes."
            yield Warning(kind="nights", severity="note", text=text)
        if self.days_from != self.rules.days_from:
            text = "Days begin at midnight, not with waking: no night was found."
            yield Warning(kind="days", severity="warning", text=text)

    def _day_warnings(self) -> Iterator[Warning]:
        needed, daily = self.rules.valid_day_h, self.rows("daily")
        if self.span_h >= needed and not any(row["valid"] for row in daily):
            most = max((row["wear_h"] for row in daily), default=0.0)
            yield Warning(
                kind="valid-days",
                severity="warning",
                text=f"No day is valid: the sensor was worn for at most {most:.1f} h a day, and a valid day needs "
                f"{needed:g} h. Means over days are empty.",
                remedy="a shorter valid day can be chosen with --valid-day.",
            )
