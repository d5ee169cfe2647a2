"""Table of the intensity of movement over valid days, and the note below it."""

from collections.abc import Iterator

from sight.results.report.glossary import term
from sight.results.report.html import Html, figure, header, table, tag
from sight.results.summary import ResultSummary

#: Measures of `day_statistics.csv` with their name on the page.
MEASURES = {
    "sedentary_min": ("Sedentary", "min"),
    "light_min": ("Light", "min"),
    "mvpa_min": ("Moderate or vigorous (MVPA)", "min"),
    "mvpa_bout_min": ("MVPA in bouts of 10 min", "min"),
    "enmo_mg": ("Mean ENMO", "mg"),
    "m5_mg": ("M5, most active 5 h", "mg"),
    "l5_mg": ("L5, least active 5 h", "mg"),
}
COLUMNS = {
    **{"mean": "Mean", "median": "Median", "min": "Lowest", "max": "Highest"},
    **{"weighted_mean": "Weighted", "adjusted_mean": "Adjusted"},
}


def intensity_table(summary: ResultSummary) -> Html:
    found = {row["measure"]: row for row in summary.rows("day_statistics")}
    rows = []
    for name, (heading, unit) in MEASURES.items():
        if name in found:
            values = [found[name][column] for column in COLUMNS]
            cells = [tag("td", figure(None if value is None else float(value), 1), class_="number") for value in values]
            rows.append(tag("tr", tag("th", heading, tag("span", f" ({unit})", class_="soft"), scope="row"), *cells))
    heads = [header("A day"), *(header(name, number=True) for name in COLUMNS.values())]
    return table(heads, rows, label="Intensity", class_="plain intensity")


def intensity_note(summary: ResultSummary) -> Iterator[object]:
    limits = summary.movement.cut_points if summary.movement else None
    yield "From "
    yield term("ENMO")
    yield " in epochs of 5 s at the rate of the device, on valid days. "
    if limits is not None:
        where = "awake and worn" if summary.nights else "worn"
        yield f"Minutes are {where}; cut points {limits.name}: light from {limits.light_mg:g} mg, "
        yield term("MVPA")
        yield f" from {limits.moderate_mg:g} mg ({limits.citation}). "
    yield "Weighted: five weekdays and two days of a weekend. Adjusted: time without wear is filled with the mean of "
    yield "the same hour of the clock on valid days."
