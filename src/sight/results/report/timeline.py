"""The timeline: true, raw and refined classes and the surprise over time."""

import json
from collections.abc import Iterator, Sequence

import numpy as np

from sight._util.durations import duration_text
from sight.results.method_name import method_label
from sight.results.report.axis import Axis
from sight.results.report.day_rows import legend
from sight.results.report.glossary import term
from sight.results.report.html import Html, join, tag
from sight.results.report.lanes import band, column_width, marks, trace
from sight.results.summary import ResultSummary
from sight.types import Array


def timeline(summary: ResultSummary, others: Sequence[ResultSummary] = ()) -> Html:
    """Return all lanes of a stream of at least one window, with legend, axis and zoom buttons."""
    axis = Axis.of(summary)
    lanes = []
    if summary.truth is not None:
        lanes.append(_band(axis, summary, "Truth", summary.truth, term("truth", "Truth"), empty="no label"))
    lanes.append(_band(axis, summary, "Raw", summary.raw, term("raw", "Raw")))
    for other in others:
        name = method_label(other.result)
        lanes.append(_band(axis, summary, name, other.refined, join([name])))
    lanes.append(_band(axis, summary, "Refined", summary.refined, term("refined", "Refined")))
    if summary.uncertain.any():
        drawing = marks(axis, summary.uncertain, summary.start_s, summary.end_s, name="Low confidence")
        lanes.append(_lane(term("low confidence", "Low confidence"), drawing, kind="thin"))
    surprise = summary.result.trace.get("surprise")
    if surprise is not None:
        changes_s = summary.start_s[_change_indices(summary)]
        drawing = trace(axis, np.asarray(surprise), summary.start_s, changes_s=changes_s, name="Surprise")
        lanes.append(_lane(term("surprise", "Surprise"), drawing, kind="plot"))
    lanes.append(_lane("", axis.labels(), kind="axis"))
    return tag(
        "div",
        _tools(),
        tag("div", *lanes, tag("div", class_="cursor", hidden=True), class_="lanes"),
        legend(summary),
        class_="timeline",
        data_span=axis.span,
        data_unit=axis.unit_s,
        data_pieces=json.dumps([[round(value, 3) for value in piece] for piece in axis.pieces]),
        data_clock=axis.clock,
    )


def timeline_note(summary: ResultSummary) -> Iterator[object]:
    if len(summary.gaps) or not summary.worn.all():
        yield "Hatching marks time without data, grey time in which the sensor was not worn. "
    axis = Axis.of(summary)
    if any(piece.slope > 1.5 * axis.unit_s for piece in axis.pieces):
        yield "Long gaps are shortened. "
    if summary.truth is not None and (summary.truth < 0).any():
        yield "In the row of the truth, hatching also marks time without a label. "
    surprise = summary.result.trace.get("surprise")
    changes = _change_indices(summary)
    if surprise is None or not len(changes):
        return
    at_change = np.zeros(len(summary), dtype=bool)
    at_change[changes] = True
    inside, outside = (float(np.median(np.asarray(surprise)[where])) for where in (at_change, ~at_change))
    yield "Ticks above the "
    yield term("surprise")
    yield " mark changes of the refined class (zoom in if there are many): "
    yield f"its median is {inside:.2f} there and {outside:.2f} elsewhere. "
    if column_width(axis) > 1:
        width = duration_text(column_width(axis) * axis.unit_s)
        yield f"The line is its mean over {width}, the shaded area its minimum and maximum."


def _change_indices(summary: ResultSummary) -> Array:
    return np.flatnonzero(np.diff(summary.refined)) + 1


def _band(axis: Axis, summary: ResultSummary, name: str, labels: Array, heading: Html, empty: str = "no data") -> Html:
    return _lane(heading, band(axis, summary, labels, name), kind="band", name=name, empty=empty)


def _lane(heading: str, drawing: Html, *, kind: str, name: str | None = None, empty: str | None = None) -> Html:
    cells = tag("div", heading, class_="name"), tag("div", drawing, class_="field")
    return tag("div", *cells, class_=f"lane {kind}", data_name=name, data_empty=empty)


def _tools() -> Html:
    buttons = (
        ("in", "+", "Zoom in"),
        ("out", "\N{MINUS SIGN}", "Zoom out"),
        ("back", "←", "Earlier"),
        ("on", "→", "Later"),
        ("all", "All", "Show the whole recording"),
    )
    hint = tag("span", "Drag across the lanes to zoom in.", class_="hint")
    controls = (tag("button", sign, type="button", data_do=do, aria_label=label) for do, sign, label in buttons)
    return tag("div", hint, *controls, class_="tools", hidden=True)
