"""Space on the disk of a store that is held back, so that data can be deleted when the disk is full."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from sight.apps.serve import locks

#: Free bytes below which a disk counts as full.
MIN_FREE = 1 << 20


class DiskReserve:
    """A file of a fixed size without content.

    Parameters
    ----------
    path
        The file.
    size
        Its bytes; 0 for no reserve.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size = path, size

    def allocate(self) -> None:
        """Allocate the file if it is missing or incomplete and there is space for it."""
        if not self.size or (self.path.exists() and self.path.stat().st_size == self.size):
            return
        if free_bytes(self.path.parent) > self.size + MIN_FREE:
            locks.create_private(self.path)
            with suppress(OSError), self.path.open("r+b") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, self.size)
                else:
                    file.write(bytes(self.size))

    def release(self) -> bool:
        """Remove the file; return whether there was one."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder."""
    return shutil.disk_usage(folder).free
