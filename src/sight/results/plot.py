"""Plot of an adaptation: one row per day, raw classes above refined ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sight.results.method_name import method_name
from sight.results.report.day_grid import day_grid
from sight.results.report.lanes import runs
from sight.results.report.palette import IN_BED, class_colours, stack_order
from sight.results.summary import ResultSummary
from sight.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Length of a column in seconds, and columns of an hour.
COLUMN_S, PER_HOUR = 30, 120
#: Share of a row below which it begins, and its height: raw, then refined.
RAW, REFINED = (0.55, 0.3), (0.05, 0.45)
NO_DATA, NOT_WORN = "#eeeeee", "#d9dadd"


def plot_days(summary: ResultSummary, most_days: int) -> Figure:
    """Return a figure of the first days; not worn time and time without data are grey."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("A plot needs matplotlib; run: pip install matplotlib", name=error.name) from None
    days = summary.days[:most_days]
    colours = [*(light for light, _ in class_colours(summary.classes)), IN_BED[0], NOT_WORN]
    figure = Figure(figsize=(10, 1.3 + 0.55 * max(len(days), 1)), layout="constrained")
    axes = figure.subplots()
    first, last = 0.0, 24.0
    for labels, (bottom, height) in ((summary.raw, RAW), (summary.refined, REFINED)) if days else ():
        grid = day_grid(summary, labels, COLUMN_S)
        drawn, last = grid.main_classes()[: len(days)], grid.hours
        axes.set_xticks(range(0, grid.hours + 1, 3), [grid.hour_label(hour) for hour in range(0, grid.hours + 1, 3)])
        for row, classes in enumerate(drawn):
            axes.broken_barh([(0, grid.hours)], (-row + bottom, height), color=NO_DATA, linewidth=0)
            known = np.flatnonzero(classes >= 0)
            for k, start, end in zip(*runs(classes[known], known, known + 1), strict=True):
                span = [(start / PER_HOUR, (end - start) / PER_HOUR)]
                axes.broken_barh(span, (-row + bottom, height), color=colours[k], linewidth=0)
        if len(days) == 1:
            first, last = _recorded_hours(drawn[0])
    axes.set_xlim(first, last)
    axes.set_ylim(1 - max(len(days), 1), 1)
    axes.set_yticks([0.45 - row for row in range(len(days))], [day.name for day in days])
    of_day = "hours since waking" if summary.days_from == "waking" else "hour of the day"
    axes.set_xlabel(of_day if summary.result.windows.start else "hours")
    axes.set_title(f"Raw (above) and refined by {method_name(summary.result)} (below)", loc="left", fontsize=10)
    axes.spines[["top", "right", "left"]].set_visible(False)
    used = set(summary.raw.tolist()) | set(summary.refined.tolist())
    entries = [Patch(color=colours[k], label=summary.classes[k]) for k in stack_order(summary.classes) if k in used]
    if summary.in_bed.any():
        entries.append(Patch(color=IN_BED[0], label="in bed"))
    if not summary.worn.all():
        entries.append(Patch(color=NOT_WORN, label="not worn"))
    if entries:
        figure.legend(
            handles=entries, loc="outside lower center", ncols=min(len(entries), 7), frameon=False, fontsize=8
        )
    return figure


def _recorded_hours(classes: Array) -> tuple[float, float]:
    known = np.flatnonzero(classes >= 0)
    return (known[0] / PER_HOUR, (known[-1] + 1) / PER_HOUR) if len(known) else (0.0, 24.0)
