"""The page over a cohort: a line for every recording, with a drawing of its classes over time."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any
from urllib.parse import quote

from sight._version import __version__
from sight.cohort.results_folder import Store
from sight.cohort.summary_tables import FLAGS
from sight.cohort.thumbnail import COLUMNS
from sight.report.html import Html, duration, figure, join, percent, tag
from sight.report.palette import stylesheet

#: Recordings on one page; a larger cohort has several.
MOST = 5000
#: What a flag means, in the words of the page.
MEANING = {
    "short": "less than 24 hours",
    "little_wear": "worn less than half the time",
    "gaps": "more than 5 % missing",
    "clipped": "signal beyond the sensor's range",
    "unsure": "more than 30 % unsure",
    "no_clock": "no time of day",
    "warnings": "remarks of the reader",
}
#: Orders of the list: attribute of a line, what it is called.
ORDERS = {"name": "name", "wear": "worn time", "share": "share worn", "changed": "answers changed", "unsure": "unsure"}

Row = dict[str, Any]


def write_overview(store: Store, names: Sequence[str], failures: Sequence[tuple[str, str, str]]) -> None:
    """Write `overview.html`, and further pages where there are more than `MOST` recordings.

    Parameters
    ----------
    store
        Folder of the cohort, with its summary.
    names
        Finished recordings, sorted.
    failures
        Recording, file and what was wrong with it.
    """
    rows, used = (_table(store, name) if names else [] for name in ("recordings", "time_use"))
    about = json.loads(store.settings.read_text("utf-8"))
    pages = max(1, -(-len(rows) // MOST))
    for number in range(pages):
        shown = rows[MOST * number : MOST * (number + 1)]
        body = [_header(about, rows), _lead(rows, failures), _time_use(used), _links(number, pages)]
        body += [_list(store, shown, about["classes"]) if shown else None, _failures(failures), _footer()]
        text = _document(f"Cohort of {len(rows):,} recordings", join(body), len(about["classes"]))
        store.write(store.root / _file(number), lambda draft, text=text: draft.write_text(text, "utf-8"))  # type: ignore[misc]
    for path in store.root.glob("overview-*.html"):
        if path.name not in {_file(number) for number in range(pages)}:
            path.unlink()


def _table(store: Store, name: str) -> list[Row]:
    import pyarrow.parquet as pq

    rows: list[Row] = pq.read_table(store.summary / f"{name}.parquet").to_pylist()
    return rows


def _file(number: int) -> str:
    return f"overview-{number + 1}.html" if number else "overview.html"


def _header(about: Mapping[str, Any], rows: Sequence[Row]) -> Html:
    dates = sorted(row["first_date"] for row in rows if row["first_date"])
    when = (
        f"Begun {dates[0]} to {dates[-1]}" if dates and dates[0] != dates[-1] else f"Begun {dates[0]}" if dates else ""
    )
    parts = (when, f"Method {about['method']}", f"Model {about['model']['file']}")
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
        "Answers changed": percent(changed / windows) if windows else "\N{EN DASH}",
        "With a flag": figure(sum(bool(row["flags"]) for row in rows)),
        "Could not be read": figure(len(failures)),
    }
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in cards.items()), class_="cards")


def _time_use(used: Sequence[Row]) -> Html | None:
    """Show how all of them spend their worn time, and how much people differ."""
    if not used or used[0]["share_of_wear"] is None:
        return None
    heads = tag(
        "tr", tag("th", "Class"), *(tag("th", h, class_="number") for h in ("Share", "Median", "10\N{EN DASH}90 %"))
    )
    lines, top = [], max(row["share_of_wear"] for row in used)
    for k, row in enumerate(used):
        width = 100 * row["share_of_wear"] / top
        bar = tag("span", tag("i", class_=f"bar k{k}", style=f"width:{width:.1f}%"), class_="bars")
        spread = f"{100 * row['share_p10']:.0f}\N{EN DASH}{100 * row['share_p90']:.0f}\xa0%"
        cells = (percent(row["share_of_wear"]), percent(row["share_median"]), spread)
        name = tag("th", tag("span", row["class"]), bar, scope="row")
        lines.append(tag("tr", name, *(tag("td", cell, class_="number") for cell in cells)))
    table = tag("table", tag("thead", heads), tag("tbody", *lines), class_="timeuse use")
    note = "Of worn time: all recordings together, the median recording, and what eight of ten lie between."
    return tag("section", tag("h2", "Time use"), table, tag("p", note, class_="note"))


def _links(number: int, pages: int) -> Html | None:
    if pages == 1:
        return None
    links = [tag("b", str(n + 1)) if n == number else tag("a", str(n + 1), href=_file(n)) for n in range(pages)]
    return tag("nav", "Pages ", *links, class_="pages", aria_label="Pages of the list")


def _list(store: Store, rows: Sequence[Row], classes: Sequence[str]) -> Html:
    legend = [
        tag("li", tag("i", class_=f"swatch k{k}"), tag("span", name), class_="entry") for k, name in enumerate(classes)
    ]
    legend.append(tag("li", tag("i", class_="swatch hatch"), tag("span", "no data"), class_="entry"))
    legend.append(tag("li", tag("i", class_="swatch hatch pale"), tag("span", "not worn (pale)"), class_="entry"))
    how = (
        "Each line runs from the first to the last window of its recording. A name leads to the full "
        "report where there is one; make it with ",
        # The script puts the folder in: a file that names its own place would not be the same bytes elsewhere.
        tag("code", "sight cohort page ", tag("span", "FOLDER", id="folder"), " NAME"),
    )
    return tag(
        "section",
        tag("h2", "Recordings"),
        _tools(rows),
        tag("ul", *legend, class_="legend"),
        tag("ol", *(_line(store, row) for row in rows), id="list", class_="list"),
        tag("p", "No recording matches.", id="none", class_="note", hidden=True),
        tag("p", *how, ".", class_="note"),
    )


def _tools(rows: Sequence[Row]) -> Html:
    found = {flag for row in rows for flag in row["flags"].split()}
    flags = [tag("option", "all", value="")]
    flags += [
        tag("option", f"{flag.replace('_', ' ')}: {MEANING[flag]}", value=flag) for flag in FLAGS if flag in found
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


def _line(store: Store, row: Row) -> Html:
    name = row["recording"]
    facts = json.loads(store.facts(name).read_text("utf-8"))
    share = row["wear_hours"] / row["recorded_hours"] if row["recorded_hours"] else 0.0
    told = f"{duration(3600 * row['recorded_hours'])}, {percent(share)} worn"
    flags = [tag("span", flag.replace("_", " "), class_="flag", title=MEANING[flag]) for flag in row["flags"].split()]
    shown = tag("a", name, href=f"pages/{quote(name)}.html") if store.page(name).is_file() else name
    remarks = facts["stream"]["facts"].get("warnings", ())
    return tag(
        "li",
        tag(
            "div",
            tag("b", shown),
            tag("span", join(filter(None, (str(row["first_date"] or ""), told)), " · "), class_="soft"),
            *(tag("span", remark, class_="remark") for remark in remarks),
            class_="who",
        ),
        _drawing(name, facts["thumbnail"]),
        tag("div", *flags, class_="flags"),
        data_flags=row["flags"],
        data_wear=row["wear_hours"],
        data_share=f"{share:.4f}",
        data_changed=row["changed_share"],
        data_unsure=row["low_confidence_share"],
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


def _failures(failures: Sequence[tuple[str, str, str]]) -> Html | None:
    if not failures:
        return None
    lines: Iterator[Html] = (
        tag("tr", tag("th", file or name, scope="row"), tag("td", error)) for name, file, error in failures[:MOST]
    )
    table = tag("table", tag("tbody", *lines), class_="facts failed")
    return tag("section", tag("h2", "Could not be read"), tag("div", table, class_="scroll"))


def _footer() -> Html:
    return tag(
        "footer",
        f"Written by sight {__version__}. This file is complete in itself: it loads nothing and sends nothing.",
    )


def _document(title: str, body: Html, classes: int) -> str:
    shared, own = files("sight.report") / "assets", files("sight.cohort") / "assets"
    script = (own / "overview.js").read_text("utf-8")
    style = (shared / "page.css").read_text("utf-8") + (own / "overview.css").read_text("utf-8") + stylesheet(classes)
    return Template((shared / "page.html").read_text("utf-8")).substitute(
        title=join([title]),
        style=style,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        body=body,
        script=script,
    )
