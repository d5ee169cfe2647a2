"""Raw against refined: time use, what changed into what, and confusion with the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sight.metrics import confusion
from sight.report.glossary import term
from sight.report.html import Html, percent, tag
from sight.report.result_summary import ResultSummary
from sight.types import Array

#: Matrices of more classes than this take the whole width.
SIDE_BY_SIDE = 9


def time_use(summary: ResultSummary) -> Html:
    """Show worn minutes of each class as bars and numbers: truth where known, raw, refined."""
    answers = {"truth": summary.truth, "raw": summary.raw, "refined": summary.refined}
    minutes = {name: summary.minutes(a, summary.worn) for name, a in answers.items() if a is not None}
    longest = max(float(np.max(list(minutes.values()))), 1e-9)
    heads = [
        tag(
            "th",
            tag("i", class_=f"bar key {name}"),
            term(name, f"{name.capitalize()} (min)"),
            scope="col",
            class_="number",
        )
        for name in minutes
    ]
    difference = minutes["refined"] - minutes["raw"]
    rows = []
    for k, name in enumerate(summary.classes):
        bars = [
            tag("i", class_=f"bar {which} k{k}", style=f"width:{100 * values[k] / longest:.2f}%")
            for which, values in minutes.items()
        ]
        bar_cell = tag("th", tag("span", name), tag("div", *bars, class_="bars", aria_hidden="true"), scope="row")
        cells = [tag("td", f"{values[k]:,.1f}", class_="number") for values in minutes.values()]
        rows.append(
            tag(
                "tr",
                bar_cell,
                *cells,
                tag("td", f"{difference[k]:+,.1f}".replace("-", "\N{MINUS SIGN}"), class_="number soft"),
            )
        )
    head = tag("tr", tag("th", "Class", scope="col"), *heads, tag("th", "Change", scope="col", class_="number"))
    total = [tag("td", f"{values.sum():,.1f}", class_="number") for values in minutes.values()]
    foot = tag("tr", tag("th", "All", scope="row"), *total, tag("td", ""))
    return scrolling(
        tag("table", tag("thead", head), tag("tbody", *rows), tag("tfoot", foot), class_="timeuse"), "Time use"
    )


def flow(summary: ResultSummary) -> Html:
    """Show the windows that changed, from raw class to refined class."""
    table = confusion(summary.raw, summary.refined, len(summary.classes))
    np.fill_diagonal(table, 0)
    top = max(int(table.max()), 1)
    shown = [[f"{n:,}" if n else "" for n in row] for row in table.tolist()]
    label = "Windows that changed, rows raw class, columns refined class"
    return matrix(shown, table / top, summary.classes, label=label, rows="raw", columns="refined")


def corrections(summary: ResultSummary, most: int = 6) -> Html | None:
    """List the most frequent changes; None where nothing changed."""
    table = confusion(summary.raw, summary.refined, len(summary.classes))
    np.fill_diagonal(table, 0)
    total = int(table.sum())
    if not total:
        return None
    order = [cell for cell in np.argsort(-table, axis=None, kind="stable")[:most].tolist() if table.flat[cell]]
    items = []
    for raw, refined in (divmod(cell, len(table)) for cell in order):
        names = [
            tag("i", class_=f"swatch k{raw}"),
            tag("span", summary.classes[raw]),
            tag("b", "→", aria_label="to"),
            tag("i", class_=f"swatch k{refined}"),
            tag("span", summary.classes[refined]),
        ]
        share = tag("td", percent(table[raw, refined] / total), class_="number soft")
        count = tag("td", f"{table[raw, refined]:,}", class_="number")
        items.append(tag("tr", tag("td", tag("span", *names, class_="entry")), count, share))
    heads = tag(
        "tr",
        tag("th", "From → to", scope="col"),
        tag("th", "Windows", scope="col", class_="number"),
        tag("th", "Share", scope="col", class_="number"),
    )
    return scrolling(
        tag("table", tag("thead", heads), tag("tbody", *items), class_="plain"), "The most frequent changes"
    )


def confusions(summary: ResultSummary, truth: Array) -> Html:
    """Show raw and refined answers against the truth, in percent of each true class."""
    sides = []
    for name, answers in (("raw", summary.raw), ("refined", summary.refined)):
        table = confusion(truth, answers, len(summary.classes))
        share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
        shown = [
            [_rounded(s) if n else "" for s, n in zip(s_row, n_row, strict=True)]
            for s_row, n_row in zip(share.tolist(), table.tolist(), strict=True)
        ]
        label = f"Confusion of {name} answers, rows truth, columns answers, percent of each row"
        body = matrix(shown, share, summary.classes, label=label, rows="truth", columns=name, diagonal=True)
        sides.append(tag("div", tag("h3", term(name, name.capitalize())), body))
    return pair(summary.classes, *sides)


def pair(classes: Sequence[str], *sides: Html) -> Html:
    """Put two pieces beside each other, or below each other where matrices of so many classes are wide."""
    return tag("div", *sides, class_="pair" if len(classes) <= SIDE_BY_SIDE else "pair wide")


def _rounded(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.005 else "<1"


def matrix(
    shown: Sequence[Sequence[str]],
    heat: Array,
    classes: Sequence[str],
    *,
    label: str,
    rows: str,
    columns: str,
    diagonal: bool = False,
) -> Html:
    """Write a heat table; columns carry the numbers of the rows, so that it stays narrow."""
    corner = tag("th", tag("span", f"{rows} ↓  {columns} →"), class_="corner", scope="col")
    heads = [
        tag("th", tag("i", class_=f"swatch k{k}"), k + 1, scope="col", title=name, aria_label=name)
        for k, name in enumerate(classes)
    ]
    body = []
    for i, name in enumerate(classes):
        title = tag(
            "span", tag("i", class_=f"swatch k{i}"), tag("em", i + 1), tag("span", name, title=name), class_="entry"
        )
        cells = [
            _cell(text, float(heat[i, j]), f"{name} → {classes[j]}", same=diagonal and i == j)
            for j, text in enumerate(shown[i])
        ]
        body.append(tag("tr", tag("th", title, scope="row"), *cells))
    return scrolling(tag("table", tag("thead", tag("tr", corner, *heads)), tag("tbody", *body), class_="matrix"), label)


def _cell(text: str, heat: float, meaning: str, *, same: bool) -> Html:
    kinds = [kind for kind, holds in (("hot", heat > 0.68), ("same", same)) if holds]
    style, title = (f"--v:{heat:.3f}", f"{meaning}: {text}") if text else (None, None)
    return tag("td", text, class_=" ".join(kinds) or None, style=style, title=title)


def scrolling(table: Html, label: str) -> Html:
    """Let a wide table scroll by itself, also from the keyboard, so that the page never does."""
    return tag("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)
