"""Finished rows: one JSON file each, named by a hash of everything that determines the row.

A file is written atomically and contains a digest, so a killed run continues where it stopped, and a damaged or altered
row is computed again.
"""

import hashlib
import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sight._util.atomic import write_atomic

Row: TypeAlias = dict[str, Any]


def hash_key(*parts: Any) -> str:
    return hashlib.blake2b(canonical_json(parts).encode(), digest_size=12).hexdigest()


def canonical_json(value: Any) -> str:
    """Write a value as JSON with sorted keys; dataclasses become objects."""

    def convert(part: Any) -> Any:
        return asdict(part) if is_dataclass(part) and not isinstance(part, type) else str(part)

    return json.dumps(value, sort_keys=True, default=convert)


def row_path(out: Path, key: str) -> Path:
    return out / "rows" / key[:2] / f"{key}.json"


def count_rows(out: Path) -> int:
    return len(list(out.glob("rows/*/*.json")))


def write_row(path: Path, row: Row) -> None:
    """Store a row; arrays become lists, other objects their text."""
    plain = json.loads(json.dumps(row, default=_json))
    write_atomic(path, json.dumps(plain | {"digest": hash_key(path.stem, plain)}).encode())


def read_row(path: Path) -> Row | None:
    """Return a stored row; None if there is none, or if it was damaged or altered."""
    try:
        row: Row = json.loads(path.read_text("utf-8"))
        digest = row.pop("digest")
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return row if digest == hash_key(path.stem, row) else None


def _json(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
