"""HTML report of a run: a single file that needs no network and stays small for recordings of any length."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sight._util.atomic import write_atomic
from sight.results.report.document import render
from sight.results.summary import ResultSummary
from sight.types import Result


def write_report(path: str | Path, summary: ResultSummary, *, others: Sequence[Result] = ()) -> Path:
    """Write the predictions of a method on a stream as an HTML page and return its path.

    Parameters
    ----------
    path
        HTML file; its folder is created if needed.
    summary
        The result; if windows have labels, the page compares with them.
    others
        Predictions of other methods on the same stream, shown and scored beside it.
    """
    result = summary.result
    for other in others:
        if other.classes != result.classes or not np.array_equal(other.windows.time_s, result.windows.time_s):
            raise ValueError(
                f"Expected results of one stream and one set of classes, but {other.method} and {result.method} "
                f"differ; write a report for each stream."
            )
    return write_atomic(path, render(summary, [ResultSummary(other) for other in others]).encode())
