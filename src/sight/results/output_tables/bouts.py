"""One row per bout: a long run of one class with short interruptions."""

from typing import Any

import numpy as np

from sight.results.output_tables import Table
from sight.results.output_tables.cells import rounded, span
from sight.results.output_tables.rules import MAX_PAUSE_S
from sight.results.segments import Segments
from sight.results.summary import ResultSummary
from sight.types import Array

#: `enmo_mg` only if the intensity of movement is known.
COLUMNS = ("day", "start_s", "end_s", "start", "end", "duration_min", "class", "mean_confidence", "enmo_mg")
#: Difference of two times that is rounding.
SAME_MOMENT_S = 1e-3


def bout_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return the bouts that are long enough for the rules, in time order.

    A bout is a run of worn windows of one refined class. Two runs are joined if what lies between them lasts at most
    10 s and is shorter than each of the two; a gap, non-wear time and time in bed always end a bout. Bouts do not
    overlap.
    """
    found = summary.segments(np.where(summary.awake, summary.refined, -1))
    first = np.cumsum(found.windows) - found.windows
    starts = [day.start_s for day in summary.days]
    enmo = summary.intensity.get("enmo_mg")
    rows: list[dict[str, Any]] = []
    for begin, last in join_runs(found):
        start, end, name = float(found.start_s[begin]), float(found.end_s[last]), summary.classes[found.label[begin]]
        if not summary.rules.is_bout(name, end - start):
            continue
        own = slice(first[begin], first[last] + found.windows[last])
        row = {
            "day": summary.days[int(np.searchsorted(starts, start, side="right")) - 1].number,
            **span(summary, start, end),
            "duration_min": rounded((end - start) / 60, 4),
            "class": name,
            "mean_confidence": rounded(summary.confidence[own].mean(), 4),
        }
        rows.append(row if enmo is None else row | {"enmo_mg": _finite_mean(enmo[own])})
    return rows


def join_runs(table: Segments) -> list[tuple[int, int]]:
    """Return the first and the last segment of each bout of any length, in order of the first; unworn ones have -1."""
    begins_stretch = np.append(0, np.abs(table.start_s[1:] - table.end_s[:-1]) > SAME_MOMENT_S)
    stretch = np.cumsum(begins_stretch + (table.label < 0))
    length = table.end_s - table.start_s
    found: list[tuple[int, int]] = []
    for k in np.unique(table.label[table.label >= 0]).tolist():
        own = np.flatnonzero(table.label == k)
        before, after = own[:-1], own[1:]
        pause = table.start_s[after] - table.end_s[before]
        joined = (
            (stretch[before] == stretch[after])
            & (pause <= MAX_PAUSE_S)
            & (pause < np.minimum(length[before], length[after]))
        )
        breaks = np.flatnonzero(~joined)
        found += zip(own[np.append(0, breaks + 1)].tolist(), own[np.append(breaks, len(own) - 1)].tolist(), strict=True)
    return sorted(found)


def _finite_mean(values: Array) -> float | None:
    """Return the mean of the finite values, None if there are none."""
    values = values[np.isfinite(values)]
    return rounded(float(values.mean()), 2) if len(values) else None


TABLE = Table(
    name="bouts",
    description="one row per bout: a long run of one class with short interruptions",
    fixed=COLUMNS,
    rows=bout_rows,
    columns=lambda summary: [name for name in COLUMNS if name != "enmo_mg" or name in summary.intensity],
    kinds={"day": "int", "start": "time", "end": "time", "class": "text"},
)
