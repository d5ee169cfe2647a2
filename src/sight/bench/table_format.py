"""The form of a table, and how it is written: Markdown, LaTeX, HTML, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sight.bench.stats import Apart
from sight.report.html import Html, join, scrolling, tag

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


class Cell(NamedTuple):
    """Text of a table; the best of its column is set in bold, and what stands below it is said softly."""

    text: str
    best: bool = False
    below: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as a person reads it; the first column names the row."""

    name: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    heading: str = ""  # over the table on the page, where the section has the title already
    folded: bool = False  # on the page, until it is opened

    def markdown(self) -> str:
        """Write as Markdown."""
        lines = [
            "| " + " | ".join(self.heads) + " |",
            "|" + "|".join([" --- "] + [" ---: "] * (len(self.heads) - 1)) + "|",
        ]
        for row in self.rows:
            cells = (_bold(cell, "**{}**") + (f" {cell.below}" if cell.below else "") for cell in row)
            lines.append("| " + " | ".join(text.replace("|", r"\|") for text in cells) + " |")
        return "\n".join([f"**{self.title}.**", "", *lines, "", self.note, ""])

    def latex(self) -> str:
        """Write as LaTeX; needs the package booktabs."""
        lines = [r"\begin{table}[t]\small", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(self.heads) - 1)}}}"]
        lines += [r"\toprule", " & ".join(map(_escaped, self.heads)) + r" \\", r"\midrule"]
        for row in self.rows:
            cells = [
                _bold(cell._replace(text=_escaped(cell.text)), r"\textbf{{{}}}")
                + (rf" {{\scriptsize {_escaped(cell.below)}}}" if cell.below else "")
                for cell in row
            ]
            lines.append(" & ".join(cells) + r" \\")
        caption = _escaped(f"{self.title}. {self.note}".strip())
        lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", rf"\label{{tab:{self.name}}}"]
        return "\n".join([*lines, r"\end{table}", ""])

    def html(self) -> Html:
        """Write as HTML, to scroll by itself where it is wide."""
        head = [tag("th", text, scope="col", class_="number" if at else None) for at, text in enumerate(self.heads)]
        body = [
            tag(
                "tr",
                *(_cell(cell, first=at == 0) for at, cell in enumerate(row)),
                class_="ours" if _ours(row) else None,
            )
            for row in self.rows
        ]
        table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), class_="plain bench")
        note = tag("p", self.note, class_="note") if self.note else None
        whole, heading = join([scrolling(table, self.title), note]), self.heading or self.title
        if self.folded:
            return tag("details", tag("summary", heading), tag("div", whole, class_="block"))
        return tag("div", tag("h3", heading) if self.heading else None, whole, class_="block")


def _ours(row: Sequence[Cell]) -> bool:
    return row[0].text.split(",")[0].rstrip("*") == "SIGHT"


def _cell(cell: Cell, *, first: bool) -> Html:
    text = tag("strong", cell.text) if cell.best else cell.text
    below = tag("small", cell.below) if cell.below else None
    return tag("th", text, below, scope="row") if first else tag("td", text, below, class_="number")


def _bold(cell: Cell, form: str) -> str:
    return form.format(cell.text) if cell.best else cell.text


def _escaped(text: str) -> str:
    for sign, written in (("\\", r"\textbackslash{}"), ("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("#", r"\#")):
        text = text.replace(sign, written)
    signs = {
        "±": r"$\pm$",
        MINUS: "$-$",
        "→": r"$\to$",
        "Δ": r"$\Delta$",
        DASH: "--",
        "<": "$<$",
        "\xa0": "~",
        "≥": r"$\ge$",
    }
    for sign, written in signs.items():
        text = text.replace(sign, written)
    return text


# --- numbers as people read them -----------------------------------------------------------------------------------


def number(value: float, digits: int = 1, *, sign: bool = False) -> str:
    """Write a number, a dash for none, a true minus for less than zero.

    Examples
    --------
    >>> number(1.234), number(-0.5, sign=True), number(float("nan")), number(-0.01)
    ('1.2', '−0.5', '–', '0.0')
    """
    if value is None or not np.isfinite(value):
        return DASH
    rounded = round(float(value), digits) + 0.0
    return f"{rounded:{'+' if sign and rounded else ''}.{digits}f}".replace("-", MINUS)


def spread(mean: float, sd: float) -> str:
    """Write a mean and its standard deviation over seeds, if there were several."""
    return number(mean) if not np.isfinite(sd) else f"{number(mean)}\xa0±\xa0{number(sd)}"


def interval(low: float, high: float) -> str:
    """Write an interval in brackets; nothing where there is none."""
    return f"[{number(low, sign=True)}, {number(high, sign=True)}]" if np.isfinite(low) else ""


def points(apart: Apart, unit: str = "") -> str:
    """Write a difference with its interval.

    Examples
    --------
    >>> points(Apart(1.25, 0.5, 2.0)), points(Apart(-3.0, float("nan"), float("nan")), "points")
    ('+1.2 [+0.5, +2.0]', '−3.0 points')
    """
    return " ".join(part for part in (number(apart.mean, sign=True), unit, interval(apart.low, apart.high)) if part)


def several(count: int, what: str) -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> several(1, "setting"), several(1200, "seed")
    ('1 setting', '1,200 seeds')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def probability(p: float) -> str:
    """Write a p-value."""
    return DASH if not np.isfinite(p) else "<\xa00.001" if p < 0.001 else f"{p:.3f}"


def marked(texts: Sequence[str], values: Iterable[float]) -> list[Cell]:
    """Mark the best as it is printed; with one or two rows, or all alike, nothing is best."""
    numbers = np.asarray(list(values), dtype=float)
    if len(numbers) < 3 or np.isnan(numbers).all():
        return [Cell(text) for text in texts]
    top = texts[int(np.nanargmax(numbers))].partition("\xa0")[0]
    known = np.isfinite(numbers).tolist()
    best = [own and text.partition("\xa0")[0] == top for text, own in zip(texts, known, strict=True)]
    return [Cell(text, is_best and not all(best)) for text, is_best in zip(texts, best, strict=True)]
