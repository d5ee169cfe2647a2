"""The figure of docs/scale.md: how old answers are as a stream fills up, and how well a cohort uses its workers."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {10: "#1b6ca8", 60: "#c0563d"}
DEATHS = {0.0: "#1b6ca8", 1.0: "#6b8f3f", 24.0: "#c0563d"}


def draw(found: dict[str, Any]) -> str:
    """Draw both simulations as SVG text; the same results give the same text."""
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
    axes.set(xlabel="load of the cores (%)", ylabel="99 % of answers are younger than (s)", yscale="log")
    axes.set_title("One stream of live wearers, simulated")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def _cohort(axes: Axes, rows: list[dict[str, Any]]) -> None:
    for deaths, colour in DEATHS.items():
        here = [row for row in rows if row["deaths_per_core_day"] == deaths]
        label = f"{deaths:g} deaths a core and day"
        axes.plot(
            [row["workers"] for row in here],
            [100 * row["efficiency"] for row in here],
            color=colour,
            marker="o",
            markersize=3,
            label=label,
        )
    axes.set(xlabel="workers", ylabel="time of the workers that was useful (%)", xscale="log", ylim=(0, 103))
    axes.set_title("100,000 recordings of a week, simulated")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
