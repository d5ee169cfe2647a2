"""HTML report of a run: a single file that needs no network and stays small for recordings of any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sight._util.atomic import write_atomic
from sight.results.report.document import render
from sight.results.tables import LOW_CONFIDENCE, ResultSummary, TableRules
from sight.types import Result

__all__ = ["LOW_CONFIDENCE", "ResultSummary", "write_report"]


def write_report(
    path: str | Path,
    result: Result,
    *,
    others: Sequence[Result] = (),
    title: str = "Activities of one wearer",
    facts: Mapping[str, Any] | None = None,
    low_confidence: float = LOW_CONFIDENCE,
    rules: TableRules | None = None,
) -> Path:
    """Write the predictions of a method on a stream as an HTML page and return its path.

    Parameters
    ----------
    path
        HTML file; its folder is created if needed.
    result
        The stream and its predictions; if windows have labels, the page compares with them.
    others
        Predictions of other methods on the same stream, shown and scored beside it.
    title
        Heading of the page.
    facts
        Further information: "subject" is shown below the heading, mappings such as "input" or "model" become groups
        of the table of facts.
    low_confidence
        Windows are marked if the probability of their class is below this value.
    rules
        Which days are valid and how long bouts last at least.

    Examples
    --------
    >>> import tempfile
    >>> from sight.results.prediction_loop import run
    >>> from sight.registry import method
    >>> from sight.testing import ToySource, toy_stream
    >>> result = run(method("sight").bind(ToySource()), toy_stream(n=300))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(Path(folder) / "report.html", result, facts={"subject": "S01"})
    ...     path.read_text("utf-8").startswith("<!doctype html>")
    True
    """
    for other in others:
        if other.classes != result.classes or not np.array_equal(other.windows.time_s, result.windows.time_s):
            raise ValueError(
                f"Expected results of one stream and one set of classes, but {other.method} and {result.method} "
                f"differ; write a report for each stream."
            )
    summary, *summaries = (ResultSummary(each, low_confidence, rules) for each in (result, *others))
    return write_atomic(path, render(summary, summaries, title, facts or {}).encode())
