"""CSV files with cells that spreadsheet programs do not execute."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sight._util.atomic import staged_file

#: First characters with which a spreadsheet takes a cell for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows; other keys are ignored, and a value that is missing, None or NaN is an empty cell."""
    with staged_file(path) as draft, draft.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([to_cell(column) for column in columns])
        writer.writerows([to_cell(row.get(column)) for column in columns] for row in rows)
    return path


def to_cell(value: Any) -> Any:
    """Return a value for a CSV file: an apostrophe is put before text that a spreadsheet would take for a formula."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return "TRUE" if value else "FALSE"
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def from_cell(text: str) -> str:
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA) else text
