"""Files that only their owner can read."""

import os
from contextlib import suppress
from pathlib import Path


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can read; an existing file loses the permissions of others."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:  # not opened: closing it would release the locks that SQLite holds on it in this process
        make_private(path)


def make_private(path: Path) -> None:
    """Take the permissions of others from a file, if it exists, is a file, and belongs to this user."""
    with suppress(FileNotFoundError, PermissionError):
        if path.is_file() and path.stat().st_mode & 0o077:
            path.chmod(0o600)
