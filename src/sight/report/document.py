"""The report page: summary, figures, table of methods, details and glossary."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from sight._version import __version__
from sight.report import day_rows, figures, score_table
from sight.report.axis import Axis
from sight.report.day_grid import day_grid
from sight.report.fact_tables import facts_table, method_figures, recording_figures
from sight.report.glossary import glossary, term
from sight.report.hours_a_day import hours_a_day
from sight.report.html import Html, duration, join, percent, tag
from sight.report.lanes import column_width
from sight.report.palette import class_colours, stylesheet
from sight.tables import ResultSummary, daily_rows, headline, warnings_of
from sight.report.timeline import change_indices, timeline


#: Recordings at least this long have a row for each day; shorter ones are shown on one time axis.
DAYS_FROM_S = 24 * 60 * 60


def render(summary: ResultSummary, others: Sequence[ResultSummary], title: str, facts: Mapping[str, Any]) -> str:
    """Return the page as text; parameters as in `sight.report.write_report`."""
    scores = [] if summary.truth is None else score_table.score_rows(summary, others)
    daily = daily_rows(summary)
    body = [_header(summary, title, facts), *_warnings(summary, daily)]
    if len(summary):
        body += [tag("p", headline(daily, summary.classes), ".", class_="lead"), recording_figures(summary, daily)]
        body += _activities(summary, others)
        body += _method(summary, others, scores)
    else:
        body.append(tag("p", "The recording contains no window, so there is nothing to show.", class_="lead"))
    if scores:
        notes = score_table.notes(scores, lag=any(s.result.lag for s in (summary, *others)))
        body.append(_section("Comparison of methods", score_table.methods_table(scores), notes))
    body += [_details(summary, facts), _footer()]
    content = tag("div", *body, data_classes=json.dumps(summary.classes))
    return html_document(title, content, style=stylesheet(class_colours(summary.classes)))


def html_document(title: str, body: Html, *, style: str = "", script: str | None = None) -> str:
    """Return an HTML file without external resources; `style` is added to the style sheet of the report.

    `script` replaces the script of the report; no other script can run on the page.
    """
    assets = files("sight.report") / "assets"
    script = (assets / "page.js").read_text("utf-8") if script is None else script
    return Template((assets / "page.html").read_text("utf-8")).substitute(
        title=join([title]),
        style=(assets / "page.css").read_text("utf-8") + style,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        body=body,
        script=script,
    )


def _header(summary: ResultSummary, title: str, facts: Mapping[str, Any]) -> Html:
    subject = facts.get("subject")
    parts = (f"Wearer {subject}" if subject else None, _period(summary), f"Method {summary.result.label}")
    return tag(
        "header",
        tag("p", "Activity report", class_="kicker"),
        tag("h1", title),
        tag("p", *(tag("span", part) for part in parts if part), class_="byline"),
    )


def _warnings(summary: ResultSummary, daily: Sequence[Mapping[str, Any]]) -> Iterator[Html]:
    """Yield a banner with the warnings about the recording, if there are any."""
    warnings = warnings_of(summary, daily)
    if warnings:
        items = tag("ul", *(tag("li", warning) for warning in warnings))
        yield tag("aside", tag("strong", "Check the recording"), items, class_="warnings", role="note")


def _period(summary: ResultSummary) -> str | None:
    """Return start and end of the recording on the wall clock, or None if unknown."""
    ends = (float(summary.start_s[0]), float(summary.end_s[-1])) if len(summary) else (0.0, 0.0)
    first, last = map(summary.clock, ends)
    if first is None or last is None:
        return None
    end = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%a} {last.day} {last:%B %Y}, {last:%H:%M}"
    zone = f" ({first:%Z})" if first.tzinfo else ""
    return f"{first:%a} {first.day} {first:%B %Y}, {first:%H:%M} \N{EN DASH} {end}{zone}"


def _activities(summary: ResultSummary, others: Sequence[ResultSummary]) -> Iterator[Html]:
    """Yield the sections about what the wearer did: by day if the recording is long, else on one time axis."""
    if not _is_long(summary):
        yield _section("Activities over time", timeline(summary, others), _note(*_timeline_note(summary)))
        yield _section("Time use", figures.time_use(summary), _note(*_time_use_note(summary)))
        return
    grid = day_grid(summary)
    yield _section("Days", day_rows.day_rows(summary, grid), _note(*_days_note(summary)))
    if grid.valid.any():
        count = int(grid.valid.sum())
        days = f"the {count} valid days" if count > 1 else "the valid day"
        note = f"Share of each class by time of day on {days}, in steps of half an hour. White: not worn or no data."
        yield _section("Average day", day_rows.average_day(summary, grid), _note(note))
        note = f"Bar: mean of {days}. Dots: single days; open dots are days that are not valid. Range: valid days."
        yield _section("Hours a day", hours_a_day(summary, grid), _note(note))


def _method(
    summary: ResultSummary, others: Sequence[ResultSummary], scores: Sequence[score_table.Row]
) -> Iterator[Html]:
    """Yield the sections about what adaptation changed."""
    lead = tag("p", *_change_text(summary, scores), class_="text")
    yield _section("What adaptation changed", lead, method_figures(summary, scores))
    if _is_long(summary):
        yield _section("Raw and refined over time", timeline(summary, others), _note(*_timeline_note(summary)))
        yield _section("Time use, raw and refined", figures.time_use(summary), _note(*_time_use_note(summary)))
    changes = figures.changes(summary)
    if changes is not None:
        note = "Number of windows whose class the method changed, from the raw class (rows) to the refined (columns)."
        yield _section("Changes between classes", changes, _note(note))
    if summary.truth is not None:
        note = "Percent of the windows of each true class (rows) with each predicted class (columns)."
        yield _section("Comparison with the labels", figures.confusions(summary, summary.truth), _note(note))


def _is_long(summary: ResultSummary) -> bool:
    return bool(summary.end_s[-1] - summary.start_s[0] >= DAYS_FROM_S)


def _days_note(summary: ResultSummary) -> Iterator[object]:
    yield "Each column is five minutes; its colours are the shares of the classes, with rest below and movement above. "
    if not summary.worn.all():
        yield "Grey: not worn. "
    if len(summary.gaps):
        yield "Hatched: no data. "
    yield f"A day is valid if the sensor was worn for at least {summary.rules.valid_day_h:g} hours; hours worn are on the "
    yield "right. Means are those of valid days."


def _change_text(summary: ResultSummary, scores: Sequence[score_table.Row]) -> Iterator[object]:
    """Yield the text about how many windows the method changed and whether the scores improved."""
    yield f"Adaptation with {summary.result.method} changed the "
    yield term("raw")
    yield f" class of {percent(float(summary.changed.mean()))} of the windows "
    yield f"({int(summary.changed.sum()):,} of {len(summary):,})."
    if not scores or summary.truth is None:
        return
    before, after = scores[0]["macro_f1_truth"], scores[-1]["macro_f1_truth"]
    yield " Compared with the labels, "
    yield term("macro-F1")
    if abs(after - before) > 5e-4:
        yield f" {'rose' if after > before else 'fell'} from {before:.3f} to {after:.3f}"
    else:
        yield f" stayed at {after:.3f}"
    changed = summary.changed & (summary.truth >= 0)
    corrected = int((changed & (summary.refined == summary.truth)).sum())
    damaged = int((changed & (summary.raw == summary.truth)).sum())
    if changed.any():
        yield f": {corrected:,} changes corrected an error, {damaged:,} introduced one, "
        yield f"{int(changed.sum()) - corrected - damaged:,} replaced one wrong class by another"
    yield "."


def _timeline_note(summary: ResultSummary) -> Iterator[object]:
    if len(summary.gaps) or not summary.worn.all():
        yield "Hatching marks time without data, pale colours time in which the sensor was not worn. "
    axis = Axis.of(summary)
    if any(piece.slope > 1.5 * axis.unit_s for piece in axis.pieces):
        yield "Long gaps are shortened. "
    if summary.truth is not None and (summary.truth < 0).any():
        yield "In the row of the truth, hatching also marks time without a label. "
    surprise = summary.result.trace.get("surprise")
    changes = change_indices(summary)
    if surprise is None or not len(changes):
        return
    at_change = np.zeros(len(summary), dtype=bool)
    at_change[changes] = True
    inside, outside = (float(np.median(np.asarray(surprise)[where])) for where in (at_change, ~at_change))
    yield "Ticks above the "
    yield term("surprise")
    yield f" mark changes of the refined class: its median is {inside:.2f} there and {outside:.2f} elsewhere. "
    if column_width(axis) > 1:
        width = duration(column_width(axis) * axis.unit_s)
        yield f"The line is its mean over {width}, the shaded area its minimum and maximum."


def _time_use_note(summary: ResultSummary) -> Iterator[object]:
    yield "Worn time only; each window counts for the time until the next one."
    if summary.truth is not None:
        missing = float((summary.truth < 0)[summary.worn].mean()) if summary.worn.any() else 0.0
        if missing:
            yield f" {percent(missing)} of the worn windows have no label, so the truth adds up to less."


def _note(*text: object) -> Html:
    return tag("p", *text, class_="note")


def _section(heading: str, *content: object) -> Html:
    return tag("section", tag("h2", heading), *content)


def _details(summary: ResultSummary, facts: Mapping[str, Any]) -> Html:
    result, w = summary.result, summary.result.windows
    groups: dict[str, Mapping[str, Any]] = {"Method": {"name": result.method} | dict(result.params)}
    groups |= {key.capitalize(): value for key, value in facts.items() if isinstance(value, Mapping)}
    stream = {"windows": len(w), "window_s": w.window_s, "stride_s": w.stride_s, "start": w.start}
    stream |= {key: value for key, value in w.facts.items() if key not in facts.get("input", {})}
    single_facts = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    groups |= {"Stream": stream, "Run": dict(result.facts) | single_facts}
    tables = tag("div", facts_table(groups), class_="columns")
    return tag(
        "section",
        tag("details", tag("summary", "Parameters and details"), tables),
        tag("details", tag("summary", "Glossary"), glossary()),
        class_="more",
    )


def _footer() -> Html:
    return tag("footer", f"Written by sight {__version__}. This file needs no network: it loads and sends nothing.")
