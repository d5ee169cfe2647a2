"""Time axis of the timeline, in strides since the first window, with ticks at round times of the local clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sight.results.report.html import Html, tag
from sight.results.summary import ResultSummary
from sight.types import Array

STEPS_S = (1, 2, 5, 10, 15, 30, *(60 * m for m in (1, 2, 5, 10, 15, 30)), *(3600 * h for h in (1, 2, 3, 6, 12, 24)))
#: A gap longer than this share of the recorded time is shortened, so that it does not hide the data around it.
LONG_GAP = 0.5
#: Width of a shortened gap, as a share of the recorded time.
SHORTENED = 0.04


class Piece(NamedTuple):
    """Part of an axis with an even scale: its first unit, the clock there in seconds, and clock seconds per unit."""

    unit: float
    clock_s: float
    slope: float


@dataclass(frozen=True)
class Axis:
    """Mapping of the seconds of a stream to the units of a drawing; one unit is one stride, except in a long gap.

    A new piece begins at each end of a long gap and where the local clock changes to or from summer time.
    """

    unit_s: float
    span: int  # number of units
    knots_s: tuple[float, ...]  # seconds of the stream at which pieces begin, and its end
    pieces: tuple[Piece, ...]
    clock: bool  # whether clock seconds are wall-clock time, else seconds since the start

    @classmethod
    def of(cls, summary: ResultSummary) -> Axis:
        origin, end, unit_s = float(summary.start_s[0]), float(summary.end_s.max()), summary.result.windows.stride_s
        recorded_s = float(summary.seconds.sum())
        gap_s = np.diff(summary.gaps)[:, 0] if len(summary.gaps) else np.zeros(0)
        long = summary.gaps[gap_s > LONG_GAP * recorded_s]
        changes = _clock_changes(summary)
        knots = sorted({origin, end, *long.ravel().tolist(), *(c for c in changes if not _inside(c, long))})
        pieces, unit = [], 0.0
        for low, high in pairwise(knots):
            width = (SHORTENED * recorded_s if _inside((low + high) / 2, long) else high - low) / unit_s
            pieces.append(Piece(unit, _clock_seconds(summary, low), (high - low) / max(width, 1e-9)))
            unit += width
        return cls(unit_s, max(1, int(np.ceil(unit))), tuple(knots), tuple(pieces), summary.clock(0.0) is not None)

    def place(self, seconds: Array) -> Array:
        """Round seconds of the stream to units of the drawing."""
        ends = [*(piece.unit for piece in self.pieces), self._end()]
        return np.rint(np.interp(seconds, self.knots_s, ends)).astype(np.int64)

    def _end(self) -> float:
        last = self.pieces[-1]
        return last.unit + (self.knots_s[-1] - self.knots_s[-2]) / last.slope

    def ticks(self, limit: int = 8) -> list[tuple[float, str]]:
        """Return about `limit` ticks at round times, as (share of the axis, label); long gaps have none."""
        length = self.span * self.unit_s
        coarsest = 86400 * int(np.ceil(length / 86400 / (limit - 1)))
        step = next((s for s in STEPS_S if length / s <= limit - 1), coarsest)
        found = []
        for piece, end in zip(self.pieces, [*(p.unit for p in self.pieces[1:]), self._end()], strict=True):
            if piece.slope > 1.5 * self.unit_s:
                continue
            last = piece.clock_s + (end - piece.unit) * piece.slope
            rounding = 1e-6 if piece is self.pieces[-1] else -1e-6  # the next piece begins where this one ends
            moments = np.arange(np.ceil(piece.clock_s / step) * step, last + rounding, step)
            units = piece.unit + (moments - piece.clock_s) / piece.slope
            found += [
                (u / self.span, self._label(m, step)) for u, m in zip(units.tolist(), moments.tolist(), strict=True)
            ]
        return found

    def _label(self, moment: float, step: float) -> str:
        if self.clock:
            at = datetime.fromtimestamp(moment, UTC)
            if moment % 86400 == 0:
                return f"{at:%a} {at.day} {at:%b}"
            return f"{at:%H:%M:%S}" if step < 60 else f"{at:%H:%M}"
        minutes, seconds = divmod(round(moment), 60)
        text = f"{minutes // 60}:{minutes % 60:02d}"
        return f"{text}:{seconds:02d}" if step < 60 else text

    def labels(self) -> Html:
        spans = (tag("span", label, style=f"left:{100 * share:.3f}%") for share, label in self.ticks())
        return tag("div", *spans, class_="ticks", aria_hidden="true")


def _inside(second: float, gaps: Array) -> bool:
    return any(low < second < high for low, high in gaps.tolist())


def _clock_seconds(summary: ResultSummary, second: float) -> float:
    """Return the local wall clock as seconds since 1970 without a zone, or the seconds since the start."""
    moment = summary.clock(second)
    return second - float(summary.start_s[0]) if moment is None else moment.replace(tzinfo=UTC).timestamp()


def _clock_changes(summary: ResultSummary) -> list[float]:
    """Return the seconds of the stream at which the local clock changes to or from summer time."""
    found = []
    for day in summary.days:
        low, high = day.start_s, day.end_s
        if _shift(summary, low) == _shift(summary, high):
            continue
        while high - low > 0.5:
            middle = (low + high) / 2
            low, high = (middle, high) if _shift(summary, middle) == _shift(summary, low) else (low, middle)
        found.append(float(round(high)))
    return [second for second in found if summary.start_s[0] < second < summary.end_s[-1]]


def _shift(summary: ResultSummary, second: float) -> float:
    return round(_clock_seconds(summary, second) - second)
