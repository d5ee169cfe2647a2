"""Atomic file writes: a file or a set of files is complete or absent, also after a loss of power."""

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

    Parent folders are created. The content reaches the disk before the new name does, and both before this returns.
    """
    path = Path(path)
    make_folder(path.parent)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        yield draft
        sync(draft)
        os.replace(draft, path)
        sync(path.parent)
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
    make_folder(folder)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".draft-") as draft:
            yield Path(draft)
            for name in names:
                sync(Path(draft) / name)
            (folder / names[-1]).unlink(missing_ok=True)
            sync(folder)  # the mark of completeness is gone before anything is replaced, and comes back last
            for name in names[:-1]:
                os.replace(Path(draft) / name, folder / name)
            sync(folder)
            os.replace(Path(draft) / names[-1], folder / names[-1])
            sync(folder)
    except BaseException:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


def sync(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows opens no folders, and writes their changes in order
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create a folder and its parents where they are missing; `mode` is that of the folder itself."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode, parents=True, exist_ok=True)
    for path in missing:
        sync(path.parent)


def require_space(path: str | Path, n_bytes: int) -> None:
    """Raise OSError unless a file of this size can be written at `path`; an existing file stays as it is.

    The bytes are written to a temporary file, because quotas and read-only file systems do not show otherwise.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file to write, but {path} is a folder; name a file in it.")
    try:
        make_folder(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp") as draft:
            draft.write(bytes(n_bytes))
            draft.flush()
    except OSError as error:
        raise OSError(
            f"{path} cannot be written ({error.strerror}); free {n_bytes >> 20} MiB or name another place."
        ) from None


def write_atomic(path: str | Path, data: bytes) -> Path:
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
