"""Windows kept on disk, found again by what they were made from.

The key is the content of the files, the settings, and our own code, so an entry is never stale: anything that would
change the windows changes the key. An entry that cannot be read is made anew.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from sight._version import __version__
from sight.types import Windows

#: The oldest entries go when the folder grows beyond this.
LIMIT_BYTES = 10 << 30
ARRAYS = ("x", "time_s", "label", "gap_before_s", "wear")
#: A file changed less than this ago may change again without its times telling.
SETTLED_NS = 2_000_000_000

_hashes: dict[tuple[str, int, int, int, int], str] = {}


def cached(
    paths: Sequence[Path],
    settings: Mapping[str, Any],
    make: Callable[[], Windows],
    *,
    limit_bytes: int = LIMIT_BYTES,
) -> Windows:
    """Return windows from the cache, or make and keep them.

    Parameters
    ----------
    paths
        Files they are made from.
    settings
        Everything else they depend on; anything that JSON or `str` can write. The value of ``dataset`` names them.
    make
        Makes them.
    limit_bytes
        Size of the whole cache beyond which the oldest entries go.
    """
    entry = folder() / f"{settings.get('dataset', 'files')}-{key(paths, settings)}.npz"
    windows = _load(entry)
    if windows is not None:
        return windows
    windows = make()
    try:
        _save(windows, entry)
        _shrink(limit_bytes, keep=entry)
    except OSError:
        return windows  # a full or read-only disk is no reason to fail
    return _load(entry) or windows


def folder() -> Path:
    """Return the folder of the cache: `SIGHT_CACHE`, or ``sight`` in the user's cache folder."""
    if os.environ.get("SIGHT_CACHE"):
        return Path(os.environ["SIGHT_CACHE"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sight"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "sight" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sight"


def key(paths: Iterable[Path], settings: Mapping[str, Any]) -> str:
    """Return the name under which windows of these files with these settings are kept."""
    parts = [__version__, _code(), *(file_hash(Path(path)) for path in paths)]
    parts.append(json.dumps(settings, sort_keys=True, default=str))
    return blake2b("\n".join(parts).encode(), digest_size=20).hexdigest()


def file_hash(path: Path) -> str:
    """Hash the content of a file; once in a process, unless the file may have changed since."""
    state = path.stat()
    seen = (str(path.resolve()), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    if seen in _hashes:
        return _hashes[seen]
    digest = blake2b(digest_size=20)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    if time.time_ns() - max(state.st_mtime_ns, state.st_ctime_ns) > SETTLED_NS:
        _hashes[seen] = digest.hexdigest()
    return digest.hexdigest()


def size() -> int:
    """Return the bytes the cache takes on disk."""
    return sum(entry.stat().st_size for entry in _entries())


def remove(dataset: str | None = None) -> int:
    """Delete the entries of a dataset, or all, and return the bytes that became free."""
    freed = 0
    for entry in _entries():
        if dataset is None or entry.name.rpartition("-")[0] == dataset:
            freed += entry.stat().st_size
            entry.unlink(missing_ok=True)
    return freed


def _load(entry: Path) -> Windows | None:
    try:
        with entry.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            arrays = {name: stored[name] for name in ARRAYS}
        start = about["start"] and datetime.fromisoformat(about["start"])
        windows = Windows(
            **arrays, window_s=about["window_s"], stride_s=about["stride_s"], start=start, facts=about["facts"]
        )
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
        return None
    with suppress(OSError):
        os.utime(entry)  # used just now: the last to go
    return windows


def _save(windows: Windows, entry: Path) -> None:
    about = {
        "window_s": windows.window_s,
        "stride_s": windows.stride_s,
        "start": windows.start and windows.start.isoformat(),
        "facts": dict(windows.facts),
    }
    entry.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=entry.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            text = json.dumps(about, default=_jsonable)
            np.savez(stream, about=np.array(text), **{array: getattr(windows, array) for array in ARRAYS})
        Path(name).replace(entry)
    finally:
        Path(name).unlink(missing_ok=True)


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
def _code() -> str:
    """Hash the code that windows go through, so that a changed step never meets an old entry."""
    root = Path(__file__).parents[1]
    digest = blake2b(digest_size=20)
    for path in sorted([root / "types.py", *(root / "signal").glob("*.py"), *(root / "datasets").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _jsonable(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
