"""HTML of an adaptation in a notebook: headline, warnings, and one row of raw and refined classes per day."""

from collections.abc import Iterator

import numpy as np

from sight.results.days import SECONDS_PER_DAY
from sight.results.method_name import method_name
from sight.results.output_tables.headline import headline
from sight.results.report.day_grid import DayGrid, day_grid
from sight.results.report.html import Html, join, svg, tag
from sight.results.report.lanes import runs, strokes
from sight.results.report.palette import IN_BED, class_colours, stack_order
from sight.results.summary import ResultSummary
from sight.types import Array, worst_first

#: Columns of a row, and rows.
COLUMNS, MOST_DAYS = 480, 8
NOT_WORN = "#9aa0a6"


def to_html(summary: ResultSummary) -> str:
    info = summary.info
    facts = (
        f"{info.get('subject', '')}: {len(summary):,} windows, method {method_name(summary.result)}, "
        f"model {info.get('model', {}).get('file', '')}"
    )
    parts = [tag("strong", headline(summary)), tag("div", facts, style="opacity:.7")]
    if summary.warnings:
        items = (tag("li", f"{warning.severity}: ", warning) for warning in worst_first(summary.warnings))
        parts.append(tag("ul", *items, style="color:#b00020;margin:.4em 0;padding-left:1.4em"))
    colours = [*(light for light, _ in class_colours(summary.classes)), IN_BED[0], NOT_WORN]
    if len(summary):
        grids = [day_grid(summary, labels, SECONDS_PER_DAY // COLUMNS) for labels in (summary.raw, summary.refined)]
        raw, refined = (grid.main_classes() for grid in grids)
        rows = (_row(day.name, raw[d], refined[d], colours) for d, day in enumerate(summary.days[:MOST_DAYS]))
        parts.append(tag("table", *rows, style="border-collapse:collapse;width:100%;max-width:60em;margin:.4em 0"))
        parts.append(tag("div", *_legend(summary, grids[0], colours), style="max-width:60em"))
    return tag("div", *parts, style="font-size:90%;line-height:1.5")


def _row(name: str, raw: Array, refined: Array, colours: list[str]) -> Html:
    cell = "padding:0 .6em 0 0;border:0;background:none;text-align:left;white-space:nowrap;vertical-align:middle"
    drawings = (
        _drawing(raw, colours, f"{name}, raw classes", 6),
        _drawing(refined, colours, f"{name}, refined classes", 14),
    )
    return tag(
        "tr",
        tag("td", name, style=f"{cell};width:1%"),
        tag("td", *drawings, style="padding:.15em 0;border:0;background:none"),
        style="background:none",
    )


def _drawing(classes: Array, colours: list[str], label: str, height: int) -> Html:
    """Return the main class of each column as an SVG; columns of -1 stay empty."""
    known = np.flatnonzero(classes >= 0)
    key, start, end = runs(classes[known], known, known + 1)
    paths = [tag("path", d=strokes(start[key == k], end[key == k]), stroke=colours[k]) for k in np.unique(key).tolist()]
    style = f"display:block;width:100%;height:{height}px;background:rgba(128,128,128,.15);margin-bottom:1px"
    return svg(paths, len(classes), 1, label, style=style)


def _legend(summary: ResultSummary, grid: DayGrid, colours: list[str]) -> Iterator[Html]:
    used = set(summary.raw.tolist()) | set(summary.refined.tolist())
    entries = [(colours[k], summary.classes[k]) for k in stack_order(summary.classes) if k in used]
    if summary.in_bed.any():
        entries.append((IN_BED[0], "in bed"))
    if not summary.worn.all():
        entries.append((NOT_WORN, "not worn"))
    swatch = "display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 0;background:"
    for colour, name in entries:
        square = tag("i", style=f"{swatch}{colour}")
        yield tag("span", square, name, style="margin-right:1em;white-space:nowrap")
    since = "waking, from " if summary.days_from == "waking" else "from "
    span = f"{since}{grid.hour_label(0)} to {grid.hour_label(grid.hours)}{'' if grid.unit else ' h'}"
    yield join([f"thin: raw, thick: refined, {span}"])
