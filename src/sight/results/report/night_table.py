"""Table of the nights, and the note below it."""

from collections.abc import Iterator

from sight._util.durations import hours_text
from sight.results.output_tables import Row
from sight.results.output_tables.cells import mean
from sight.results.report.glossary import term
from sight.results.report.html import Html, header, percent, table, tag
from sight.results.summary import ResultSummary

HEADINGS = ("Asleep", "Awake", "Sleep period", "Sleep", "Sleep efficiency", "Worn")


def night_table(summary: ResultSummary) -> Html:
    nights = summary.rows("nights")
    rows = [tag("tr", *_cells(summary, row), class_=None if row["valid"] else "soft") for row in nights]
    valid = [row for row in nights if row["valid"]]
    foot = None
    if valid:
        figures = {name: mean(valid, name) for name in ("period_h", "sleep_h", "efficiency", "wear_share")}
        name = f"Mean of {len(valid)} valid night{'s' * (len(valid) > 1)}"
        blank = [tag("td", "") for _ in range(2)]
        foot = tag("tr", tag("th", name, scope="row"), *blank, *_figures(figures))
    heads = [header("Night"), *(header(name, number=True) for name in HEADINGS)]
    return table(heads, rows, label="Nights", class_="plain nights", foot=foot)


def night_note(summary: ResultSummary) -> Iterator[object]:
    yield "The "
    yield term("sleep period")
    yield " is computed from the angle of the arm, independently of the activities (van Hees et al. 2015, 2018). "
    if not all(row["valid"] for row in summary.rows("nights")):
        yield "Grey: not a "
        yield term("valid night")
        yield ", because the sensor was worn for less than "
        yield f"{summary.rules.valid_day_h:g} hours from noon to noon, or not in the night. "


def _cells(summary: ResultSummary, row: Row) -> Iterator[Html]:
    evening = summary.clock(summary.nights[row["night"] - 1].noon_s)
    flag = None if row["valid"] else tag("span", "not valid", class_="flag")
    yield tag("th", f"{evening:%a} {evening.day} {evening:%b}" if evening else row["night"], flag, scope="row")
    for name in ("onset_s", "wake_s"):
        moment = None if row[name] is None else summary.clock(row[name])
        yield tag("td", f"{moment:%H:%M}" if moment else "\N{EN DASH}", class_="number")
    yield from _figures(row)


def _figures(row: Row) -> Iterator[Html]:
    for name in ("period_h", "sleep_h", "efficiency", "wear_share"):
        value = row[name]
        text = "\N{EN DASH}" if value is None else hours_text(value) if name.endswith("_h") else percent(value)
        yield tag("td", text, class_="number")
