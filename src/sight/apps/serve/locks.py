"""Locks between processes that end with the process that holds them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def acquire(path: Path, timeout_s: float) -> sqlite3.Connection:
    """Lock a file, which is created if absent and stays; closing what is returned releases the lock.

    The lock is that of an empty SQLite database: the standard library has no other one that works on every system and
    is released when its process is killed.

    Raises
    ------
    TimeoutError
        If another process, or another part of this one, still holds the lock after `timeout_s`.
    """
    create_private(path)
    connection = sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = MEMORY")  # no file beside it
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        if "locked" in str(error):
            raise TimeoutError(f"{path} is still locked by another process after {timeout_s:g} s.") from None
        raise
    return connection


@contextmanager
def locked(path: Path, timeout_s: float = 10.0) -> Iterator[None]:
    """Hold the lock of `acquire` for a block of code."""
    connection = acquire(path, timeout_s)
    try:
        yield
    finally:
        connection.close()


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
