"""Values derived from a result, shared by the tables and the report."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np

from sight.results.tables.rules import TableRules
from sight.types import UNLABELLED, Array, Result

#: Default threshold of low confidence: below it, no class has a majority.
LOW_CONFIDENCE = 0.5


class ResultSummary:
    """A result with values derived from it.

    Parameters
    ----------
    result
        The stream and its predictions.
    low_confidence
        Windows have low confidence if the probability of their class is below this value.
    rules
        Rules of the tables.

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

    Examples
    --------
    >>> from sight.results.prediction_loop import run
    >>> from sight.registry import method
    >>> from sight.testing import ToySource, toy_stream
    >>> summary = ResultSummary(run(method("none").bind(ToySource()), toy_stream(n=60)))
    >>> float(summary.seconds.sum()), int(summary.changed.sum())
    (61.0, 0)
    """

    def __init__(self, result: Result, low_confidence: float = LOW_CONFIDENCE, rules: TableRules | None = None) -> None:
        windows, shape = result.windows, (len(result.windows), len(result.classes))
        for name, array in (("p", result.p), ("q", result.q)):
            if array.shape != shape:
                raise ValueError(
                    f"Expected {name} of shape {shape} for {shape[0]} windows and {shape[1]} classes, got "
                    f"{array.shape}; pass the result as the run returned it."
                )
        self.result, self.classes, self.low_confidence = result, result.classes, low_confidence
        self.rules = rules or TableRules()
        self.intensity: Mapping[str, Array] = windows.intensity
        self.raw: Array = result.p.argmax(axis=1)
        self.refined: Array = result.q.argmax(axis=1)
        self.changed: Array = self.raw != self.refined
        self.confidence: Array = result.q.max(axis=1).astype(np.float64)
        self.uncertain: Array = self.confidence < low_confidence
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

    def __len__(self) -> int:
        return len(self.result.windows)

    def minutes(self, labels: Array, where: Array) -> Array:
        """Return the minutes of each class among the windows `where`, (K,); labels of -1 are ignored."""
        keep = where & (labels >= 0)
        return np.bincount(labels[keep], weights=self.seconds[keep], minlength=len(self.classes)) / 60

    def clock(self, seconds: float) -> datetime | None:
        """Return the wall-clock time at a second of the stream, or None if the start time is unknown."""
        start = self.result.windows.start
        return None if start is None else clock(start, seconds)


def clock(start: datetime, seconds: float) -> datetime:
    """Add elapsed seconds to a wall-clock time, also across a change to or from summer time.

    Examples
    --------
    >>> from zoneinfo import ZoneInfo
    >>> clock(datetime(2024, 3, 31, 1, 30, tzinfo=ZoneInfo("Europe/Berlin")), 3600).isoformat()
    '2024-03-31T03:30:00+02:00'
    """
    if start.tzinfo is None:
        return start + timedelta(seconds=float(seconds))
    return (start.astimezone(UTC) + timedelta(seconds=float(seconds))).astimezone(start.tzinfo)
