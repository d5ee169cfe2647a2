"""Time axis of the timeline, in strides since the first window, with ticks at round times of the local clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from sight.report.html import Html, tag
from sight.tables.result_summary import ResultSummary
from sight.types import Array

STEPS_S = (1, 2, 5, 10, 15, 30, *(60 * m for m in (1, 2, 5, 10, 15, 30)), *(3600 * h for h in (1, 2, 3, 6, 12, 24)))


@dataclass(frozen=True)
class Axis:
    """Mapping of the seconds of a stream to the units of a drawing; one unit is one stride.

    The axis is linear: if summer time begins or ends inside a recording, labels keep the clock of its start.
    """

    origin_s: float
    unit_s: float
    span: int  # number of units
    clock_s: float | None  # local wall-clock time at the origin in seconds, None if unknown

    @classmethod
    def of(cls, summary: ResultSummary) -> Axis:
        """Return the axis of a stream of at least one window."""
        origin, unit = float(summary.start_s[0]), summary.result.windows.stride_s
        start = summary.clock(origin)
        return cls(
            origin_s=origin,
            unit_s=unit,
            span=max(1, int(np.ceil((summary.end_s[-1] - origin) / unit))),
            clock_s=None if start is None else start.replace(tzinfo=UTC).timestamp(),
        )

    def place(self, seconds: Array) -> Array:
        """Round seconds of the stream to units of the drawing."""
        return np.rint((seconds - self.origin_s) / self.unit_s).astype(np.int64)

    def ticks(self, limit: int = 8) -> list[tuple[float, str]]:
        """Return at most `limit` ticks at round times, as (share of the axis, label).

        Examples
        --------
        >>> Axis(0.0, 1.0, 7200, None).ticks(limit=5)
        [(0.0, '0:00'), (0.25, '0:30'), (0.5, '1:00'), (0.75, '1:30'), (1.0, '2:00')]
        """
        length = self.span * self.unit_s
        coarsest = 86400 * int(np.ceil(length / 86400 / (limit - 1)))
        step = next((s for s in STEPS_S if length / s <= limit - 1), coarsest)
        base = self.clock_s or 0.0
        moments = np.arange(np.ceil(base / step) * step, base + length + 1e-6, step)
        return [((m - base) / length, self._label(float(m), step)) for m in moments.tolist()]

    def _label(self, moment: float, step: float) -> str:
        if self.clock_s is not None:
            at = datetime.fromtimestamp(moment, UTC)
            if moment % 86400 == 0:
                return f"{at:%a} {at.day} {at:%b}"
            return f"{at:%H:%M:%S}" if step < 60 else f"{at:%H:%M}"
        minutes, seconds = divmod(round(moment), 60)
        text = f"{minutes // 60}:{minutes % 60:02d}"
        return f"{text}:{seconds:02d}" if step < 60 else text

    def labels(self) -> Html:
        """Return the labels below the lanes."""
        spans = (tag("span", label, style=f"left:{100 * share:.3f}%") for share, label in self.ticks())
        return tag("div", *spans, class_="ticks", aria_hidden="true")
