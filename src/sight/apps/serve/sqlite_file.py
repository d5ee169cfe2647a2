"""A SQLite file that one process owns: its lock, permissions, transactions, log, and space for a full disk.

Beside ``NAME`` are ``NAME-wal`` (the write-ahead log) and ``NAME-shm`` (its index) while the file is open,
``NAME.lock`` (held by the process that owns the file) and ``NAME.reserve`` (space for deletions on a full disk).
"""

import math
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from sight._util.atomic import make_folder
from sight.apps.serve.errors import StoreFailed
from sight.apps.serve.private_files import create_private, make_private

#: Space that is held back for deletions on a full disk: more than the write-ahead log.
RESERVE_BYTES = 24 << 20
#: Part of it that is released to open the file on a full disk, and free bytes that filling it leaves to others.
OPEN_BYTES, LEFT_FREE = 1 << 20, 1 << 17
#: Free bytes below which a disk counts as full.
MIN_FREE = 1 << 20
#: Seconds after which the write-ahead log is emptied, so that removed samples do not stay in it.
CHECKPOINT_S = 30.0
#: Prepared statements kept: five for each active wearer.
STATEMENTS = 8192
IN_USE = "Another program reads the store, perhaps a backup; repeat the request when that is finished."


class SqliteFile:
    """Open SQLite file, created if absent; `db` is its connection.

    Raises TimeoutError if another process still owns the file after `timeout_s`, and sqlite3.DatabaseError if it is no
    SQLite database.
    """

    def __init__(self, path: Path, *, fsync: bool, timeout_s: float) -> None:
        self.path, self._fsync, self._timeout_s = path, fsync, timeout_s
        self._reserve, self._checkpointed = self._beside(".reserve"), -math.inf
        make_folder(path.parent, 0o700)
        with ExitStack() as stack:
            # Closed by another thread than the one that opens it.
            lock = FileLock(self._beside(".lock"), timeout=timeout_s, mode=0o600, thread_local=False)
            stack.enter_context(lock)
            self.db = stack.enter_context(closing(self._connect()))
            self.with_reserve(self._configure, self._configure, OPEN_BYTES)
            self._resources = stack.pop_all()

    def _connect(self) -> sqlite3.Connection:
        for file in (self._beside("-wal"), self._beside("-shm")):
            make_private(file)
        if not self.path.is_dir():
            create_private(self.path)  # SQLite gives the files beside it the same permissions
        # Synchronous, but called from the thread of the ingest queue rather than the one that opens it.
        return sqlite3.connect(
            self.path, self._timeout_s, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS
        )

    def _configure(self) -> None:
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA synchronous = {'FULL' if self._fsync else 'NORMAL'}")
        self.db.execute("PRAGMA secure_delete = ON")
        self.db.execute("PRAGMA trusted_schema = OFF")
        self.db.execute("PRAGMA wal_autocheckpoint = 4000")
        self.db.executescript("BEGIN IMMEDIATE; COMMIT;")  # creates the log
        self._files = self._identity()

    def close(self) -> None:
        self._resources.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            if self._identity() != self._files:
                raise sqlite3.OperationalError("its file was removed or replaced; stop the service, restore a backup")
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:  # a full disk has ended it already
                self.db.execute("ROLLBACK")
            raise

    def _identity(self) -> list[tuple[int, int]]:
        try:
            files = [os.stat(file) for file in (self.path, self._beside("-wal"))]
        except FileNotFoundError:
            return []
        return [(file.st_dev, file.st_ino) for file in files]

    def checkpoint(self) -> None:
        """Empty the write-ahead log; raise if a reader, such as a backup, prevents that."""
        self._checkpointed = time.monotonic()
        if self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
            raise StoreFailed("another program reads the database", IN_USE)

    def checkpoint_if_due(self) -> None:
        """Empty the write-ahead log if it was not for `CHECKPOINT_S`; a reader or a full disk postpones that."""
        if time.monotonic() - self._checkpointed > CHECKPOINT_S:
            self.db.execute("PRAGMA busy_timeout = 0")
            with suppress(sqlite3.OperationalError, StoreFailed):
                self.checkpoint()
            self.db.execute(f"PRAGMA busy_timeout = {round(1000 * self._timeout_s)}")

    def with_reserve(self, first: Callable[[], None], then: Callable[[], None], size: int = RESERVE_BYTES) -> None:
        """Call `first`; if the disk is full for it, release so many bytes of the reserve, if any, and call `then`."""
        try:
            first()
        except sqlite3.OperationalError as error:
            is_full = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
            if not is_full or not self._reserve.exists():
                raise
            kept = self._reserve.stat().st_size - size
            if kept > 0:
                os.truncate(self._reserve, kept)
            else:
                self._reserve.unlink()
            then()

    def fill_reserve(self) -> None:
        """Allocate the reserve if it is missing or incomplete; on a disk that is nearly full at least half of it."""
        present = self._reserve.stat().st_size if self._reserve.exists() else 0
        possible = min(RESERVE_BYTES, present + self.free_bytes - LEFT_FREE)
        if present < possible and possible >= RESERVE_BYTES // 2:
            create_private(self._reserve)
            with suppress(OSError), self._reserve.open("r+b") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, possible)
                else:
                    file.write(bytes(possible))

    def check_space(self) -> None:
        if (free := self.free_bytes) < MIN_FREE:
            raise sqlite3.OperationalError(f"{free} bytes are free on its disk")

    @property
    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path.parent).free

    @property
    def size(self) -> int:
        files = (self.path, self._beside("-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)
