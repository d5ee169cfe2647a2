"""List of recordings on the overview page: one line each, with its classes over time on a common axis."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from sight._util.durations import duration_text
from sight.apps.cohort.results_folder import ResultsFolder
from sight.apps.cohort.summary_tables import FLAGS
from sight.apps.cohort.thumbnail import COLUMNS
from sight.results.output_tables import Row
from sight.results.report.axis import STEPS_S
from sight.results.report.html import Html, join, legend_list, percent, svg, tag
from sight.results.report.palette import stack_order
from sight.types import Warning, worst_first

#: Descriptions of flags.
FLAG_TEXTS = {
    "short": "less than half as long as the median recording",
    "little_wear": "worn less than half the time",
    "gaps": "more than 5 % missing",
    "saturated": "signal at the limit of the sensor's range",
    "low_confidence": "more than 30 % low confidence",
    "no_clock": "no time of day",
    "errors": "the numbers cannot be used, such as those of a wrong unit",
    "warnings": "warnings about the recording",
}
#: Sort orders of the list: data attribute of a line to its label.
ORDERS = {
    "name": "name",
    "recorded": "recorded time",
    "wear": "worn time",
    "valid": "valid days",
    "share": "share worn",
    "changed": "predictions changed",
    "uncertain": "low confidence",
    "flagged": "number of flags",
}
DAY_S = 24 * 60 * 60


class Scale(NamedTuple):
    """Time axis of all lanes: its length, and whether it begins at the midnight before a recording or at its start."""

    length_s: float
    from_midnight: bool

    def ticks(self, limit: int = 8) -> list[tuple[float, str]]:
        if self.from_midnight:
            count = round(self.length_s / DAY_S)
            return [(day / count, str(day + 1) if day else "day 1") for day in range(0, count, -(-count // 14))]
        coarsest = DAY_S * int(np.ceil(self.length_s / DAY_S / (limit - 1)))
        step = next((s for s in STEPS_S if self.length_s / s <= limit - 1), coarsest)
        moments = np.arange(0, self.length_s + 1e-6, step).tolist()
        return [(moment / self.length_s, _round_time(moment)) for moment in moments]


def common_scale(drawings: Sequence[Mapping[str, Any]]) -> Scale:
    """Return the axis of all drawings; one that is much longer than the others is cut, so that they stay readable."""
    spans = np.array([drawing["span_s"] for drawing in drawings])
    from_midnight = bool(np.median(spans) >= DAY_S) and all(d["offset_s"] is not None for d in drawings)
    ends = spans + [drawing["offset_s"] if from_midnight else 0.0 for drawing in drawings]
    longest, usual = float(ends.max()), float(np.quantile(ends, 0.9))
    length = max(longest if longest <= 1.5 * usual else 1.1 * usual, 1.0)
    return Scale(DAY_S * float(np.ceil(length / DAY_S)) if from_midnight else length, from_midnight)


def recordings_list(folder: ResultsFolder, rows: Sequence[Row], classes: Sequence[str], columns: Sequence[str]) -> Html:
    """Return the list with its filter, legend and axis; `columns` are those of the participants."""
    facts = {row["recording"]: json.loads(folder.facts(row["recording"]).read_text("utf-8")) for row in rows}
    scale = common_scale([each["thumbnail"] for each in facts.values()])
    of_all = _flags_of_all(rows)
    begin = "at midnight of its first day" if scale.from_midnight else "with its first window"
    linked = all(folder.page(row["recording"]).is_file() for row in rows)
    how = (
        "Names open the full reports; write them with ",
        # The script fills in the folder: the file itself must not depend on where it is.
        tag("code", "sight cohort page ", tag("span", "FOLDER", id="folder"), " --all"),
        ".",
    )
    entries = [(f"k{k}", classes[k]) for k in stack_order(classes)]
    entries += [("bed", "in bed"), ("off", "not worn"), ("hatch", "no data")]
    shared = "; ".join(FLAG_TEXTS[flag] for flag in of_all)
    note = f"Each line begins {begin}; all have the same time scale. A part has the colour of its most frequent class. "
    return tag(
        "section",
        tag("h2", "Recordings"),
        _tools(rows, of_all, columns),
        legend_list((kind, tag("span", name)) for kind, name in entries),
        tag("p", f"All recordings: {shared}.", class_="note", id="shared") if of_all else None,
        _head(scale),
        tag("ol", *(_line(folder, row, facts, scale, of_all, columns) for row in rows), id="list", class_="list"),
        tag("p", "No recording matches.", id="none", class_="note", hidden=True),
        tag("p", note, *(() if linked else how), class_="note"),
    )


def _flags_of_all(rows: Sequence[Row]) -> list[str]:
    """Return the flags that every recording has; a line does not repeat them."""
    shared = set.intersection(*(set(row["flags"].split()) for row in rows))
    return [flag for flag in FLAGS if flag in shared] if len(rows) > 2 else []


def _tools(rows: Sequence[Row], of_all: Sequence[str], columns: Sequence[str]) -> Html:
    used = {flag for row in rows for flag in row["flags"].split()} - set(of_all)
    flags = [tag("option", "all", value="")]
    flags += [
        tag("option", f"{flag.replace('_', ' ')}: {FLAG_TEXTS[flag]}", value=flag) for flag in FLAGS if flag in used
    ]
    known = [key for key in ORDERS if key != "valid" or rows[0].get("valid_days") is not None]
    orders = [tag("option", ORDERS[key], value=key) for key in known]
    orders += [tag("option", column, value=f"p{i}") for i, column in enumerate(columns)]
    return tag(
        "form",
        tag("label", "Search ", tag("input", type="search", id="name", autocomplete="off")),
        tag("label", "Flag ", tag("select", *flags, id="flag")),
        tag("label", "Sort by ", tag("select", *orders, id="order")),
        tag("output", f"{len(rows):,} shown", id="count"),
        class_="filter",
        role="search",
    )


def _head(scale: Scale) -> Html:
    buttons = [
        tag("button", text, type="button", data_order=key)
        for key, text in (("name", "Recording"), ("recorded", "Recorded"), ("share", "Worn"))
    ]
    ticks = [tag("span", text, style=f"left:{100 * share:.2f}%") for share, text in scale.ticks()]
    flags = tag("button", "Flags", type="button", data_order="flagged")
    return tag("div", *buttons, tag("div", *ticks, class_="scale", aria_hidden="true"), flags, class_="head")


def _line(
    folder: ResultsFolder,
    row: Row,
    facts: Mapping[str, Any],
    scale: Scale,
    of_all: Sequence[str],
    columns: Sequence[str],
) -> Html:
    name = row["recording"]
    share = row["wear_hours"] / row["recorded_hours"] if row["recorded_hours"] else 0.0
    own = [flag for flag in row["flags"].split() if flag not in of_all]
    flags = [tag("span", flag.replace("_", " "), class_="flag", title=FLAG_TEXTS[flag]) for flag in own]
    title = tag("a", name, href=f"pages/{quote(name)}.html") if folder.page(name).is_file() else name
    days = row.get("valid_days")
    about = [str(row["first_date"] or ""), "" if days is None else f"{days} valid day{'' if days == 1 else 's'}"]
    about += [f"{column} {row[column]}" for column in columns if row[column] is not None]
    warnings = [
        tag("span", tag("em", f"{each.severity}: ", class_=each.severity), str(each), class_="warning")
        for each in worst_first(Warning(**each) for each in facts[name]["warnings"])
    ]
    described = tag("b", title), tag("span", join(filter(None, about), " · "), class_="soft")
    return tag(
        "li",
        tag("div", *described, *warnings, class_="recording"),
        tag("span", duration_text(3600 * row["recorded_hours"]), class_="figure"),
        tag("span", percent(share), class_="figure"),
        _drawing(name, facts[name]["thumbnail"], scale),
        tag("div", *flags, class_="flags"),
        data_flags=" ".join(own),
        data_flagged=len(own),
        data_recorded=row["recorded_hours"],
        data_valid=days,
        data_wear=row["wear_hours"],
        data_share=f"{share:.4f}",
        data_changed=row["changed_share"],
        data_uncertain=row["low_confidence_share"],
        **{f"data_p{i}": "" if row[column] is None else row[column] for i, column in enumerate(columns)},
    )


def _drawing(name: str, drawing: Mapping[str, Any], scale: Scale) -> Html:
    offset_s = drawing["offset_s"] if scale.from_midnight else 0.0
    left, width = (100 * seconds / scale.length_s for seconds in (offset_s, drawing["span_s"]))
    paths = (tag("path", d=d, class_=kind) for kind, d in drawing["paths"].items())
    style = f"margin-left:{left:.3f}%;width:{width:.3f}%"
    drawn = svg(paths, COLUMNS, 1, f"Classes of {name} over time", style=style)
    grid = f"--day:{100 * DAY_S / scale.length_s:.4f}%" if scale.from_midnight else None
    cut = left + width > 100.1
    return tag("div", drawn, class_="field cut" if cut else "field", style=grid, title="continues" if cut else None)


def _round_time(seconds: float) -> str:
    for unit, name in ((DAY_S, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= unit:
            return f"{seconds / unit:g} {name}"
    return "0"
