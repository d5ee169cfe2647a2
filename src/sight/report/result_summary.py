"""What the output files and the report both say about a result, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np

from sight.types import UNLABELLED, Array, Result

#: Below this probability of the answered class a window counts as unsure: no class has the majority.
LOW_CONFIDENCE = 0.5


@dataclass(frozen=True, eq=False)
class ResultSummary:
    """A result with everything derived from it that files and pages need.

    Parameters
    ----------
    result
        The stream and the answers on it.
    low_confidence
        Below this probability of the answered class a window counts as unsure.

    Examples
    --------
    >>> from sight.evaluate import run
    >>> from sight.registry import method
    >>> from sight.testing import ToySource, toy_stream
    >>> summary = ResultSummary(run(method("none").bind(ToySource()), toy_stream(n=60)))
    >>> float(summary.seconds.sum()), summary.share_changed
    (61.0, 0.0)
    """

    result: Result
    low_confidence: float = LOW_CONFIDENCE

    def __post_init__(self) -> None:
        n, k = len(self.result.windows), len(self.result.classes)
        for name in ("p", "q"):
            shape = getattr(self.result, name).shape
            if shape != (n, k):
                raise ValueError(
                    f"Expected {name} of shape ({n}, {k}) for {n} windows and {k} classes, got {shape}; "
                    f"pass the result as the run returned it."
                )

    def __len__(self) -> int:
        return len(self.result.windows)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.result.classes

    @cached_property
    def raw(self) -> Array:
        """Class of each window as the source alone answers, (N,)."""
        return np.asarray(self.result.p.argmax(axis=1))

    @cached_property
    def refined(self) -> Array:
        """Class of each window as the method answers, (N,)."""
        return np.asarray(self.result.q.argmax(axis=1))

    @cached_property
    def confidence(self) -> Array:
        """Refined probability of the refined class, (N,)."""
        return np.asarray(self.result.q.max(axis=1), dtype=np.float64)

    @cached_property
    def unsure(self) -> Array:
        """Where the confidence is low, (N,) bool."""
        return np.asarray(self.confidence < self.low_confidence)

    @property
    def truth(self) -> Array | None:
        """Labels, -1 = none; None where no window has one."""
        label = self.result.windows.label
        return label if (label != UNLABELLED).any() else None

    @property
    def worn(self) -> Array:
        """Where the sensor was worn, (N,) bool."""
        wear = self.result.windows.wear
        return np.ones(len(self), dtype=bool) if wear is None else wear.astype(bool)

    @property
    def start_s(self) -> Array:
        """Where the time that each window stands for begins, (N,)."""
        return self.result.windows.time_s

    @cached_property
    def end_s(self) -> Array:
        """Where it ends: at the next window, or with the window's own end before a gap; so times add up."""
        windows = self.result.windows
        own = windows.time_s + max(windows.window_s, windows.stride_s)
        return np.asarray(np.minimum(own, np.append(windows.time_s[1:], np.inf)))

    @property
    def seconds(self) -> Array:
        """Time that each window stands for, (N,)."""
        return np.asarray(self.end_s - self.start_s)

    @property
    def gaps(self) -> Array:
        """Beginning and end of each stretch without data, (G, 2) seconds."""
        gap = self.result.windows.gap_before_s
        at = np.flatnonzero(gap > 0)
        at = at[at > 0]
        ends = self.start_s[at]
        return np.stack([ends - gap[at], ends], axis=1)

    @property
    def share_changed(self) -> float:
        """Share of windows whose class differs between raw and refined."""
        return float((self.raw != self.refined).mean()) if len(self) else 0.0

    def minutes(self, answers: Array, where: Array | None = None) -> Array:
        """Minutes of each class among the windows `where`, (K,); answers of -1 count for none."""
        keep = (answers >= 0) if where is None else where & (answers >= 0)
        return np.bincount(answers[keep], weights=self.seconds[keep], minlength=len(self.classes)) / 60

    def clock(self, seconds: float) -> datetime | None:
        """Wall clock at so many seconds of the stream, or None where nobody knows the start."""
        start = self.result.windows.start
        return None if start is None else clock(start, seconds)


def clock(start: datetime, seconds: float) -> datetime:
    """Add elapsed seconds to a wall clock, right over a change of summer time.

    Examples
    --------
    >>> from zoneinfo import ZoneInfo
    >>> clock(datetime(2024, 3, 31, 1, 30, tzinfo=ZoneInfo("Europe/Berlin")), 3600).isoformat()
    '2024-03-31T03:30:00+02:00'
    """
    if start.tzinfo is None:
        return start + timedelta(seconds=float(seconds))
    return (start.astimezone(UTC) + timedelta(seconds=float(seconds))).astimezone(start.tzinfo)


def same_stream(result: Result, others: Sequence[Result]) -> None:
    """Refuse results of other streams or classes, which no page can show side by side."""
    for other in others:
        if other.classes != result.classes or not np.array_equal(other.windows.time_s, result.windows.time_s):
            raise ValueError(
                f"Expected results of one stream and one set of classes, but {other.method} and {result.method} "
                f"differ; write a report for each stream."
            )
