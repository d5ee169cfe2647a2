"""Space on the disk of a store that a file without content holds back, so that data can be deleted on a full disk."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from sight.apps.serve.private_files import create_private

#: Free bytes below which a disk counts as full.
MIN_FREE = 1 << 20


def allocate(path: Path, size: int) -> None:
    """Allocate the file at `path` if it is missing or incomplete; on a disk that is nearly full at least half of it."""
    present = path.stat().st_size if path.exists() else 0
    possible = min(size, present + free_bytes(path.parent) - MIN_FREE)
    if present < possible and possible >= size // 2:
        create_private(path)
        with suppress(OSError), path.open("r+b") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, possible)
            else:
                file.write(bytes(possible))


def release(path: Path) -> bool:
    """Remove the file; return whether there was one."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free
