"""Disk cache of windows.

The key of an entry is made of the content of the input files, the parameters and the code of this package, so an
entry never becomes stale. An entry that cannot be read, or that differs from its digest, is made again.
"""

import io
import json
import os
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_path

from sight._util.atomic import write_atomic
from sight._util.code_hash import hash_files
from sight._util.hashing import arrays_sha256, file_sha256
from sight.types import Array, RecordingFacts, Warning, Windows

LIMIT_BYTES = 10 << 30
ARRAYS = ("x", "time_s", "label", "gap_before_s", "wear")
#: A file changed more recently than this may change again without a new modification time.
SETTLED_NS = 2_000_000_000

_hashes: dict[tuple[str, int, int, int, int], str] = {}


def cached(
    paths: Sequence[Path], parameters: Mapping[str, Any], make: Callable[[], Windows], *, limit_bytes: int = LIMIT_BYTES
) -> Windows:
    """Return windows from the cache, or make and store them.

    They depend on the content of `paths` and on `parameters`, whose value of ``dataset`` is part of the file name.
    Beyond `limit_bytes`, the least recently used entries are removed.
    """
    entry = folder() / f"{parameters.get('dataset', 'files')}-{key(paths, parameters)}.npz"
    windows = _load(entry)
    if windows is not None:
        return windows
    windows = make()
    try:
        _save(windows, entry)
        _shrink(limit_bytes, keep=entry)
    except OSError:
        return windows  # a full or read-only disk must not fail the caller
    return _load(entry) or windows


def folder() -> Path:
    """Return the folder of the cache: `SIGHT_CACHE`, or ``sight`` in the user's cache folder."""
    return Path(os.environ.get("SIGHT_CACHE") or user_cache_path("sight", appauthor=False))


def key(paths: Iterable[Path], parameters: Mapping[str, Any]) -> str:
    parts = [_code_hash(), *(file_hash(Path(path)) for path in paths)]
    parts.append(json.dumps(parameters, sort_keys=True, default=str))
    return blake2b("\n".join(parts).encode(), digest_size=20).hexdigest()


def file_hash(path: Path) -> str:
    """Return the hash of a file's content, computed once per process unless the file may have changed."""
    status = path.stat()
    identity = (str(path.resolve()), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if identity in _hashes:
        return _hashes[identity]
    digest = file_sha256(path)
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED_NS:
        _hashes[identity] = digest
    return digest


def size() -> int:
    return sum(entry.stat().st_size for entry in _entries())


def remove(dataset: str | None = None) -> int:
    """Delete the entries of a dataset, or all, and return the number of bytes freed."""
    freed = 0
    for entry in _entries():
        if dataset is None or entry.name.rpartition("-")[0] == dataset:
            freed += entry.stat().st_size
            entry.unlink(missing_ok=True)
    return freed


def _load(entry: Path) -> Windows | None:
    try:
        with entry.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            text, digest = str(stored["header"]), str(stored["digest"])
            arrays = {name: stored[name] for name in ARRAYS}
        if digest != _digest(entry, text, arrays):
            return None
        header = json.loads(text)
        header["start"] = header["start"] and datetime.fromisoformat(header["start"])
        header["facts"] = RecordingFacts.from_dict(header["facts"])
        header["warnings"] = tuple(Warning(**warning) for warning in header["warnings"])
        windows = Windows(**arrays, **header)
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
        return None
    with suppress(OSError):
        os.utime(entry)  # marks the entry as recently used
    return windows


def _save(windows: Windows, entry: Path) -> None:
    header = {
        "window_s": windows.window_s,
        "stride_s": windows.stride_s,
        "start": windows.start and windows.start.isoformat(),
        "warnings": [asdict(warning) for warning in windows.warnings],
        "facts": windows.facts.as_dict(),
    }
    text = json.dumps(header, default=_jsonable)
    arrays: dict[str, Any] = {name: np.asarray(getattr(windows, name)) for name in ARRAYS}
    stream = io.BytesIO()
    np.savez(stream, header=np.array(text), digest=np.array(_digest(entry, text, arrays)), **arrays)
    write_atomic(entry, stream.getvalue())


def _digest(entry: Path, header: str, arrays: Mapping[str, Array]) -> str:
    return arrays_sha256(arrays.values(), header=f"{entry.name}\n{' '.join(arrays)}\n{header}")


def _shrink(limit_bytes: int, keep: Path) -> None:
    entries = sorted(_entries(), key=lambda entry: entry.stat().st_mtime_ns)
    total = sum(entry.stat().st_size for entry in entries)
    for entry in entries:
        if total <= limit_bytes:
            return
        if entry != keep:
            total -= entry.stat().st_size
            entry.unlink(missing_ok=True)


def _entries() -> list[Path]:
    return list(folder().glob("*.npz"))


@cache
def _code_hash() -> str:
    """Return the hash of all code that makes windows, so that changed code never reads an old entry."""
    package = Path(__file__).parents[1]
    folders = ("_util", "recordings", "datasets")
    files = [package / "types.py", *(file for folder in folders for file in (package / folder).rglob("*.py"))]
    return hash_files(sorted(files))


def _jsonable(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
