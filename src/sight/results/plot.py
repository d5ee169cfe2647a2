"""Plot of an adaptation: one row per day, raw classes above refined ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sight.results.report.day_grid import day_grid
from sight.results.report.lanes import runs
from sight.results.report.palette import class_colours, stack_order
from sight.results.summary import ResultSummary
from sight.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Length of a column in seconds, and columns of an hour.
COLUMN_S, PER_HOUR = 30, 120
#: Share of a row below which it begins, and its height: raw, then refined.
RAW, REFINED = (0.55, 0.3), (0.05, 0.45)
NO_DATA, NOT_WORN = "#eeeeee", "#c4c7cb"


def plot_days(summary: ResultSummary, most_days: int) -> Figure:
    """Return a figure of the first days; not worn time and time without data are grey."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("A plot needs matplotlib; run: pip install matplotlib", name=error.name) from None
    days = summary.days[:most_days]
    colours = [*(light for light, _ in class_colours(summary.classes)), NOT_WORN]
    figure = Figure(figsize=(10, 1.3 + 0.55 * max(len(days), 1)), layout="constrained")
    axes = figure.subplots()
    first, last = 0.0, 24.0
    for labels, (bottom, height) in ((summary.raw, RAW), (summary.refined, REFINED)) if days else ():
        drawn = day_grid(summary, labels, COLUMN_S).main_classes()[: len(days)]
        for row, classes in enumerate(drawn):
            axes.broken_barh([(0, 24)], (-row + bottom, height), color=NO_DATA, linewidth=0)
            known = np.flatnonzero(classes >= 0)
            for k, start, end in zip(*runs(classes[known], known, known + 1), strict=True):
                span = [(start / PER_HOUR, (end - start) / PER_HOUR)]
                axes.broken_barh(span, (-row + bottom, height), color=colours[k], linewidth=0)
        if len(days) == 1:
            first, last = _recorded_hours(drawn[0])
    axes.set_xlim(first, last)
    if last - first == 24:
        axes.set_xticks(range(0, 25, 3))
    axes.set_ylim(1 - max(len(days), 1), 1)
    axes.set_yticks([0.45 - row for row in range(len(days))], [day.name for day in days])
    axes.set_xlabel("hour of the day" if summary.result.windows.start else "hours")
    axes.set_title(f"Raw (above) and refined by {summary.result.name} (below)", loc="left", fontsize=10)
    axes.spines[["top", "right", "left"]].set_visible(False)
    used = set(summary.raw.tolist()) | set(summary.refined.tolist())
    entries = [Patch(color=colours[k], label=summary.classes[k]) for k in stack_order(summary.classes) if k in used]
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
