"""Pages of a cohort: the overview with one line for each recording, and full reports of recordings on demand."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from sight import __version__
from sight._util.durations import duration_text
from sight._util.text import choices
from sight.apps.cohort.overview_list import recordings_list
from sight.apps.cohort.recording_tables import read_summary
from sight.apps.cohort.results_folder import Failure, ResultsFolder
from sight.apps.cohort.summary_tables import IN_BED
from sight.results.output_tables import table as registered
from sight.results.output_tables.rules import TableRules
from sight.results.report import write_report
from sight.results.report.document import html_document, page_header
from sight.results.report.html import Html, figure, join, percent, tag
from sight.results.report.palette import class_colours, stylesheet

#: Recordings on one page; a larger cohort has several pages.
PAGE_SIZE = 5000
FOOTER = f"Written by sight {__version__}. This file is self-contained: it loads nothing and sends nothing."
Row = dict[str, Any]


def write_overview(folder: ResultsFolder, names: Sequence[str], failures: Sequence[Failure]) -> None:
    """Write ``overview.html`` from the summary, and further pages if there are more than `PAGE_SIZE` recordings."""
    import pyarrow.parquet as pq

    tables = (folder.summary / f"{name}.parquet" for name in ("recordings", "time_use"))
    rows, time_use = (pq.read_table(path).to_pylist() if names else [] for path in tables)
    metadata = folder.read_metadata()
    assets = files("sight.apps.cohort") / "assets"
    style = (assets / "overview.css").read_text("utf-8") + stylesheet(class_colours(metadata["classes"]))
    script = (assets / "overview.js").read_text("utf-8")
    columns = _join_subjects(folder, rows)
    count = max(1, -(-len(rows) // PAGE_SIZE))
    pages = [f"overview-{number + 1}.html" if number else "overview.html" for number in range(count)]
    for number, page in enumerate(pages):
        listed = rows[PAGE_SIZE * number : PAGE_SIZE * (number + 1)]
        body = [_header(metadata, rows), _lead(rows, failures), _time_use(time_use), _links(number, pages)]
        lines = recordings_list(folder, listed, metadata["classes"], columns) if listed else None
        body += [lines, _failures(failures), tag("footer", FOOTER)]
        text = html_document(f"Cohort of {len(rows):,} recordings", join(body), style=style, script=script)
        folder.write(folder.root / page, lambda draft, text=text: draft.write_text(text, "utf-8"))  # type: ignore[misc]
    for path in folder.root.glob("overview-*.html"):
        if path.name not in pages:
            path.unlink()


def write_recording_pages(out: Path, names: Sequence[str]) -> list[Path]:
    """Write ``pages/NAME.html`` for each recording, and link them in the overview."""
    folder = ResultsFolder(out)
    written = [_write_page(folder, name) for name in names]
    write_overview(folder, folder.names(), folder.read_failures())
    return written


def _write_page(folder: ResultsFolder, name: str) -> Path:
    facts = folder.read_facts(name)
    if facts is None:
        names = folder.names()
        if not names:
            raise ValueError(f"There is no cohort in {folder.root}; run: sight cohort run FOLDER --out {folder.root}")
        raise ValueError(f"There is no recording {name!r} in {folder.root}; {choices(name, names)}")
    metadata = folder.read_metadata()
    summary = read_summary(folder, name, facts, TableRules(**metadata["rules"]))
    summary.info |= {key: facts[key] for key in ("file", "dataset", "content") if facts[key]}
    summary.info |= {"model": metadata["model"], "title": f"Activities of {name}"}
    return write_report(folder.page(name), summary)


def _join_subjects(folder: ResultsFolder, rows: Sequence[Row]) -> list[str]:
    """Add valid days and the columns of participants to rows of recordings; return the names of these columns."""
    import pyarrow.parquet as pq

    # Participants are joined to all tables; of these, `nonwear` has no columns that depend on the classes.
    summary, joined = (folder.summary / f"{name}.parquet" for name in ("summary", "nonwear"))
    if not rows or not (summary.is_file() and joined.is_file()):
        return []
    columns = [name for name in pq.read_schema(joined).names if name not in ("recording", *registered("nonwear").fixed)]
    kept = pq.read_table(summary, columns=["recording", "valid_days", *columns]).to_pylist()
    subjects = {row["recording"]: row for row in kept}
    for row in rows:
        row.update(subjects.get(row["recording"], dict.fromkeys(columns)))
    return columns


def _header(metadata: Mapping[str, Any], rows: Sequence[Row]) -> Html:
    dates = sorted(str(row["first_date"]) for row in rows if row["first_date"])
    started = f"Started {dates[0]}" if dates else ""
    if dates and dates[0] != dates[-1]:
        started += f" to {dates[-1]}"
    parts = (started, f"Method {metadata['method']} ({metadata['rule']})", f"Model {metadata['model']['file']}")
    return page_header("Cohort", f"{len(rows):,} {'recording' if len(rows) == 1 else 'recordings'}", parts)


def _lead(rows: Sequence[Row], failures: Sequence[object]) -> Html:
    recorded, worn = (sum(row[key] for row in rows) * 3600 for key in ("recorded_hours", "wear_hours"))
    cards = {
        "Recorded": duration_text(recorded),
        "Worn": percent(worn / recorded) if recorded else "\N{EN DASH}",
        "With a warning": figure(sum(row["errors"] + row["warnings"] > 0 for row in rows)),
        "Could not be read": figure(len(failures)),
    }
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in cards.items()), class_="cards")


def _time_use(rows: Sequence[Row]) -> Html | None:
    if not rows or rows[0]["share_of_wear"] is None:
        return None
    heads = tag(
        "tr", tag("th", "Class"), *(tag("th", h, class_="number") for h in ("Share", "Median", "10\N{EN DASH}90 %"))
    )
    lines, top = [], max(row["share_of_wear"] for row in rows)
    for k, row in enumerate(rows):
        width = 100 * row["share_of_wear"] / top
        kind = "bed" if row["class"] == IN_BED else f"k{k}"
        bar = tag("span", tag("i", class_=f"bar {kind}", style=f"width:{width:.1f}%"), class_="bars")
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


def _failures(failures: Sequence[Failure]) -> Html | None:
    if not failures:
        return None
    listed = failures[:PAGE_SIZE]
    lines = (tag("tr", tag("th", file or name, scope="row"), tag("td", error)) for name, file, error in listed)
    table = tag("table", tag("tbody", *lines), class_="facts failed")
    return tag("section", tag("h2", "Could not be read"), tag("div", table, class_="scroll"))
