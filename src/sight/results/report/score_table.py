"""Table of methods with their scores, and the notes below it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sight.results.method_name import method_label
from sight.results.metrics import score_predictions
from sight.results.output_tables import Row
from sight.results.report.glossary import term
from sight.results.report.html import Html, figure, header, table, tag
from sight.results.summary import ResultSummary


class Column(NamedTuple):
    """Format of a score: heading, digits, and whether higher is better."""

    heading: str
    digits: int
    higher_is_better: bool


COLUMNS = {
    "macro_f1_union": Column("Macro-F1", 3, True),
    "accuracy": Column("Accuracy", 3, True),
    "balanced_accuracy": Column("Balanced accuracy", 3, True),
    "ece": Column("Calibration error", 3, False),
    "nll": Column("Log loss", 3, False),
    "delay_median_s": Column("Delay (s)", 1, False),
    "changes_missed": Column("Changes missed", 0, False),
}

MACRO_F1_NOTE = (
    " is the mean over the classes that occur in labels or predictions, as in scores.csv (macro_f1_union): a single "
    "prediction of an absent class adds a zero."
)
RAW_NOTE = " Raw: predictions of the model alone, without adaptation."
STAR_NOTE = " * Completed by the sight developers; the authors' code is not public."
#: Note on predictions that use windows after their own.
LAG_NOTE = (
    "Predictions with a lag use later windows: each waits for that number of windows, and its delay includes the wait. "
    "Predictions from the whole recording are made at its end and have no delay."
)


def score_rows(summary: ResultSummary, others: Sequence[ResultSummary]) -> list[Row]:
    """Score the model alone, the other methods and, last, the method of the report."""
    rows: list[Row] = [{"method": "raw"} | score_predictions(summary.result, summary.result.p)]
    for result in (s.result for s in (*others, summary)):
        rows.append({"method": method_label(result)} | score_predictions(result, result.q, result.lag))
    return rows


def methods_table(rows: Sequence[Row]) -> Html:
    heads = [header("Method"), *(header(column.heading, number=True) for column in COLUMNS.values())]
    best = {key: _best([row[key] for row in rows], column.higher_is_better) for key, column in COLUMNS.items()}
    body = []
    for i, row in enumerate(rows):
        cells = [tag("th", row["method"], scope="row")]
        for key, column in COLUMNS.items():
            text = figure(row[key], column.digits)
            cells.append(tag("td", tag("strong", text) if i in best[key] else text, class_="number"))
        body.append(tag("tr", *cells))
    return table(heads, body, label="Comparison of methods", class_="plain methods")


def notes(rows: Sequence[Row], *, lag: bool) -> Html:
    """Explain the columns of the table of methods; `lag` adds the note on predictions with a lag."""
    star = STAR_NOTE if any(row["method"].endswith("*") for row in rows) else ""
    text = MACRO_F1_NOTE + RAW_NOTE + star + f" {LAG_NOTE}" * lag
    return tag("p", term("macro-F1", "Macro-F1"), text, class_="note")


def _best(values: Sequence[float], higher_is_better: bool) -> set[int]:
    numbers = {i: round(value, 9) for i, value in enumerate(values) if np.isfinite(value)}
    if len(numbers) < 2:
        return set()
    target = (max if higher_is_better else min)(numbers.values())
    return {i for i, number in numbers.items() if number == target}
