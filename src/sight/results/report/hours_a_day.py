"""Hours a day of each class on one axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from sight._util.durations import hours_text
from sight.results.report.day_grid import DayGrid
from sight.results.report.html import Html, header, table, tag
from sight.results.summary import ResultSummary

#: With more ticks than this, narrow screens show every other one.
MOST_NARROW = 4


def hours_a_day(summary: ResultSummary, grid: DayGrid) -> Html:
    """Return the hours a day of each class: a bar for the mean of valid days, a dot for each day, on one axis."""
    hours = grid.seconds[:, :-1].sum(axis=2) / 3600
    valid = grid.valid
    mean = hours[valid].mean(axis=0)
    top = _round_up(float(hours.max()))
    rows = []
    for k in sorted(range(len(summary.classes)), key=lambda k: -mean[k]):
        if not hours[:, k].any():
            continue
        dots = []
        for day, value, good in zip(grid.days, hours[:, k].tolist(), valid.tolist(), strict=True):
            place, title = f"left:{100 * value / top:.2f}%", f"{day.name}: {hours_text(value)}"
            dots.append(tag("i", class_="dot" if good else "dot open", style=place, title=title))
        bar = tag("i", class_=f"bar k{k}", style=f"width:{100 * mean[k] / top:.2f}%")
        low, high = (hours_text(f(hours[valid, k])) for f in (np.min, np.max))
        cells = [tag("th", tag("i", class_=f"swatch k{k}"), tag("span", summary.classes[k]), scope="row")]
        cells.append(tag("td", tag("div", bar, *dots, class_="strip", aria_hidden="true"), class_="plotted"))
        cells.append(tag("td", hours_text(mean[k]), class_="number"))
        cells.append(tag("td", f"{low} \N{EN DASH} {high}", class_="number soft range"))
        rows.append(tag("tr", *cells))
    values = _ticks(top)
    ticks = [
        tag("span", f"{value:g} h", class_="minor" if tight else None, style=f"left:{100 * value / top:.2f}%")
        for value, tight in zip(values, itertools.cycle((False, len(values) > MOST_NARROW)), strict=False)
    ]
    heads = [
        header("Class"),
        tag("th", tag("div", *ticks, class_="strip scale"), scope="col", aria_label="Hours a day"),
        header("Mean", number=True),
        tag("th", "Range", scope="col", class_="number range"),
    ]
    return table(heads, rows, label="Hours a day", class_="perday")


def _round_up(hours: float) -> float:
    return next((top for top in (0.25, 0.5, 1, 2, 4, 6, 8, 12, 16, 20, 24) if hours <= top), 26)


def _ticks(top: float) -> Sequence[float]:
    step = next(step for step in (0.25, 0.5, 1, 2, 4, 6) if top / step <= 5)
    return [float(value) for value in np.arange(0, top + 1e-9, step)]
