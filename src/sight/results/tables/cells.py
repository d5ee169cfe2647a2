"""Values of table cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any


def rounded(value: float, digits: int = 3) -> float:
    """Return a rounded number, never a negative zero."""
    return round(float(value), digits) + 0.0


def iso(moment: datetime | None) -> str:
    """Return a moment as ISO text with milliseconds, empty if it is unknown."""
    return "" if moment is None else moment.isoformat(timespec="milliseconds")


def mean(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return the mean of a column over rows, None if it has no value."""
    values = [row[name] for row in rows if row[name] is not None]
    return rounded(sum(values) / len(values), 4) if values else None
