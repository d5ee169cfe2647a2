"""Tables with drawings and their texts: time use, hours a day, changes between classes, confusion matrices."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from sight._util.confusion import confusion
from sight._util.durations import hours_text
from sight.results.method_name import method_name
from sight.results.output_tables import Row
from sight.results.report.day_grid import DayGrid
from sight.results.report.glossary import term
from sight.results.report.html import Html, header, percent, table, tag
from sight.results.summary import ResultSummary
from sight.types import Array

#: Time use is in hours from this many worn minutes on, else in minutes, so that short activities are not 0.0.
HOURS_FROM_MIN = 8 * 60
#: With more ticks than this on the axis of hours a day, narrow screens show every other one.
MOST_NARROW = 4
#: Two matrices with more classes than this are placed below each other.
MAX_SIDE_BY_SIDE = 9


def time_use(summary: ResultSummary) -> Html:
    labels = {"truth": summary.truth, "raw": summary.raw, "refined": summary.refined}
    minutes = {name: summary.minutes(array, summary.awake) for name, array in labels.items() if array is not None}
    longest = max(float(np.max(list(minutes.values()))), 1e-9)
    in_all = float(summary.seconds[summary.awake].sum()) / 60
    unit, scale = ("h", 60) if in_all >= HOURS_FROM_MIN else ("min", 1)
    values = {name: array / scale for name, array in minutes.items()}
    heads = [header("Class")]
    for name in values:
        key = tag("i", class_=f"bar key {name}")
        heads.append(tag("th", key, term(name, f"{name.capitalize()} ({unit})"), scope="col", class_="number"))
    difference = values["refined"] - values["raw"]
    rows = []
    for k, name in enumerate(summary.classes):
        bars = [
            tag("i", class_=f"bar {which} k{k}", style=f"width:{100 * own[k] * scale / longest:.2f}%")
            for which, own in values.items()
        ]
        cells = [tag("th", tag("span", name), tag("div", *bars, class_="bars", aria_hidden="true"), scope="row")]
        cells += [tag("td", f"{own[k]:,.1f}", class_="number") for own in values.values()]
        rows.append(tag("tr", *cells, tag("td", _signed(float(difference[k])), class_="number soft")))
    totals = [tag("td", f"{own.sum():,.1f}", class_="number") for own in values.values()]
    foot = tag("tr", tag("th", "All", scope="row"), *totals, tag("td", ""))
    return table([*heads, header("Change", number=True)], rows, foot=foot, label="Time use", class_="timeuse")


def _signed(value: float) -> str:
    return "0.0" if abs(value) < 0.05 else f"{value:+,.1f}".replace("-", "\N{MINUS SIGN}")


def time_use_note(summary: ResultSummary) -> Iterator[object]:
    where = "Worn time out of bed" if summary.in_bed.any() else "Worn time"
    yield f"{where} only; each window counts for the time until the next one."
    if summary.in_bed.any():
        hours = float(summary.seconds[summary.worn & summary.in_bed].sum()) / 3600
        yield f" In bed: {hours_text(hours)}."
    if summary.truth is not None:
        missing = float((summary.truth < 0)[summary.awake].mean()) if summary.awake.any() else 0.0
        if missing:
            yield f" {percent(missing)} of the worn windows have no label, so the truth adds up to less."


def hours_a_day(summary: ResultSummary, grid: DayGrid) -> Html:
    """Return the hours a day of each class: a bar for the mean of valid days, a dot for each day with data."""
    hours, names = grid.seconds[:, :-1].sum(axis=2) / 3600, [*summary.classes, "in bed"]
    valid = grid.valid
    mean = hours[valid].mean(axis=0)
    longest = float(hours.max())
    top = next((top for top in (0.25, 0.5, 1, 2, 4, 6, 8, 12, 16, 20, 24) if longest <= top), 26)
    rows = []
    for k in sorted(range(len(names)), key=lambda k: -mean[k]):
        if not hours[:, k].any():
            continue
        kind = f"k{k}" if k < len(summary.classes) else "bed"
        dots = []
        for d in np.flatnonzero(grid.seconds.any(axis=(1, 2))).tolist():
            place = f"left:{100 * hours[d, k] / top:.2f}%"
            title = f"{summary.days[d].name}: {hours_text(hours[d, k])}"
            dots.append(tag("i", class_="dot" if valid[d] else "dot open", style=place, title=title))
        bar = tag("i", class_=f"bar {kind}", style=f"width:{100 * mean[k] / top:.2f}%")
        low, high = (hours_text(f(hours[valid, k])) for f in (np.min, np.max))
        cells = [tag("th", tag("i", class_=f"swatch {kind}"), tag("span", names[k]), scope="row")]
        cells.append(tag("td", tag("div", bar, *dots, class_="strip", aria_hidden="true"), class_="plotted"))
        cells.append(tag("td", hours_text(mean[k]), class_="number"))
        cells.append(tag("td", f"{low} \N{EN DASH} {high}", class_="number soft range"))
        rows.append(tag("tr", *cells))
    step = next(step for step in (0.25, 0.5, 1, 2, 4, 6) if top / step <= 5)
    values = np.arange(0, top + 1e-9, step).tolist()
    ticks = [
        tag("span", f"{value:g} h", class_="minor" if tight else None, style=f"left:{100 * value / top:.2f}%")
        for value, tight in zip(values, itertools.cycle((False, len(values) > MOST_NARROW)), strict=False)
    ]
    heads = [
        header("Class"),
        tag("th", tag("div", *ticks, class_="strip scale"), scope="col", aria_label="Hours a day"),
        header("Mean", number=True),
        tag("th", "Range", scope="col", class_="number range"),
    ]
    return table(heads, rows, label="Hours a day", class_="perday")


def changes_text(summary: ResultSummary, scores: Sequence[Row]) -> Iterator[object]:
    yield f"Adaptation ({method_name(summary.result)}) changed the "
    yield term("raw")
    of_worn, worn = int(summary.changed[summary.worn].sum()), int(summary.worn.sum())
    yield f" class of {percent(of_worn / max(worn, 1))} of the worn windows ({of_worn:,} of {worn:,})."
    if not scores or summary.truth is None:
        return
    before, after = scores[0]["macro_f1_union"], scores[-1]["macro_f1_union"]
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


def changes(summary: ResultSummary) -> Html | None:
    """Return a matrix and a list of the changes from raw to refined class; None if no worn window changed."""
    counts = confusion(summary.raw[summary.worn], summary.refined[summary.worn], len(summary.classes))
    np.fill_diagonal(counts, 0)
    if not counts.any():
        return None
    cells = [[f"{n:,}" if n else "" for n in row] for row in counts.tolist()]
    label = "Windows that changed, rows raw class, columns refined class"
    grid = _matrix(cells, counts / counts.max(), summary.classes, label=label, rows="raw", columns="refined")
    return _pair(summary.classes, grid, _most_frequent(counts, summary.classes))


def _most_frequent(counts: Array, classes: Sequence[str], limit: int = 6) -> Html:
    order = [cell for cell in np.argsort(-counts, axis=None, kind="stable")[:limit].tolist() if counts.flat[cell]]
    rows = []
    for raw, refined in (divmod(cell, len(counts)) for cell in order):
        names = [
            tag("i", class_=f"swatch k{raw}"),
            tag("span", classes[raw]),
            tag("b", "→", aria_label="to"),
            tag("i", class_=f"swatch k{refined}"),
            tag("span", classes[refined]),
        ]
        count = tag("td", f"{counts[raw, refined]:,}", class_="number")
        share = tag("td", percent(counts[raw, refined] / counts.sum()), class_="number soft")
        rows.append(tag("tr", tag("td", tag("span", *names, class_="entry")), count, share))
    heads = [header("From → to"), header("Windows", number=True), header("Share", number=True)]
    return table(heads, rows, label="Most frequent changes", class_="plain")


def confusions(summary: ResultSummary, truth: Array) -> Html:
    """Return the confusion matrices of raw and refined predictions, in percent of each true class."""
    sides = []
    for name, predicted in (("raw", summary.raw), ("refined", summary.refined)):
        counts = confusion(truth, predicted, len(summary.classes))
        share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        cells = [[f"{100 * s:.0f}" if s >= 0.005 else "<1" if s else "" for s in row] for row in share.tolist()]
        label = f"Confusion matrix of {name} predictions, rows truth, columns predictions, percent of each row"
        grid = _matrix(cells, share, summary.classes, label=label, rows="truth", columns=name, mark_diagonal=True)
        sides.append(tag("div", tag("h3", term(name, name.capitalize())), grid))
    return _pair(summary.classes, *sides)


def _pair(classes: Sequence[str], *sides: Html) -> Html:
    return tag("div", *sides, class_="pair" if len(classes) <= MAX_SIDE_BY_SIDE else "pair wide")


def _matrix(
    texts: Sequence[Sequence[str]],
    heat: Array,
    classes: Sequence[str],
    *,
    label: str,
    rows: str,
    columns: str,
    mark_diagonal: bool = False,
) -> Html:
    """Return a heat map as a table; columns are numbered like the rows, so that it stays narrow."""
    heads = [tag("th", tag("span", f"{rows} ↓  {columns} →"), class_="corner", scope="col")]
    for k, name in enumerate(classes):
        heads.append(tag("th", tag("i", class_=f"swatch k{k}"), k + 1, scope="col", title=name, aria_label=name))
    body = []
    for i, name in enumerate(classes):
        entry = (tag("i", class_=f"swatch k{i}"), tag("em", i + 1), tag("span", name, title=name))
        cells = [
            _cell(text, float(heat[i, j]), f"{name} → {classes[j]}", marked=mark_diagonal and i == j)
            for j, text in enumerate(texts[i])
        ]
        body.append(tag("tr", tag("th", tag("span", *entry, class_="entry"), scope="row"), *cells))
    return table(heads, body, label=label, class_="matrix")


def _cell(text: str, heat: float, meaning: str, *, marked: bool) -> Html:
    kinds = [kind for kind, holds in (("hot", heat > 0.68), ("same", marked)) if holds]
    style, title = (f"--v:{heat:.3f}", f"{meaning}: {text}") if text else (None, None)
    return tag("td", text, class_=" ".join(kinds) or None, style=style, title=title)
