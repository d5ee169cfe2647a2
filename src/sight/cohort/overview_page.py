"""Overview page of a cohort: one line for each recording, with its classes over time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from sight._version import __version__
from sight.cohort.results_folder import Failure, ResultsFolder
from sight.cohort.summary_tables import FLAGS
from sight.cohort.thumbnail import COLUMNS
from sight.report.document import html_document
from sight.report.html import Html, duration, figure, join, percent, tag
from sight.report.palette import class_colours, stylesheet

#: Recordings on one page; a larger cohort has several pages.
PAGE_SIZE = 5000
#: Descriptions of flags.
FLAG_TEXTS = {
    "short": "less than 24 hours",
    "little_wear": "worn less than half the time",
    "gaps": "more than 5 % missing",
    "saturated": "signal at the limit of the sensor's range",
    "low_confidence": "more than 30 % low confidence",
    "no_clock": "no time of day",
    "warnings": "warnings from reading the file",
}
#: Sort orders of the list: data attribute of a line to its label.
ORDERS = {
    "name": "name",
    "wear": "worn time",
    "share": "share worn",
    "changed": "predictions changed",
    "uncertain": "low confidence",
}

Row = dict[str, Any]


def write_overview(folder: ResultsFolder, names: Sequence[str], failures: Sequence[Failure]) -> None:
    """Write ``overview.html`` from the summary, and further pages if there are more than `PAGE_SIZE` recordings."""
    rows, time_use = (_read_table(folder, name) if names else [] for name in ("recordings", "time_use"))
    metadata = folder.read_metadata()
    assets = files("sight.cohort") / "assets"
    style = (assets / "overview.css").read_text("utf-8") + stylesheet(class_colours(metadata["classes"]))
    script = (assets / "overview.js").read_text("utf-8")
    pages = [_page_name(number) for number in range(max(1, -(-len(rows) // PAGE_SIZE)))]
    for number, page in enumerate(pages):
        listed = rows[PAGE_SIZE * number : PAGE_SIZE * (number + 1)]
        body = [_header(metadata, rows), _lead(rows, failures), _time_use(time_use), _links(number, pages)]
        body += [_list(folder, listed, metadata["classes"]) if listed else None, _failures(failures), _footer()]
        text = html_document(f"Cohort of {len(rows):,} recordings", join(body), style=style, script=script)
        folder.write(folder.root / page, lambda draft, text=text: draft.write_text(text, "utf-8"))  # type: ignore[misc]
    for path in folder.root.glob("overview-*.html"):
        if path.name not in pages:
            path.unlink()


def _read_table(folder: ResultsFolder, name: str) -> list[Row]:
    import pyarrow.parquet as pq

    rows: list[Row] = pq.read_table(folder.summary / f"{name}.parquet").to_pylist()
    return rows


def _page_name(number: int) -> str:
    return f"overview-{number + 1}.html" if number else "overview.html"


def _header(metadata: Mapping[str, Any], rows: Sequence[Row]) -> Html:
    dates = sorted(str(row["first_date"]) for row in rows if row["first_date"])
    started = f"Started {dates[0]}" if dates else ""
    if dates and dates[0] != dates[-1]:
        started += f" to {dates[-1]}"
    parts = (started, f"Method {metadata['method']}", f"Model {metadata['model']['file']}")
    return tag(
        "header",
        tag("p", "Cohort", class_="kicker"),
        tag("h1", f"{len(rows):,} {'recording' if len(rows) == 1 else 'recordings'}"),
        tag("p", *(tag("span", part) for part in parts if part), class_="byline"),
    )


def _lead(rows: Sequence[Row], failures: Sequence[object]) -> Html:
    recorded, worn = (sum(row[key] for row in rows) * 3600 for key in ("recorded_hours", "wear_hours"))
    windows = sum(row["windows"] for row in rows)
    changed = sum(row["changed_share"] * row["windows"] for row in rows)
    cards = {
        "Recorded": duration(recorded),
        "Worn": percent(worn / recorded) if recorded else "\N{EN DASH}",
        "Windows": figure(windows),
        "Predictions changed": percent(changed / windows) if windows else "\N{EN DASH}",
        "With a flag": figure(sum(bool(row["flags"]) for row in rows)),
        "Could not be read": figure(len(failures)),
    }
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in cards.items()), class_="cards")


def _time_use(rows: Sequence[Row]) -> Html | None:
    """Return the table of worn time by class, with its spread over recordings."""
    if not rows or rows[0]["share_of_wear"] is None:
        return None
    heads = tag(
        "tr", tag("th", "Class"), *(tag("th", h, class_="number") for h in ("Share", "Median", "10\N{EN DASH}90 %"))
    )
    lines, top = [], max(row["share_of_wear"] for row in rows)
    for k, row in enumerate(rows):
        width = 100 * row["share_of_wear"] / top
        bar = tag("span", tag("i", class_=f"bar k{k}", style=f"width:{width:.1f}%"), class_="bars")
        spread = f"{100 * row['share_p10']:.0f}\N{EN DASH}{100 * row['share_p90']:.0f}\xa0%"
        cells = (percent(row["share_of_wear"]), percent(row["share_median"]), spread)
        name = tag("th", tag("span", row["class"]), bar, scope="row")
        lines.append(tag("tr", name, *(tag("td", cell, class_="number") for cell in cells)))
    table = tag("table", tag("thead", heads), tag("tbody", *lines), class_="timeuse use")
    note = "Share of worn time: all recordings together, the median recording, and the range of the middle 80 %."
    return tag("section", tag("h2", "Time use"), table, tag("p", note, class_="note"))


def _links(number: int, pages: Sequence[str]) -> Html | None:
    if len(pages) == 1:
        return None
    links = [tag("b", str(n + 1)) if n == number else tag("a", str(n + 1), href=page) for n, page in enumerate(pages)]
    return tag("nav", "Pages ", *links, class_="pages", aria_label="Pages of the list")


def _list(folder: ResultsFolder, rows: Sequence[Row], classes: Sequence[str]) -> Html:
    legend = [
        tag("li", tag("i", class_=f"swatch k{k}"), tag("span", name), class_="entry") for k, name in enumerate(classes)
    ]
    legend.append(tag("li", tag("i", class_="swatch hatch"), tag("span", "no data"), class_="entry"))
    legend.append(tag("li", tag("i", class_="swatch hatch pale"), tag("span", "not worn (pale)"), class_="entry"))
    how = (
        "Each line runs from the first to the last window of its recording. A linked name opens the full report; "
        "write one with ",
        # The script fills in the folder: the file itself must not depend on where it is.
        tag("code", "sight cohort page ", tag("span", "FOLDER", id="folder"), " NAME"),
    )
    return tag(
        "section",
        tag("h2", "Recordings"),
        _tools(rows),
        tag("ul", *legend, class_="legend"),
        tag("ol", *(_line(folder, row) for row in rows), id="list", class_="list"),
        tag("p", "No recording matches.", id="none", class_="note", hidden=True),
        tag("p", *how, ".", class_="note"),
    )


def _tools(rows: Sequence[Row]) -> Html:
    used = {flag for row in rows for flag in row["flags"].split()}
    flags = [tag("option", "all", value="")]
    flags += [
        tag("option", f"{flag.replace('_', ' ')}: {FLAG_TEXTS[flag]}", value=flag) for flag in FLAGS if flag in used
    ]
    orders = [tag("option", text, value=key) for key, text in ORDERS.items()]
    return tag(
        "form",
        tag("label", "Name ", tag("input", type="search", id="name", autocomplete="off")),
        tag("label", "Flag ", tag("select", *flags, id="flag")),
        tag("label", "Sort by ", tag("select", *orders, id="order")),
        tag("output", f"{len(rows):,} shown", id="count"),
        class_="filter",
        role="search",
    )


def _line(folder: ResultsFolder, row: Row) -> Html:
    name = row["recording"]
    facts = json.loads(folder.facts(name).read_text("utf-8"))
    share = row["wear_hours"] / row["recorded_hours"] if row["recorded_hours"] else 0.0
    length = f"{duration(3600 * row['recorded_hours'])}, {percent(share)} worn"
    flags = [
        tag("span", flag.replace("_", " "), class_="flag", title=FLAG_TEXTS[flag]) for flag in row["flags"].split()
    ]
    title = tag("a", name, href=f"pages/{quote(name)}.html") if folder.page(name).is_file() else name
    warnings = facts["stream"]["facts"].get("warnings", ())
    return tag(
        "li",
        tag(
            "div",
            tag("b", title),
            tag("span", join(filter(None, (str(row["first_date"] or ""), length)), " · "), class_="soft"),
            *(tag("span", warning, class_="warning") for warning in warnings),
            class_="recording",
        ),
        _drawing(name, facts["thumbnail"]),
        tag("div", *flags, class_="flags"),
        data_flags=row["flags"],
        data_wear=row["wear_hours"],
        data_share=f"{share:.4f}",
        data_changed=row["changed_share"],
        data_uncertain=row["low_confidence_share"],
    )


def _drawing(name: str, paths: Mapping[str, str]) -> Html:
    return tag(
        "svg",
        *(tag("path", d=d, class_=kind) for kind, d in paths.items()),
        viewBox=f"0 0 {COLUMNS} 1",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"Classes of {name} over time",
    )


def _failures(failures: Sequence[Failure]) -> Html | None:
    if not failures:
        return None
    lines: Iterator[Html] = (
        tag("tr", tag("th", file or name, scope="row"), tag("td", error)) for name, file, error in failures[:PAGE_SIZE]
    )
    table = tag("table", tag("tbody", *lines), class_="facts failed")
    return tag("section", tag("h2", "Could not be read"), tag("div", table, class_="scroll"))


def _footer() -> Html:
    return tag(
        "footer",
        f"Written by sight {__version__}. This file is self-contained: it loads nothing and sends nothing.",
    )
