"""Figure of docs/scale.md: age of predictions by load of a stream, and efficiency of a cohort's workers."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {10: "#1b6ca8", 60: "#c0563d"}
FAILURES = {0.0: "#1b6ca8", 1.0: "#6b8f3f", 24.0: "#c0563d"}


def draw(found: dict[str, Any]) -> str:
    """Return both simulations as SVG; the same results give the same text."""
    with mpl.rc_context({"svg.hashsalt": "scale", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9}):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _live(left, found["live"])
        _cohort(right, found["cohort"])
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _live(axes: Axes, curves: list[dict[str, Any]]) -> None:
    for curve in curves:
        loads = [100 * point["load"] for point in curve["points"]]
        ages = [point["age_99_s"] for point in curve["points"]]
        style = "-" if curve["faults"] == "faults" else ":"
        label = f"triggers of {curve['trigger_s']} s, {curve['faults']}"
        axes.plot(loads, ages, style, color=COLOURS[curve["trigger_s"]], marker="o", markersize=3, label=label)
    axes.set(xlabel="load of the cores (%)", ylabel="age of predictions, 99th percentile (s)", yscale="log")
    axes.set_title("One stream of live wearers, simulated")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def _cohort(axes: Axes, rows: list[dict[str, Any]]) -> None:
    for failures, colour in FAILURES.items():
        own = [row for row in rows if row["failures_per_core_day"] == failures]
        label = f"{failures:g} failures per core and day"
        axes.plot(
            [row["workers"] for row in own],
            [100 * row["efficiency"] for row in own],
            color=colour,
            marker="o",
            markersize=3,
            label=label,
        )
    axes.set(xlabel="workers", ylabel="useful share of the workers' time (%)", xscale="log", ylim=(0, 103))
    axes.set_title("100,000 recordings of a week, simulated")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
