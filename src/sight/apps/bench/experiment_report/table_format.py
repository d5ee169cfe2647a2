"""Tables as Markdown, LaTeX and HTML, and the format of their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sight.results.report.html import Html, join, scrolling, tag
from sight.results.score_statistics import Difference

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


class Cell(NamedTuple):
    """A cell: the best of its column is bold; `highlighted` in the first cell sets its row apart in HTML."""

    text: str
    best: bool = False
    below: str = ""  # in small print
    highlighted: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; the first column names the row."""

    name: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    @classmethod
    def of_columns(cls, name: str, title: str, columns: Mapping[str, Sequence[Cell]], note: str = "") -> Table:
        rows = list(zip(*columns.values(), strict=True))
        return cls(name=name, title=title, heads=list(columns), rows=rows, note=note)

    def markdown(self) -> str:
        return "\n".join([f"**{self.title}.**", "", self.markdown_body(), "", self.note, ""])

    def markdown_body(self) -> str:
        lines = [
            "| " + " | ".join(self.heads) + " |",
            "|" + "|".join([" --- "] + [" ---: "] * (len(self.heads) - 1)) + "|",
        ]
        for row in self.rows:
            cells = (_bold(cell, "**{}**") + (f" {cell.below}" if cell.below else "") for cell in row)
            lines.append("| " + " | ".join(text.replace("|", r"\|") for text in cells) + " |")
        return "\n".join(lines)

    def latex(self) -> str:
        """Return the table as LaTeX; requires the package booktabs."""
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
        head = [tag("th", text, scope="col", class_="number" if at else None) for at, text in enumerate(self.heads)]
        body = [
            tag(
                "tr",
                *(_html_cell(cell, first=at == 0) for at, cell in enumerate(row)),
                class_="ours" if row[0].highlighted else None,
            )
            for row in self.rows
        ]
        table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), class_="plain bench")
        note = tag("p", self.note, class_="note") if self.note else None
        return tag("div", join([scrolling(table, self.title), note]), class_="block")


def _html_cell(cell: Cell, *, first: bool) -> Html:
    text = tag("strong", cell.text) if cell.best else cell.text
    below = tag("small", cell.below) if cell.below else None
    return tag("th", text, below, scope="row") if first else tag("td", text, below, class_="number")


def _bold(cell: Cell, template: str) -> str:
    return template.format(cell.text) if cell.best else cell.text


def _escaped(text: str) -> str:
    for sign, latex in (("\\", r"\textbackslash{}"), ("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("#", r"\#")):
        text = text.replace(sign, latex)
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
    for sign, latex in signs.items():
        text = text.replace(sign, latex)
    return text


def number(value: float, digits: int = 1, *, sign: bool = False) -> str:
    """Format a number with a true minus sign; a dash if it is not finite."""
    if value is None or not np.isfinite(value):
        return DASH
    rounded = round(float(value), digits) + 0.0
    return f"{rounded:{'+' if sign and rounded else ''}.{digits}f}".replace("-", MINUS)


def spread(mean: float, sd: float) -> str:
    """Format a mean and its standard deviation over seeds; without the deviation if it is not finite."""
    return number(mean) if not np.isfinite(sd) else f"{number(mean)}\xa0±\xa0{number(sd)}"


def interval(low: float, high: float) -> str:
    """Format an interval in brackets; an empty text if there is none."""
    return f"[{number(low, sign=True)}, {number(high, sign=True)}]" if np.isfinite(low) else ""


def points(difference: Difference) -> str:
    return f"{number(difference.mean, sign=True)} {interval(*difference[1:])}".strip()


def probability(p: float) -> str:
    return DASH if not np.isfinite(p) else "<\xa00.001" if p < 0.001 else f"{p:.3f}"


def delta_cells(table: Any) -> list[Cell]:
    """Return the difference to source-only of each row of a summary table, its interval below."""
    rows = table[["delta", "low", "high"]].itertuples(index=False)
    return [Cell(number(delta, sign=True), below=interval(low, high)) for delta, low, high in rows]


def mark_best(texts: Sequence[str], values: Iterable[float]) -> list[Cell]:
    """Return cells with the best values, as printed, marked; none in columns of one or two rows or of equal values."""
    numbers = np.asarray(list(values), dtype=float)
    if len(numbers) < 3 or np.isnan(numbers).all():
        return [Cell(text) for text in texts]
    top = texts[int(np.nanargmax(numbers))].partition("\xa0")[0]
    finite = np.isfinite(numbers).tolist()
    best = [own and text.partition("\xa0")[0] == top for text, own in zip(texts, finite, strict=True)]
    return [Cell(text, is_best and not all(best)) for text, is_best in zip(texts, best, strict=True)]
