"""Durations as text: one grammar to read them, one form to print them."""

import re
from typing import Any

#: Seconds of each unit.
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def parse_seconds(text: Any, usual: str = "s") -> float:
    """Return the seconds of a duration such as "16h", "30min" or "90d"; a number that is not text is seconds.

    Text without a unit raises ValueError, which proposes the `usual` unit.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*(s|min|h|d|)", str(text).strip())
    if match is None:
        raise ValueError(f"Expected a duration such as 60s, 30min, 16h or 90d, got {str(text)!r}.")
    if isinstance(text, str) and not match[2]:
        raise ValueError(f"Expected a duration with a unit (s, min, h or d), got {text!r}; write {match[1]}{usual}.")
    return float(match[1]) * UNITS.get(match[2], 1)


def duration_text(seconds: float) -> str:
    """Return a length of time with its two largest units, such as "5 min 05 s", "2 h 05 min" or "8 d 2 h"."""
    if seconds < 59.5:
        return f"{seconds:.3g} s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h" if days < 100 else f"{days:,} d"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {whole_seconds:02d} s"


def hours_text(hours: float) -> str:
    """Return hours such as 9.17 as hours and minutes ("9 h 10 min"), minutes ("52 min") or seconds ("36 s")."""
    if hours < 1 / 60:
        return f"{round(3600 * hours)} s"
    whole, minutes = divmod(round(60 * hours), 60)
    return f"{whole} h {minutes:02d} min" if whole else f"{minutes} min"
