"""Text cells of CSV files that spreadsheet programs must not execute."""

from __future__ import annotations

from typing import Any

#: First characters with which a spreadsheet takes a cell for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_cell(value: Any) -> Any:
    """Return a value for a CSV file: an apostrophe is put before text that a spreadsheet would take for a formula.

    Examples
    --------
    >>> to_cell("=1+1"), to_cell("walking"), to_cell(-1.5), to_cell(True)
    ("'=1+1", 'walking', -1.5, 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def from_cell(text: str) -> str:
    """Return the text that `to_cell` was given."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA) else text
