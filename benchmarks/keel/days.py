"""Compare Keel with the other methods on outputs, with and without later windows, on recordings and on days.

Run as ``python -m benchmarks.keel.days PROJECTIONS RESULTS`` with the output of `benchmarks.keel.projections`. Writes
days.csv, one row per method, half and setting, and the mean over settings; and docs/images/keel-frontier.svg, gain on
days against the share of days that are harmed.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pandas as pd
from benchmarks.keel.comparison import HALVES, SETTINGS, arguments, compare, figures, write
from benchmarks.keel.recursions import DEFAULTS, FILTER_ONLY, run_keel, run_sticky, run_sticky_learned

LAGS = {"": 0, ", 5 windows later": 5, ", whole recording": math.inf}
METHODS = {"sticky": run_sticky}
for text, lag in LAGS.items():
    METHODS[f"sticky-learned{text}"] = partial(run_sticky_learned, lag=lag)
    METHODS[f"Keel, filter only{text}"] = partial(run_keel, fields=FILTER_ONLY, lag=lag)
    METHODS[f"Keel{text}"] = partial(run_keel, fields=DEFAULTS, lag=lag)
#: Lines of the frontier: values of one field, live or on whole recordings.
FRONTIER = {("prototypes", 0.0): (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), ("veto", math.inf): (0.0, 1.0, 2.0, 3.0, 5.0)}
FIGURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "keel-frontier.svg"


def main() -> None:
    """Write the rows and the figure."""
    paths, results = arguments()
    frontier = {
        f"{field} {value:g}": partial(run_keel, fields=DEFAULTS | {field: value}, lag=lag)
        for (field, lag), values in FRONTIER.items()
        for value in values
    }
    runs = compare(paths, METHODS | frontier)
    groups = {"all": SETTINGS, "pooled": [name for name in SETTINGS if name.endswith("-pooled")]}
    groups |= {"single": [name for name in SETTINGS if name.endswith("-single")]} | {name: [name] for name in SETTINGS}
    rows = []
    for name in METHODS:
        for half in HALVES:
            own = runs[(runs.method == name) & (runs.half == half)]
            for group, settings in groups.items():
                part = own[own.setting.isin(list(settings))]
                if len(part):
                    rows.append({"method": name, "half": half, "settings": group, "runs": len(part), **figures(part)})
    write(rows, results / "days.csv")
    _draw(runs)


def _draw(runs: pd.DataFrame) -> None:
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "keel", "svg.fonttype": "none", "font.size": 9})
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.5), sharey=True, layout="constrained")
    for axis, half in zip(axes, HALVES, strict=True):
        own = runs[runs.half == half]
        points = {name: figures(part) for name, part in own.groupby("method")}
        for (field, _), values in FRONTIER.items():
            line = [
                (points[f"{field} {value:g}"]["days_harmed"], points[f"{field} {value:g}"]["days"]) for value in values
            ]
            axis.plot(*zip(*line, strict=True), "-", color="0.6", lw=1, zorder=1)
            for value, point in zip(values, line, strict=True):
                axis.annotate(f"{field} {value:g}", point, color="0.4", fontsize=6)
        for name, marker in {
            "sticky": "s",
            "sticky-learned": "D",
            "Keel, filter only": "^",
            "Keel": "o",
            "Keel, whole recording": "*",
        }.items():
            axis.scatter(points[name]["days_harmed"], points[name]["days"], marker=marker, label=name, zorder=2)
        axis.set(title=f"{half} targets", xlabel="days harmed, %")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("gain in accuracy on days, points")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=7, frameon=False)
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
