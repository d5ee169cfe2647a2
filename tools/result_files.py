"""Files of ``benchmarks/results``, other than benchmark rows, as tables of the docs use them.

Each file has the keys or columns of `benchmarks.version_and_date`; reading it records them for the line under the
table.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from tools.row_versions import record_entries

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
KEYS = ("sight", "computed_at")


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file, and record its version and date."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    _record(path, [found])
    return found


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file without the columns of version and date, which are recorded."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    _record(path, rows)
    return [{name: value for name, value in row.items() if name not in KEYS} for row in rows]


def _record(path: Path, entries: list[dict[str, Any]]) -> None:
    if not all(entry.get(key) for entry in entries for key in KEYS):
        raise ValueError(f"{path} has no {' or '.join(KEYS)}; its script adds both (benchmarks/version_and_date.py).")
    record_entries(entries)
