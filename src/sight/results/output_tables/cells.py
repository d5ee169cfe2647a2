"""Values of table cells."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sight.results.summary import ResultSummary


def rounded(value: float, digits: int = 3) -> float:
    """Return a rounded number, never a negative zero."""
    return round(float(value), digits) + 0.0


def iso(moment: datetime | None) -> str:
    """Return a moment as ISO text with milliseconds, empty if it is unknown."""
    return "" if moment is None else moment.isoformat(timespec="milliseconds")


def span(summary: ResultSummary, start_s: float, end_s: float) -> dict[str, Any]:
    """Return the columns for the begin and the end of a row, in seconds of the stream and on the wearer's clock."""
    times = {"start_s": rounded(start_s), "end_s": rounded(end_s)}
    return times | {"start": iso(summary.clock(start_s)), "end": iso(summary.clock(end_s))}


def mean(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return the mean of a column over rows, None if it has no value."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return rounded(sum(values) / len(values), 4) if values else None
