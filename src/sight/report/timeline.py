"""The timeline: truth, raw and refined classes over one axis of time, and the surprise below."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from sight.report.axis import Axis
from sight.report.glossary import term
from sight.report.html import Html, join, tag
from sight.report.lanes import band, marks, trace
from sight.report.result_summary import ResultSummary
from sight.types import Array


def timeline(summary: ResultSummary, others: Sequence[ResultSummary] = ()) -> Html:
    """Draw every lane of a stream of at least one window, with legend, axis and controls."""
    axis = Axis.of(summary)
    lanes = [_lane(axis, summary, name, answers, shown) for name, answers, shown in _bands(summary, others)]
    if summary.unsure.any():
        drawn = marks(axis, summary.unsure, summary.start_s, summary.end_s, name="Unsure")
        lanes.append(_row(term("unsure", "Unsure"), drawn, kind="thin"))
    surprise = summary.result.trace.get("surprise")
    if surprise is not None:
        changes = summary.start_s[changed(summary)]
        drawn = trace(axis, np.asarray(surprise), summary.start_s, changes_s=changes, name="Surprise")
        lanes.append(_row(term("surprise", "Surprise"), drawn, kind="plot"))
    lanes.append(_row("", axis.row(), kind="axis"))
    return tag(
        "div",
        _tools(),
        tag("div", *lanes, tag("div", class_="cursor", hidden=True), class_="lanes"),
        legend(summary),
        class_="timeline",
        data_classes=json.dumps(summary.classes),
        data_span=axis.span,
        data_unit=axis.unit_s,
        data_clock=axis.clock_s,
    )


def changed(summary: ResultSummary) -> Array:
    """Return the indices of the windows at which the refined class changes."""
    return np.flatnonzero(np.diff(summary.refined)) + 1


def legend(summary: ResultSummary) -> Html:
    """Name every class beside its colour, and what hatching means."""
    entries = [
        tag("li", tag("i", class_=f"swatch k{k}"), tag("span", name), class_="entry")
        for k, name in enumerate(summary.classes)
    ]
    if len(summary.gaps):
        entries.append(tag("li", tag("i", class_="swatch hatch"), term("gap"), class_="entry"))
    if not summary.worn.all():
        entries.append(tag("li", tag("i", class_="swatch hatch pale"), term("not worn"), class_="entry"))
    return tag("ul", *entries, class_="legend", aria_label="Legend")


def _bands(summary: ResultSummary, others: Sequence[ResultSummary]) -> list[tuple[str, Array, Html]]:
    bands = [("Raw", summary.raw, term("raw", "Raw"))]
    bands += [(other.result.label, other.refined, join([other.result.label])) for other in others]
    bands.append(("Refined", summary.refined, term("refined", "Refined")))
    if summary.truth is not None:
        bands.insert(0, ("Truth", summary.truth, term("truth", "Truth")))
    return bands


def _lane(axis: Axis, summary: ResultSummary, name: str, answers: Array, shown: Html) -> Html:
    drawn = band(
        axis,
        answers,
        summary.start_s,
        summary.end_s,
        worn=summary.worn,
        name=name,
        classes=len(summary.classes),
    )
    return _row(shown, drawn, kind="band", name=name, empty="no label" if answers is summary.truth else "no data")


def _row(shown: str, drawn: Html, *, kind: str, name: str | None = None, empty: str | None = None) -> Html:
    return tag(
        "div",
        tag("div", shown, class_="name"),
        tag("div", drawn, class_="field"),
        class_=f"lane {kind}",
        data_name=name,
        data_empty=empty,
    )


def _tools() -> Html:
    buttons = (
        ("in", "+", "Zoom in"),
        ("out", "\N{MINUS SIGN}", "Zoom out"),
        ("back", "←", "Earlier"),
        ("on", "→", "Later"),
    )
    shown = [tag("button", sign, type="button", data_do=do, aria_label=label) for do, sign, label in buttons]
    shown.append(tag("button", "All", type="button", data_do="all", aria_label="Show the whole recording"))
    hint = tag("span", "Drag across the lanes to zoom in.", class_="hint")
    return tag("div", hint, *shown, class_="tools", hidden=True)
