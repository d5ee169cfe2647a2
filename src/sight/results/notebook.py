"""HTML of an adaptation in a notebook: headline, warnings, and one lane per day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sight.results.notebook_lanes import Lane, day_lanes
from sight.results.report.html import Html, join, tag
from sight.results.report.lanes import runs, strokes
from sight.results.report.palette import class_colours, stack_order
from sight.results.tables import ResultSummary
from sight.types import Array

if TYPE_CHECKING:
    from sight.results.adaptation import Adaptation

#: Columns of a lane, moments that each of them shows by their most frequent class, and lanes.
COLUMNS, MOMENTS, MOST_DAYS = 480, 6, 8


def to_html(adaptation: Adaptation, summary: ResultSummary) -> str:
    """Return the HTML that a notebook shows."""
    facts = (
        f"{adaptation.info.get('subject', '')}: {len(summary):,} windows, method {summary.result.name}, "
        f"model {adaptation.info.get('model', {}).get('file', '')}"
    )
    parts = [tag("strong", adaptation.headline), tag("div", facts, style="opacity:.7")]
    if adaptation.warnings:
        items = (tag("li", str(warning)) for warning in adaptation.warnings)
        parts.append(tag("ul", *items, style="color:#b00020;margin:.4em 0;padding-left:1.4em"))
    lanes = list(day_lanes(summary, COLUMNS * MOMENTS, MOST_DAYS))
    colours = [light for light, _ in class_colours(summary.classes)]
    rows = (_row(summary, lane, colours) for lane in lanes)
    parts.append(tag("table", *rows, style="border-collapse:collapse;width:100%;max-width:60em;margin:.4em 0"))
    parts.append(tag("div", *_legend(summary, colours), style="max-width:60em"))
    return tag("div", *parts, style="font-size:90%;line-height:1.5")


def _row(summary: ResultSummary, lane: Lane, colours: list[str]) -> Html:
    cell = "padding:0 .6em 0 0;border:0;background:none;text-align:left;white-space:nowrap;vertical-align:middle"
    drawings = (
        _drawing(summary, lane, labels, colours, name)
        for name, labels in (("raw", summary.raw), ("refined", summary.refined))
    )
    return tag(
        "tr",
        tag("td", lane.title, style=f"{cell};width:1%"),
        tag("td", *drawings, style="padding:.15em 0;border:0;background:none"),
        style="background:none",
    )


def _drawing(summary: ResultSummary, lane: Lane, labels: Array, colours: list[str], name: str) -> Html:
    """Return one lane from 0 to 24 h as an SVG; raw ones are thinner, not worn time is pale."""
    keys = np.where(lane.window < 0, -1, 2 * labels[lane.window] + summary.worn[lane.window])
    frequent = np.array([np.bincount(column + 1).argmax() - 1 for column in keys.reshape(COLUMNS, MOMENTS)])
    known = np.flatnonzero(frequent >= 0)
    key, start, end = runs(frequent[known], known, known + 1)
    paths = []
    for k in np.unique(key).tolist():
        own = key == k
        opacity = None if k % 2 else 0.25
        paths.append(tag("path", d=strokes(start[own], end[own]), stroke=colours[k // 2], stroke_opacity=opacity))
    height = 6 if name == "raw" else 14
    style = f"display:block;width:100%;height:{height}px;background:rgba(128,128,128,.15);margin-bottom:1px"
    label = f"{lane.title}, {name} classes from 0 to 24 h"
    view = f"0 0 {COLUMNS} 1"
    return tag("svg", *paths, viewBox=view, preserveAspectRatio="none", role="img", aria_label=label, style=style)


def _legend(summary: ResultSummary, colours: list[str]) -> Iterator[Html]:
    used = set(summary.raw.tolist()) | set(summary.refined.tolist())
    swatch = "display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 0;background:"
    for k in stack_order(summary.classes):
        if k in used:
            yield tag(
                "span",
                tag("i", style=f"{swatch}{colours[k]}"),
                summary.classes[k],
                style="margin-right:1em;white-space:nowrap",
            )
    yield join(["thin: raw, thick: refined, from 0 to 24 h"])
