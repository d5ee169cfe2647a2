"""Plot of an adaptation: one row per day, raw classes above refined ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sight.results.notebook_lanes import Lane, day_lanes
from sight.results.report.lanes import runs
from sight.results.report.palette import class_colours, stack_order
from sight.results.tables import ResultSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One column is half a minute.
COLUMNS = 2880
#: Share of a row below which it begins, and its height: raw, then refined.
RAW, REFINED = (0.55, 0.3), (0.05, 0.45)


def plot_days(summary: ResultSummary, most_days: int) -> Figure:
    """Return a figure of the first days; not worn time is pale, time without data is grey."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("A plot needs matplotlib; run: pip install matplotlib", name=error.name) from None
    lanes = list(day_lanes(summary, COLUMNS, most_days))
    colours = [light for light, _ in class_colours(summary.classes)]
    figure = Figure(figsize=(10, 1.3 + 0.55 * max(len(lanes), 1)), layout="constrained")
    axes = figure.subplots()
    for row, lane in enumerate(lanes):
        known = np.flatnonzero(lane.window >= 0)
        window = lane.window[known]
        axes.broken_barh([(0, 24)], (-row + REFINED[0], RAW[0] + RAW[1] - REFINED[0]), color="#eeeeee", linewidth=0)
        for labels, (bottom, height) in ((summary.raw, RAW), (summary.refined, REFINED)):
            keys = 2 * labels[window] + summary.worn[window]
            for key, start, end in zip(*runs(keys, known, known + 1), strict=True):
                span = [(24 * start / COLUMNS, 24 * (end - start) / COLUMNS)]
                alpha = 1.0 if key % 2 else 0.25
                axes.broken_barh(span, (-row + bottom, height), color=colours[key // 2], alpha=alpha, linewidth=0)
    first, last = _hours(lanes)
    axes.set_xlim(first, last)
    if last - first == 24:
        axes.set_xticks(range(0, 25, 3))
    axes.set_ylim(1 - max(len(lanes), 1), 1)
    axes.set_yticks([0.45 - row for row in range(len(lanes))], [lane.title for lane in lanes])
    axes.set_xlabel("hour of the day" if summary.result.windows.start else "hours")
    axes.set_title(f"Raw (above) and refined by {summary.result.name} (below)", loc="left", fontsize=10)
    axes.spines[["top", "right", "left"]].set_visible(False)
    used = set(summary.raw.tolist()) | set(summary.refined.tolist())
    entries = [Patch(color=colours[k], label=summary.classes[k]) for k in stack_order(summary.classes) if k in used]
    if entries:
        figure.legend(
            handles=entries, loc="outside lower center", ncols=min(len(entries), 7), frameon=False, fontsize=8
        )
    return figure


def _hours(lanes: list[Lane]) -> tuple[float, float]:
    """Return the hours to draw: whole days, or the recorded part of a single day."""
    if len(lanes) != 1 or not (lanes[0].window >= 0).any():
        return 0.0, 24.0
    known = np.flatnonzero(lanes[0].window >= 0)
    return 24 * known[0] / COLUMNS, 24 * (known[-1] + 1) / COLUMNS
