"""The report that people open after a run: one HTML file, complete in itself, small at any length."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sight.report.document import page
from sight.report.result_summary import LOW_CONFIDENCE, ResultSummary, same_stream
from sight.types import Result

__all__ = ["LOW_CONFIDENCE", "ResultSummary", "write_report"]


def write_report(
    path: str | Path,
    result: Result,
    *,
    others: Sequence[Result] = (),
    rows: Sequence[Mapping[str, Any]] | None = None,
    title: str = "Activities of one wearer",
    facts: Mapping[str, Any] | None = None,
    low_confidence: float = LOW_CONFIDENCE,
) -> Path:
    """Write what a method answered on a stream as a page that needs neither network nor server.

    Parameters
    ----------
    path
        The HTML file; its folder is made if need be.
    result
        The stream and the answers; where windows carry labels, the page compares with them.
    others
        Other methods' answers on the same stream, drawn and scored beside it.
    rows
        Rows for the table of methods, each with "method" and figures under the names of `sight.metrics.score`;
        None scores the source alone, `others` and `result` where there are labels.
    title
        Heading of the page.
    facts
        What else to tell: "subject" goes into the heading, mappings such as "input" or "model" become groups of
        the facts.
    low_confidence
        Below this probability of the answered class a window is marked as unsure.

    Examples
    --------
    >>> from sight.evaluate import run
    >>> from sight.registry import method
    >>> from sight.testing import ToySource, toy_stream
    >>> answers = run(method("sight").bind(ToySource()), toy_stream(n=300))
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> written = write_report(Path(folder.name) / "report.html", answers, facts={"subject": "S01"})
    >>> written.read_text("utf-8").startswith("<!doctype html>")
    True
    >>> folder.cleanup()
    """
    same_stream(result, others)
    text = page(
        ResultSummary(result, low_confidence),
        others=[ResultSummary(other, low_confidence) for other in others],
        rows=rows,
        title=title,
        facts=facts or {},
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, "utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path
