"""Values of table cells."""

from __future__ import annotations

from datetime import datetime


def rounded(value: float, digits: int = 3) -> float:
    """Return a rounded number, never a negative zero."""
    return round(float(value), digits) + 0.0


def iso(moment: datetime | None) -> str:
    """Return a moment as ISO text with milliseconds, empty if it is unknown."""
    return "" if moment is None else moment.isoformat(timespec="milliseconds")
