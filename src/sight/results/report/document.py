"""The report page: summary, figures, table of methods, details and glossary."""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

from sight import __version__
from sight.results.method_name import method_label, method_name
from sight.results.output_tables import Row, Table, all_tables
from sight.results.output_tables.headline import headline
from sight.results.report import day_rows, figures, score_table
from sight.results.report.day_grid import day_grid
from sight.results.report.fact_tables import facts_table, method_figures, recording_figures
from sight.results.report.glossary import glossary
from sight.results.report.html import Html, figure, header, join, table as html_table, tag, unbroken
from sight.results.report.intensity_table import intensity_note, intensity_table
from sight.results.report.night_table import night_note, night_table
from sight.results.report.palette import class_colours, stylesheet
from sight.results.report.timeline import timeline, timeline_note
from sight.results.summary import ResultSummary
from sight.types import worst_first

#: Recordings at least this long have a row for each day; shorter ones are shown on one time axis.
DAYS_FROM_S = 24 * 60 * 60


def render(summary: ResultSummary, others: Sequence[ResultSummary]) -> str:
    """Return the page as text; `others` are summaries of other methods on the same stream."""
    facts = dict(summary.info)
    subject = facts.get("subject")
    named = f"Activities of {subject or 'one wearer'}"
    title = str(facts.pop("title", named))
    scores = [] if summary.truth is None else score_table.score_rows(summary, others)
    wearer = f"Wearer {subject}" if subject and title != named else None
    parts = (wearer, _period(summary), f"Method {method_label(summary.result)}")
    body = [page_header("Activity report", title, parts), *_warnings(summary)]
    if len(summary):
        body.append(tag("p", headline(summary), ".", class_="lead"))
        body += [recording_figures(summary)] if summary.usable else []
        body += _activities(summary, others)
        body += [_table_section(summary, table) for table in all_tables() if table.heading]
        body += _method(summary, others, scores)
    else:
        body.append(tag("p", "The recording contains no window, so there is nothing to show.", class_="lead"))
    if scores:
        explained = score_table.notes(scores, lag=any(s.result.lag for s in (summary, *others)))
        body.append(_section("Comparison of methods", score_table.methods_table(scores), explained))
    footer = f"Written by sight {__version__}. This file needs no network: it loads and sends nothing."
    body += [_details(summary, facts, glossary("".join(body))), tag("footer", footer)]
    content = unbroken(tag("div", *body, data_classes=json.dumps(summary.classes)))
    return html_document(title, content, style=stylesheet(class_colours(summary.classes)))


def html_document(title: str, body: Html, *, style: str = "", script: str | None = None) -> str:
    """Return an HTML file without external resources; `style` is added to the style sheet of the report.

    `script` replaces the script of the report; no other script can run on the page.
    """
    assets = files("sight.results.report") / "assets"
    script = (assets / "page.js").read_text("utf-8") if script is None else script
    return Template((assets / "page.html").read_text("utf-8")).substitute(
        title=join([title]),
        style=(assets / "page.css").read_text("utf-8") + style,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        body=body,
        script=script,
    )


def page_header(kind: str, title: str, parts: Iterable[str | None]) -> Html:
    """Return the head of a page: its kind, its title and a line of facts, without those that are empty."""
    byline = tag("p", *(tag("span", part) for part in parts if part), class_="byline")
    return tag("header", tag("p", kind, class_="kicker"), tag("h1", title), byline)


def _warnings(summary: ResultSummary) -> Iterator[Html]:
    """Yield the banner: warnings with their severity, the worst first."""
    if summary.warnings:
        items = [
            tag("li", tag("b", warning.severity.capitalize(), class_=warning.severity), " ", warning)
            for warning in worst_first(summary.warnings)
        ]
        title = "Check the recording" if summary.usable else "The numbers of this recording cannot be used"
        kind = "warnings" if summary.usable else "warnings unusable"
        yield tag("aside", tag("strong", title), tag("ul", *items), class_=kind, role="note")


def _period(summary: ResultSummary) -> str | None:
    ends = (float(summary.start_s[0]), float(summary.end_s[-1])) if len(summary) else (0.0, 0.0)
    first, last = map(summary.clock, ends)
    if first is None or last is None:
        return None
    end = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%a} {last.day} {last:%B %Y}, {last:%H:%M}"
    zone = f" ({getattr(first.tzinfo, 'key', None) or f'{first:%Z}'})" if first.tzinfo else ""
    return f"{first:%a} {first.day} {first:%B %Y}, {first:%H:%M} \N{EN DASH} {end}{zone}"


def _activities(summary: ResultSummary, others: Sequence[ResultSummary]) -> Iterator[Html]:
    """Yield the sections about what the wearer did: by day if the recording is long, else on one time axis."""
    if not _is_long(summary):
        yield _section("Activities over time", timeline(summary, others), _note(*timeline_note(summary)))
        yield _section("Time use", figures.time_use(summary), _note(*figures.time_use_note(summary)))
        return
    grid = day_grid(summary)
    yield _section("Days", day_rows.day_rows(summary, grid), _note(*day_rows.days_note(summary)))
    if summary.nights:
        yield _section("Nights", night_table(summary), _note(*night_note(summary)))
    if grid.valid.any():
        count = int(grid.valid.sum())
        days = f"the {count} valid days" if count > 1 else "the valid day"
        when = "hours since waking" if summary.days_from == "waking" else "time of day"
        note = f"Share of each class by {when} on {days}, in steps of half an hour. Grey: not worn."
        yield _section("Average day", day_rows.average_day(summary, grid), _note(note))
        note = f"Bar: mean of {days}. Dots: single days; open dots are days that are not valid."
        of_range = tag("span", " Range: valid days.", class_="range")
        yield _section("Hours a day", figures.hours_a_day(summary, grid), _note(note, of_range))
        if summary.movement is not None:
            yield _section("Intensity", intensity_table(summary), _note(*intensity_note(summary)))


def _table_section(summary: ResultSummary, table: Table) -> Html:
    columns = table.columns_of(summary)
    rows = [
        tag("tr", *(tag("td", figure(row.get(name)), class_="number") for name in columns))
        for row in summary.rows(table.name)
    ]
    heads = [header(name, number=True) for name in columns]
    return _section(table.heading, html_table(heads, rows, label=table.heading, class_="plain"))


def _method(summary: ResultSummary, others: Sequence[ResultSummary], scores: Sequence[Row]) -> Iterator[Html]:
    lead = tag("p", *figures.changes_text(summary, scores), class_="text")
    yield _section("What adaptation changed", lead, method_figures(summary, scores))
    if _is_long(summary):
        lanes = timeline(summary, others)
        yield _section("Raw and refined over time", lanes, _note(*timeline_note(summary)), on_paper=False)
        used = figures.time_use(summary), _note(*figures.time_use_note(summary))
        yield _section("Time use, raw and refined", *used, on_paper=False)
    changes = figures.changes(summary)
    if changes is not None:
        note = "Number of worn windows whose class the method changed, from raw class (rows) to refined (columns)."
        yield _section("Changes between classes", changes, _note(note), on_paper=not _is_long(summary))
    if summary.truth is not None:
        note = "Percent of the windows of each true class (rows) with each predicted class (columns)."
        yield _section("Comparison with the labels", figures.confusions(summary, summary.truth), _note(note))


def _is_long(summary: ResultSummary) -> bool:
    return bool(summary.end_s[-1] - summary.start_s[0] >= DAYS_FROM_S)


def _note(*text: object) -> Html:
    return tag("p", *text, class_="note")


def _section(heading: str, *content: object, on_paper: bool = True) -> Html:
    return tag("section", tag("h2", heading), *content, class_=None if on_paper else "screen")


def _details(summary: ResultSummary, facts: Mapping[str, Any], terms: Html) -> Html:
    result, w = summary.result, summary.result.windows
    groups: dict[str, Mapping[str, Any]] = {"Method": {"name": method_name(result)} | dict(result.params)}
    groups |= {key.capitalize(): value for key, value in facts.items() if isinstance(value, Mapping)}
    stream = {"windows": len(w), "window_s": w.window_s, "stride_s": w.stride_s, "start": w.start}
    stream |= {key: value for key, value in w.facts.as_dict().items() if key not in facts.get("input", {})}
    single_facts = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    names = ("sight_version", "notes", "parts_are_ours")
    groups |= {"Stream": stream, "Run": {name: getattr(result, name) for name in names} | single_facts}
    tables = tag("div", facts_table(groups), class_="columns")
    return tag(
        "section",
        tag("details", tag("summary", "Parameters and details"), tables),
        tag("details", tag("summary", "Glossary"), terms),
        class_="more",
    )
