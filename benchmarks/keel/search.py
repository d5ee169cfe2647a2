"""Choose Keel's hyper-parameters on development targets: each part switched off, a grid, and leave one dataset out.

Run as ``python -m benchmarks.keel.search PROJECTIONS RESULTS`` with the output of `benchmarks.keel.projections`. Writes
parts.csv (one switch at a time, live and on whole recordings), grid.csv (combinations, live) and left_out.csv: the
combination that the criteria choose without a dataset, scored on that dataset. The criteria, in this order: at most 5 %
of the days harmed on average over settings and a worst percentile above -10 points, the gain on days, the gain on
recordings.
"""

from __future__ import annotations

import itertools
import math
from functools import partial

import pandas as pd
from benchmarks.keel.comparison import Labels, arguments, compare, figures, write
from benchmarks.keel.recursions import DEFAULTS, run_keel

#: Switches: each is one field changed, most of them to the value that turns the part off.
PARTS = {
    "prototypes": (0.0, 0.2, 0.4),
    "align": (0.0, 0.4),
    "debias": (0.0,),
    "penalty": (99.0,),
    "highest_raise": (99.0,),
    "pooled": (0.0, 1.0),
    "guard": (0.0,),
    "least": (0.0,),
    "veto": (0.0, 1.0, 2.0, 5.0),
    "surprise": (0.0,),
    "bound": (50.0,),
    "temper": (1.0,),
    "rate": (0.0,),
}
GRID = {
    "prototypes": (0.2, 0.3, 0.4),
    "align": (0.2, 0.4),
    "temper": (0.3, 0.5),
}
LAGS = {"live": 0.0, "whole recording": math.inf}
MOST_HARMED, LEAST_WORST = 5.0, -10.0


def order(row: pd.Series) -> tuple[bool, float, float]:
    """Return the sort key of a combination; the greatest is chosen."""
    safe = row.days_harmed <= MOST_HARMED and row.days_worst_percentile >= LEAST_WORST
    return safe, row.days if safe else -row.days_harmed, row.recordings


def main() -> None:
    """Write the three files."""
    paths, results = arguments()
    changes: dict[str, dict[str, float]] = {"defaults": {}}
    changes |= {f"{name} = {value:g}": {name: value} for name, values in PARTS.items() for value in values}
    combinations = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
    grid = {str(index): fields for index, fields in enumerate(combinations)}
    parts = {(name, text): {**fields, "lag": lag} for name, fields in changes.items() for text, lag in LAGS.items()}
    methods = {f"{name}, {text}": _keel(**fields) for (name, text), fields in parts.items()}
    runs = compare(paths, methods | {name: _keel(**fields) for name, fields in grid.items()}, halves=[0])
    by_method = dict(list(runs.groupby("method")))
    rows = [{"change": name, "used": text, **figures(by_method[f"{name}, {text}"])} for name, text in parts]
    write(rows, results / "parts.csv")
    write([combinations[int(name)] | figures(by_method[name]) for name in grid], results / "grid.csv")
    write(
        [_left_out(runs, combinations, name) for name in sorted(set(runs.setting.str.rsplit("-", n=1).str[0]))],
        results / "left_out.csv",
    )


def _keel(lag: float = 0, **fields: float) -> Labels:
    return partial(run_keel, fields=DEFAULTS | fields, lag=lag)


def _left_out(runs: pd.DataFrame, combinations: list[dict[str, float]], dataset: str) -> dict[str, object]:
    """Choose a combination without a dataset (both preparations of HAPT count as one), and score it there."""
    own = runs.setting.str.startswith(dataset.split("-", maxsplit=1)[0])
    others, inside = runs[~own], runs[runs.setting.str.startswith(dataset)]
    table = pd.DataFrame([figures(others[others.method == str(index)]) for index in range(len(combinations))])
    chosen = max(range(len(combinations)), key=lambda index: order(table.iloc[index]))
    scored = {name: figures(inside[inside.method == name]) for name in (str(chosen), "defaults, live")}
    keys = ("recordings", "recordings_harmed", "days", "days_harmed", "days_worst_percentile", "days_worst")
    row: dict[str, object] = {"left_out": dataset, **combinations[chosen]}
    return row | {
        f"{key}{suffix}": scored[name][key]
        for suffix, name in (("", str(chosen)), ("_defaults", "defaults, live"))
        for key in keys
    }


if __name__ == "__main__":
    main()
