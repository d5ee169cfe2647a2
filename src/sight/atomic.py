"""Atomic file writes: a file or a set of files is complete or absent."""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np


@contextmanager
def staged_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` on success, remove it on error.

    Parent folders are created.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with staged_file(Path(folder) / "new" / "a.txt") as draft:
    ...         _ = draft.write_text("complete")
    ...     (Path(folder) / "new" / "a.txt").read_text()
    'complete'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def staged_files(folder: str | Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield a temporary folder; on success move the files `names` from it into `folder`, in this order.

    The last name marks the set as complete: its previous version is deleted before the other files are replaced. On
    error `folder` keeps its previous files, or is removed if it did not exist.
    """
    folder = Path(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".draft-") as draft:
            yield Path(draft)
            (folder / names[-1]).unlink(missing_ok=True)
            for name in names:
                os.replace(Path(draft) / name, folder / name)
    except BaseException:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


def write_atomic(path: str | Path, data: bytes) -> Path:
    """Write bytes to a file and return its path."""
    with staged_file(path) as draft:
        draft.write_bytes(data)
    return Path(path)


def write_json(path: str | Path, content: Any) -> Path:
    """Write a value as indented JSON and return the path of the file.

    Arrays become lists, dates ISO text, non-finite numbers null, objects of other types their `str`.
    """
    text = json.dumps(_to_json_value(content), indent=2, ensure_ascii=False, allow_nan=False)
    return write_atomic(path, f"{text}\n".encode())


def _to_json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _to_json_value(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _to_json_value(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_json_value(entry) for entry in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
