"""The page: findings in words, then figures, each with what to see in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from sight._version import __version__
from sight.report import fact_tables, figures
from sight.report.axis import Axis
from sight.report.glossary import glossary, term
from sight.report.html import Html, duration, join, percent, tag
from sight.report.lanes import column_width
from sight.report.palette import stylesheet
from sight.report.result_summary import ResultSummary
from sight.report.timeline import changed, timeline


def page(
    summary: ResultSummary,
    *,
    others: Sequence[ResultSummary],
    rows: Sequence[fact_tables.Row] | None,
    title: str,
    facts: Mapping[str, Any],
) -> str:
    """Compose the whole document as text."""
    truth = summary.truth
    scores = [] if truth is None else fact_tables.score_rows(summary, truth, others)
    table = scores if rows is None else rows
    body = [_header(summary, title, facts)]
    if len(summary):
        body += [tag("p", *_findings(summary, scores), class_="lead"), fact_tables.cards(summary, scores)]
        body += _figures(summary, others)
    else:
        body.append(tag("p", "The recording holds no window, so there is nothing to show.", class_="lead"))
    if table:
        note = fact_tables.reading_note(table, waited=any(one.result.lag for one in (summary, *others)))
        body.append(_section("Methods side by side", fact_tables.methods_table(table), note))
    body += [_details(summary, facts), _footer()]
    return _document(title, join(body), len(summary.classes))


def _document(title: str, body: Html, classes: int) -> str:
    assets = files("sight.report") / "assets"
    script = (assets / "page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template((assets / "page.html").read_text("utf-8")).substitute(
        title=join([title]),
        style=(assets / "page.css").read_text("utf-8") + stylesheet(classes),
        digest=digest,
        body=body,
        script=script,
    )


def _header(summary: ResultSummary, title: str, facts: Mapping[str, Any]) -> Html:
    first, last = (summary.clock(s) for s in _ends(summary))
    when = None
    if first is not None and last is not None:
        end = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%a} {last.day} {last:%B %Y}, {last:%H:%M}"
        zone = f" ({first:%Z})" if first.tzinfo else ""
        when = f"{first:%a} {first.day} {first:%B %Y}, {first:%H:%M} \N{EN DASH} {end}{zone}"
    who = facts.get("subject")
    parts = (f"Wearer {who}" if who else None, when, f"Method {summary.result.label}")
    line = [tag("span", part) for part in parts if part]
    return tag(
        "header", tag("p", "Activity report", class_="kicker"), tag("h1", title), tag("p", *line, class_="byline")
    )


def _ends(summary: ResultSummary) -> tuple[float, float]:
    return (float(summary.start_s[0]), float(summary.end_s[-1])) if len(summary) else (0.0, 0.0)


def _findings(summary: ResultSummary, scores: Sequence[fact_tables.Row]) -> Iterator[object]:
    """Say in a sentence or two what the method did and whether it helped."""
    total = int((summary.raw != summary.refined).sum())
    worn = duration(float(summary.seconds[summary.worn].sum()))
    yield f"Over {worn} of worn time, the method {summary.result.method} changed "
    yield f"{percent(summary.share_changed)} of the "
    yield term("raw")
    yield f" answers ({total:,} of {len(summary):,} windows)."
    if scores and summary.truth is not None:
        before, after = scores[0]["macro_f1_truth"], scores[-1]["macro_f1_truth"]
        move = "rose" if after > before + 5e-4 else "fell" if after < before - 5e-4 else "stayed level"
        yield " Against the labels, "
        yield term("macro-F1")
        yield f" {move} from {before:.3f} to {after:.3f}" if move != "stayed level" else f" stayed level at {after:.3f}"
        labelled = summary.truth >= 0
        here = labelled & (summary.raw != summary.refined)
        mended = int((here & (summary.refined == summary.truth)).sum())
        broken = int((here & (summary.raw == summary.truth)).sum())
        if here.any():
            yield f": {mended:,} changes made a wrong answer right, {broken:,} made a right one wrong, "
            yield f"{int(here.sum()) - mended - broken:,} swapped one error for another"
        yield "."


def _figures(summary: ResultSummary, others: Sequence[ResultSummary]) -> Iterator[Html]:
    yield _section("The recording over time", timeline(summary, others), _timeline_note(summary))
    yield _section("Time use", figures.time_use(summary), tag("p", *_time_use_note(summary), class_="note"))
    listed = figures.corrections(summary)
    if listed is not None:
        both = figures.pair(summary.classes, figures.flow(summary), listed)
        note = "Windows whose class the method changed, from the raw class (rows) to the refined one (columns)."
        yield _section("What changed", both, tag("p", note, class_="note"))
    if summary.truth is not None:
        note = "Percent of the windows of each true class (rows) that received each answer (columns)."
        pair = figures.confusions(summary, summary.truth)
        yield _section("Against the labels", pair, tag("p", note, class_="note"))


def _timeline_note(summary: ResultSummary) -> Html:
    said: list[object] = []
    if len(summary.gaps) or not summary.worn.all():
        said.append("Hatching shows time without data, pale colours time in which the sensor was not worn. ")
    if summary.truth is not None and (summary.truth < 0).any():
        said.append("In the lane of the truth, hatching is also time without a label. ")
    surprise = summary.result.trace.get("surprise")
    here = changed(summary)
    if surprise is not None and len(here):
        away = np.ones(len(summary), dtype=bool)
        away[here] = False
        at, off = (float(np.median(np.asarray(surprise)[where])) for where in (here, away))
        said += ["Ticks above the ", term("surprise"), " mark changes of the refined class: its median is "]
        said.append(f"{at:.2f} there and {off:.2f} elsewhere. ")
        axis = Axis.of(summary)
        if column_width(axis) > 1:
            column = duration(column_width(axis) * axis.unit_s)
            said.append(f"The line is its mean over {column}, the shade its lowest and highest value.")
    return tag("p", *said, class_="note")


def _time_use_note(summary: ResultSummary) -> Iterator[object]:
    yield "Worn time only; each window stands for the time until the next."
    if summary.truth is not None:
        missing = float((summary.truth < 0)[summary.worn].mean()) if summary.worn.any() else 0.0
        if missing:
            yield f" {percent(missing)} of the worn windows have no label, so the truth adds up to less."


def _section(heading: str, *content: object) -> Html:
    return tag("section", tag("h2", heading), *content)


def _details(summary: ResultSummary, facts: Mapping[str, Any]) -> Html:
    w = summary.result.windows
    stream = {"windows": len(w), "window_s": w.window_s, "stride_s": w.stride_s, "start": w.start} | dict(w.facts)
    loose = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    groups: dict[str, Mapping[str, Any]] = {"Method": {"name": summary.result.method} | dict(summary.result.params)}
    groups |= {key.capitalize(): value for key, value in facts.items() if isinstance(value, Mapping)}
    groups |= {"Stream": stream, "Run": dict(summary.result.facts) | loose}
    return tag(
        "section",
        tag(
            "details",
            tag("summary", "Settings and facts"),
            tag("div", fact_tables.facts_table(groups), class_="columns"),
        ),
        tag("details", tag("summary", "Words of this page"), glossary()),
        class_="more",
    )


def _footer() -> Html:
    said = "This file is complete in itself: it loads nothing and sends nothing."
    return tag("footer", f"Written by sight {__version__}. {said}")
