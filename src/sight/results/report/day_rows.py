"""One row of 24 hours for each local day, and the average day."""

from collections.abc import Iterator

import numpy as np

from sight._util.durations import hours_text
from sight.results.report.day_grid import BIN_S, BINS, DayGrid
from sight.results.report.glossary import term
from sight.results.report.html import Html, legend_list, svg, tag
from sight.results.report.palette import stack_order
from sight.results.summary import ResultSummary
from sight.types import Array

#: Height of a column of a drawing; shares are rounded to it.
LEVELS = 100
#: Parts of a day that one column of the average day joins: half an hour.
JOINED = 1800 // BIN_S


def day_rows(summary: ResultSummary, grid: DayGrid) -> Html:
    """Return the rows of all days with axis and legend; days without data are one line."""
    lines: list[Html] = [_axis(summary)]
    before = None
    for d, day in enumerate(summary.days):
        missing = 0 if before is None else day.number - before - 1
        if missing:
            text = f"{missing:,} day{'s' if missing > 1 else ''} without data"
            lines.append(tag("p", tag("span", text), class_="skipped"))
        lines.append(_row(summary, grid, d))
        before = day.number
    if len(summary.days) > 4:
        lines.append(_axis(summary))
    return tag("div", *lines, legend(summary, grid), class_="days", data_bins=BINS)


def days_note(summary: ResultSummary) -> Iterator[object]:
    yield "Each column is five minutes; its colours are the shares of the classes, with rest below and movement above. "
    if not summary.worn.all():
        yield "Grey: not worn. "
    if len(summary.gaps):
        yield "Hatched: no data. "
    if any(day.is_weekend for day in summary.days):
        yield "Bold: weekend. "
    yield f"A day is valid if the sensor was worn for at least {summary.rules.valid_day_h:g} hours; the hours worn are "
    yield "on the right. Times in the legend are means of valid days."


def average_day(summary: ResultSummary, grid: DayGrid) -> Html:
    """Return the share of each class by time of day, over valid days."""
    seconds = grid.seconds[grid.valid].sum(axis=0).reshape(len(summary.classes) + 1, -1, JOINED).sum(axis=2)
    total = grid.recorded[grid.valid].sum(axis=0).reshape(-1, JOINED).sum(axis=1)
    shares = seconds / np.maximum(total, 1)
    count = int(grid.valid.sum())
    label = f"Share of each class by time of day, mean of {count:,} valid day{'' if count == 1 else 's'}"
    marks = [tag("span", f"{level} %", style=f"bottom:{level}%") for level in (0, 50, 100)]
    levels = tag("div", *marks, class_="levels", aria_hidden="true")
    names = tag("div", *_names(summary, shares), class_="names", aria_hidden="true")
    field = tag("div", levels, _drawing(summary, shares, label), names, class_="field")
    sides = [tag("div", "", class_=kind) for kind in ("name", "worn")]
    row = tag("div", sides[0], field, sides[1], class_="day average", data_name="Average day")
    return tag("div", row, _axis(summary), legend(summary, grid), class_="days", data_bins=BINS // JOINED)


def _names(summary: ResultSummary, shares: Array) -> Iterator[Html]:
    """Yield the name of each class where its area is large enough: 15 % or more for four hours."""
    order = stack_order(summary.classes)
    top = np.cumsum(shares[order], axis=0)
    wide = 4 * 3600 // (JOINED * BIN_S)
    for place, k in enumerate(order):
        thickness = np.lib.stride_tricks.sliding_window_view(shares[k], wide).min(axis=1)
        best = int(thickness.argmax())
        if thickness[best] >= 0.15:
            column = best + wide // 2
            middle = 100 * float(top[place, column] - shares[k, column] / 2)
            left = 100 * column / shares.shape[1]
            yield tag("span", summary.classes[k], style=f"left:{left:.1f}%;bottom:{middle:.1f}%")


def legend(summary: ResultSummary, grid: DayGrid | None = None) -> Html:
    """Return the classes that occur, from rest to vigorous activity, with their mean time a day on valid days."""
    order = stack_order(summary.classes)
    entries: list[tuple[str, Html]] = []
    hours = np.zeros(len(order)) if grid is None else grid.seconds[grid.valid, :-1].sum(axis=(0, 2)) / 3600
    for k in order:
        if grid is not None and not grid.seconds[:, k].any():
            continue
        time = f" {hours_text(hours[k] / grid.valid.sum())}" if grid is not None and hours[k] else ""
        entries.append((f"k{k}", tag("span", summary.classes[k], tag("b", time) if time else None)))
    if not summary.worn.all():
        entries.append(("off", tag("span", term("not worn"))))
    if len(summary.gaps):
        entries.append(("hatch", tag("span", term("gap", "no data"))))
    return legend_list(entries)


def _row(summary: ResultSummary, grid: DayGrid, d: int) -> Html:
    day, row = summary.days[d], summary.rows("daily")[d]
    name = day.name
    worn = f"{row['wear_h']:.1f} h worn"
    flags = [] if row["valid"] else [tag("span", "not valid", class_="flag")]
    hours = round((day.end_s - day.start_s) / 3600, 1)
    if hours != 24:
        flags.append(tag("span", f"{hours:g}-hour day", class_="flag", title="The clocks changed on this day."))
    label = f"{name}, {worn}{'' if row['valid'] else ', not valid'}: {_main_classes(summary, grid.seconds[d])}"
    kinds = ["day", *(["weekend"] if day.is_weekend else []), *([] if row["valid"] else ["invalid"])]
    return tag(
        "div",
        tag("div", tag("b", name), class_="name"),
        tag("div", _drawing(summary, grid.shares(d), label, grid.recorded[d]), class_="field"),
        tag("div", tag("b", f"{row['wear_h']:.1f} h"), *flags, class_="worn", title=worn),
        class_=" ".join(kinds),
        data_name=name,
    )


def _main_classes(summary: ResultSummary, seconds: Array) -> str:
    hours = seconds[:-1].sum(axis=1) / 3600
    order = [k for k in np.argsort(-hours).tolist()[:4] if hours[k] > 1 / 60]
    return ", ".join(f"{hours_text(hours[k])} {summary.classes[k]}" for k in order) or "no worn time"


def _drawing(summary: ResultSummary, shares: Array, label: str, recorded: Array | None = None) -> Html:
    """Draw stacked columns of shares (K + 1, columns); time outside the recording is covered."""
    columns = shares.shape[1]
    order = [*stack_order(summary.classes), len(summary.classes)]
    tops = np.rint(LEVELS * np.cumsum(shares[order], axis=0)).astype(np.int64)
    paths = []
    if recorded is not None and (recorded == 0).any():
        outside = np.where(recorded == 0, LEVELS, 0)
        paths.append(tag("path", d=_rectangles(np.zeros(columns, np.int64), outside), class_="outside"))
    bottom = np.zeros(columns, np.int64)
    for k, top in zip(order, tops, strict=True):
        drawn = _rectangles(bottom, top)
        if drawn:
            own = {"class_": f"k{k}", "data_k": k} if k < len(summary.classes) else {"class_": "off", "data_k": -1}
            paths.append(tag("path", d=drawn, **own))
        bottom = top
    return svg(paths, columns, LEVELS, label)


def _rectangles(bottom: Array, top: Array) -> str:
    """Return rectangles between two levels of each column as one SVG path; equal neighbours are joined."""
    first = np.flatnonzero(np.append(True, (np.diff(bottom) != 0) | (np.diff(top) != 0)))
    pieces = []
    for a, b in zip(first.tolist(), [*first[1:].tolist(), len(top)], strict=True):
        height = int(top[a] - bottom[a])
        if height > 0:
            pieces.append(f"M{a} {LEVELS - int(top[a])}h{b - a}v{height}h-{b - a}z")
    return "".join(pieces)


def _axis(summary: ResultSummary) -> Html:
    clock = summary.result.windows.start is not None
    ticks = [
        tag("span", f"{hour:02d}" if clock else f"{hour} h", style=f"left:{100 * hour / 24:.3f}%", class_=kind)
        for hour, kind in ((hour, None if hour % 6 == 0 else "minor") for hour in range(0, 25, 3))
    ]
    field = tag("div", *ticks, class_="hours")
    sides = [tag("div", "", class_=kind) for kind in ("name", "worn")]
    return tag("div", sides[0], field, sides[1], class_="day scale", aria_hidden="true")
