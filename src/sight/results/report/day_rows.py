"""One row of 24 hours for each local day, and the average day."""

from collections.abc import Iterator

import numpy as np

from sight._util.durations import hours_text
from sight.results.report.day_grid import BIN_S, HALF_HOUR_S, DayGrid
from sight.results.report.glossary import term
from sight.results.report.html import Html, legend_list, svg, tag
from sight.results.report.palette import stack_order
from sight.results.summary import ResultSummary
from sight.types import Array

#: Height of a column of a drawing; shares are rounded to it.
LEVELS = 100
#: Parts of a day that one column of the average day joins: half an hour.
JOINED = HALF_HOUR_S // BIN_S
#: Colour of time in bed and of time without wear: CSS class, and number in the drawing, which the page's script reads.
IN_BED, NOT_WORN = ("bed", -2), ("off", -1)


def day_rows(summary: ResultSummary, grid: DayGrid) -> Html:
    """Return the rows of all days with axis and legend; days without data are one line."""
    lines: list[Html] = [_axis(grid)]
    before = None
    for d, day in enumerate(summary.days):
        if not grid.seconds[d].any():
            continue
        missing = 0 if before is None else day.number - before - 1
        if missing:
            text = f"{missing:,} day{'s' if missing > 1 else ''} without data"
            lines.append(tag("p", tag("span", text), class_="skipped"))
        lines.append(_row(summary, grid, d))
        before = day.number
    if len(lines) > 5:
        lines.append(_axis(grid))
    return tag("div", *lines, legend(summary, grid), class_="days", **_scale(grid))


def days_note(summary: ResultSummary) -> Iterator[object]:
    yield "Each column is five minutes; its colours are the shares of the classes, with rest below and movement above. "
    if summary.days_from == "waking":
        yield "A row begins when the wearer wakes; its hours count from there. "
    if summary.in_bed.any():
        yield "In bed is the "
        yield term("sleep period")
        yield " of a night; it does not count as time of a class. "
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
    seconds = grid.seconds[grid.valid].sum(axis=0).reshape(len(summary.classes) + 2, -1, JOINED).sum(axis=2)
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
    return tag("div", row, _axis(grid), legend(summary, grid), class_="days", **_scale(grid, JOINED))


def _names(summary: ResultSummary, shares: Array) -> Iterator[Html]:
    """Yield the name of each class where its area is large enough: 15 % or more for four hours."""
    names = [*summary.classes, "in bed"]
    order = [len(summary.classes), *stack_order(summary.classes)]
    top = np.cumsum(shares[order], axis=0)
    wide = 4 * 3600 // (JOINED * BIN_S)
    for place, k in enumerate(order):
        thickness = np.lib.stride_tricks.sliding_window_view(shares[k], wide).min(axis=1)
        best = int(thickness.argmax())
        if thickness[best] >= 0.15:
            column = best + wide // 2
            middle = 100 * float(top[place, column] - shares[k, column] / 2)
            left = 100 * column / shares.shape[1]
            yield tag("span", names[k], style=f"left:{left:.1f}%;bottom:{middle:.1f}%")


def legend(summary: ResultSummary, grid: DayGrid | None = None) -> Html:
    """Return the classes from rest to vigorous activity; with a grid those that occur, with their mean time a day.

    Times are means of valid days, and time in bed is an entry too.
    """
    entries: list[tuple[str, Html]] = []
    count, order = len(summary.classes), stack_order(summary.classes)
    if grid is None:
        entries += [(f"k{k}", tag("span", summary.classes[k])) for k in order]
    else:
        hours = grid.seconds[grid.valid].sum(axis=(0, 2)) / 3600
        for k in (k for k in (count, *order) if grid.seconds[:, k].any()):
            kind, name = (f"k{k}", summary.classes[k]) if k < count else (IN_BED[0], term("in bed"))
            time = tag("b", f" {hours_text(hours[k] / grid.valid.sum())}") if hours[k] else None
            entries.append((kind, tag("span", name, time)))
    if not summary.worn.all():
        entries.append((NOT_WORN[0], tag("span", term("not worn"))))
    if len(summary.gaps):
        entries.append(("hatch", tag("span", term("gap", "no data"))))
    return legend_list(entries)


def _row(summary: ResultSummary, grid: DayGrid, d: int) -> Html:
    day, row = summary.days[d], summary.rows("daily")[d]
    name = day.name
    worn = f"{row['wear_h']:.1f} h worn"
    flags = [] if row["valid"] else [tag("span", "not valid", class_="flag")]
    hours = round((day.end_s - day.start_s) / 3600, 1)
    if hours != 24 and summary.days_from == "midnight":
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
    names, hours = [*summary.classes, "in bed"], seconds[:-1].sum(axis=1) / 3600
    order = [k for k in np.argsort(-hours).tolist()[:4] if hours[k] > 1 / 60]
    return ", ".join(f"{hours_text(hours[k])} {names[k]}" for k in order) or "no worn time"


def _drawing(summary: ResultSummary, shares: Array, label: str, recorded: Array | None = None) -> Html:
    """Draw stacked columns of shares (K + 2, columns); time outside the recording is covered."""
    columns, count = shares.shape[1], len(summary.classes)
    order = [count, *stack_order(summary.classes), count + 1]
    tops = np.rint(LEVELS * np.cumsum(shares[order], axis=0)).astype(np.int64)
    paths = []
    if recorded is not None and (recorded == 0).any():
        outside = np.where(recorded == 0, LEVELS, 0)
        paths.append(tag("path", d=_rectangles(np.zeros(columns, np.int64), outside), class_="outside"))
    bottom = np.zeros(columns, np.int64)
    for k, top in zip(order, tops, strict=True):
        drawn = _rectangles(bottom, top)
        if drawn:
            kind, number = (f"k{k}", k) if k < count else IN_BED if k == count else NOT_WORN
            paths.append(tag("path", d=drawn, class_=kind, data_k=number))
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


def _axis(grid: DayGrid) -> Html:
    ticks = [
        tag("span", grid.hour_label(hour), style=f"left:{100 * 3600 * hour / _row_s(grid):.3f}%", class_=kind)
        for hour, kind in ((hour, None if hour % 6 == 0 else "minor") for hour in range(0, grid.hours + 1, 3))
        if 3600 * hour <= _row_s(grid)
    ]
    field = tag("div", *ticks, class_="hours")
    sides = [tag("div", "", class_=kind) for kind in ("name", "worn")]
    return tag("div", sides[0], field, sides[1], class_="day scale", aria_hidden="true")


def _scale(grid: DayGrid, joined: int = 1) -> dict[str, object]:
    """Return what the script of the page needs to name the time of a column."""
    minutes = joined * grid.bin_s // 60
    columns = grid.recorded.shape[1] // joined
    names = {"data_bins": columns, "data_minutes": minutes, "data_from": 60 * grid.first_h}
    return names | {"data_unit": grid.unit or None, "style": f"--six:{100 * 6 * 3600 / _row_s(grid):.3f}%"}


def _row_s(grid: DayGrid) -> int:
    return int(grid.recorded.shape[1]) * grid.bin_s
