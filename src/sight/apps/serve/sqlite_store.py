"""Store in one SQLite file; the default.

Beside ``NAME`` are ``NAME-wal`` (the write-ahead log) and ``NAME-shm`` (its index) while the store is open,
``NAME.lock`` (held by the process that owns the store) and ``NAME.reserve`` (space for deletions on a full disk).
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from sight._util.atomic import make_folder
from sight.apps.serve import disk_reserve
from sight.apps.serve.private_files import create_private, make_private
from sight.apps.serve.store import Snapshot, StoredChunk, StoredWearer, store_errors

#: Raised by one whenever an older `sight` could not use the tables of a newer one.
SCHEMA = 3
#: Space that is held back for deletions on a full disk: more than the write-ahead log.
RESERVE_BYTES = 24 << 20
#: Seconds after which the write-ahead log is emptied, so that removed samples do not stay in it.
CHECKPOINT_S = 30.0
#: Bytes that one step of a deletion on a full disk removes.
STEP_BYTES = 1 << 22
_WEARERS = (
    "CREATE TABLE IF NOT EXISTS wearers (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, config BLOB NOT NULL)"
)
# Every wearer has tables of its own. SQLite overwrites deleted rows, but when it splits a page, copies of rows stay in
# the unused part of the page until the space is used again. A page belongs to one table and is overwritten completely
# when the table is dropped: so no page that outlives a wearer has ever held data of it.
_TABLES = (
    "CREATE TABLE state_{} (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, state BLOB NOT NULL)",
    "CREATE TABLE inputs_{} (seq INTEGER PRIMARY KEY, samples BLOB NOT NULL)",
    "CREATE TABLE events_{} (window INTEGER PRIMARY KEY, seq INTEGER NOT NULL, events BLOB NOT NULL)",
    "CREATE INDEX events_{0}_by_seq ON events_{0} (seq)",
)
#: Kinds of tables of a wearer, and the column with their content.
_CONTENT = {"state": "state", "inputs": "samples", "events": "events"}
#: Prepared statements kept: five for each active wearer.
_STATEMENTS = 8192


class SqliteStore:
    """Store in a file that one process uses at a time.

    Parameters
    ----------
    address
        The file, as a path or ``sqlite://PATH``; created if absent.
    fsync
        Whether a commit waits for the disk. Without it, a commit survives a SIGKILL of the process but may be lost
        in a power failure.
    timeout_s
        How long to wait for another process to release the file.

    Notes
    -----
    Deleted content is overwritten with zeros. Deleting or resetting a wearer drops its tables and truncates the
    write-ahead log, which is also done when the store is opened and every `CHECKPOINT_S`; the file keeps its size, and
    the freed space is used again. Only the owner of the files can read them. Another process may read the database
    (`sight serve backup`), but not open it as a store.
    """

    name = "sqlite"

    def __init__(self, address: str | Path, *, fsync: bool = False, timeout_s: float = 5.0) -> None:
        self.path, self.fsync, self.timeout_s = Path(str(address).removeprefix("sqlite://")), fsync, timeout_s
        self._reserve = self._beside(".reserve")
        make_folder(self.path.parent, 0o700)
        # Closed by another thread than the one that opens it.
        self._lock = FileLock(self._beside(".lock"), timeout=timeout_s, mode=0o600, thread_local=False)
        try:
            self._lock.acquire()
        except TimeoutError:
            raise ValueError(f"{self.path} is in use by another service; stop that one, or use another file.") from None
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            self._lock.release()
            hint = "stop what uses it" if "locked" in str(error) else "restore a backup, or use another file"
            raise ValueError(f"{self.path} cannot be used as a store ({error}); {hint}.") from None
        except BaseException:
            self._lock.release()
            raise

    def _open(self) -> None:
        for file in (self._beside("-wal"), self._beside("-shm")):
            make_private(file)
        if not self.path.is_dir():
            create_private(self.path)  # SQLite gives the files beside it the same permissions
        # Synchronous, but called from the thread of the ingest queue rather than the one that opens it.
        self._db = sqlite3.connect(
            self.path,
            timeout=self.timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
        )
        try:
            try:
                self._prepare()
            except sqlite3.OperationalError as error:
                if not _is_full(error) or not disk_reserve.release(self._reserve):
                    raise
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {'FULL' if self.fsync else 'NORMAL'}")
        self._db.execute("PRAGMA secure_delete = ON")
        self._db.execute("PRAGMA wal_autocheckpoint = 4000")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA):
            remedy = "upgrade sight" if version > SCHEMA else "use another file"
            raise sqlite3.DatabaseError(f"its tables have version {version}, this sight uses {SCHEMA}; {remedy}")
        self._db.executescript(f"BEGIN IMMEDIATE; {_WEARERS}; PRAGMA user_version = {SCHEMA}; COMMIT;")
        self._ids: dict[str, int] = dict(self._db.execute("SELECT name, id FROM wearers").fetchall())
        self._files = self._identity()
        with self._transaction():
            self._drop_orphans()  # of a deletion that was interrupted
        self._checkpointed = -math.inf
        self._checkpoint_if_due()
        disk_reserve.allocate(self._reserve, RESERVE_BYTES)

    @property
    def info(self) -> dict[str, str]:
        """Kind of store and what its data survive, for the log."""
        return {"store": self.name, "durable_against": "power loss" if self.fsync else "process kill"}

    def wearers(self) -> dict[str, bytes]:
        """Return the configuration of each wearer, sorted by name."""
        with self._errors():
            return dict(self._db.execute("SELECT name, config FROM wearers ORDER BY name").fetchall())

    def put(self, config: bytes, snapshot: Snapshot, *, clear: bool = False) -> None:
        """Create a wearer, or replace its configuration and state and drop its inputs; `clear` drops its events too."""
        with self._errors(), self._transaction():
            inserted = self._db.execute(
                "INSERT INTO wearers (name, config) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET config = excluded.config RETURNING id",
                (snapshot.wearer, config),
            )
            key = inserted.fetchall()[0][0]
            if clear or snapshot.wearer not in self._ids:
                self._drop_tables(key)
                for table in _TABLES:
                    self._db.execute(table.format(key))
            self._save(key, snapshot)
            self._db.execute(f"DELETE FROM inputs_{key}")
        self._ids[snapshot.wearer] = key
        if clear:
            with self._errors():
                self._checkpoint()

    def commit(self, chunks: Sequence[StoredChunk], snapshots: Sequence[Snapshot] = ()) -> None:
        """Append chunks, then apply snapshots, in one transaction."""
        with self._errors(), self._transaction():
            for chunk in chunks:
                key = self._ids[chunk.wearer]
                self._db.execute(f"INSERT INTO inputs_{key} VALUES (?, ?)", (chunk.seq, chunk.inputs))
                if chunk.events is not None:
                    row = (chunk.last_window, chunk.seq, chunk.events)
                    self._db.execute(f"INSERT INTO events_{key} VALUES (?, ?, ?)", row)
            for snapshot in snapshots:
                key = self._ids[snapshot.wearer]
                self._save(key, snapshot)
                self._db.execute(f"DELETE FROM inputs_{key} WHERE seq <= ?", (snapshot.seq,))
                self._db.execute(f"DELETE FROM events_{key} WHERE window < ?", (snapshot.oldest_window,))
        self._checkpoint_if_due()

    def _save(self, key: int, snapshot: Snapshot) -> None:
        self._db.execute(f"REPLACE INTO state_{key} VALUES (1, ?, ?)", (snapshot.seq, snapshot.state))

    def load(self, wearer: str) -> StoredWearer | None:
        """Return what resumes a wearer, inputs in order; None if there is no such wearer."""
        key = self._ids.get(wearer)
        if key is None:
            return None
        with self._errors():
            config = self._db.execute("SELECT config FROM wearers WHERE id = ?", (key,)).fetchall()
            states = self._db.execute(f"SELECT seq, state FROM state_{key}").fetchall()
            inputs = self._db.execute(f"SELECT seq, samples FROM inputs_{key} ORDER BY seq").fetchall()
        seq, state = states[0] if states else (0, b"")
        return StoredWearer(config[0][0], seq, state, inputs)

    def events(self, wearer: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return number and events of at most `limit` chunks with windows above `after`, in order."""
        return self._select_events(wearer, "window > ? ORDER BY window LIMIT ?", after, limit)

    def latest_events(self, wearers: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Return number and events of the latest chunk with windows of each wearer that has one."""
        latest = ((name, self._select_events(name, "TRUE ORDER BY window DESC LIMIT 1")) for name in wearers)
        return {name: rows[0] for name, rows in latest if rows}

    def chunk_events(self, wearer: str, seq: int) -> bytes | None:
        """Return the events of one chunk; None if it had none or they are no longer kept."""
        rows = self._select_events(wearer, "seq = ?", seq)
        return rows[0][1] if rows else None

    def _select_events(self, wearer: str, where: str, *values: int) -> list[tuple[int, bytes]]:
        key = self._ids.get(wearer)
        if key is None:
            return []
        with self._errors():
            return self._db.execute(f"SELECT seq, events FROM events_{key} WHERE {where}", values).fetchall()

    def delete(self, wearer: str) -> None:
        """Remove all data of a wearer, from the write-ahead log too, also on a full disk."""
        with self._errors():
            try:
                with self._transaction():
                    self._forget(wearer)
                    self._drop_orphans(wearer)
                self._checkpoint()
            except sqlite3.OperationalError as error:
                if not _is_full(error) or not disk_reserve.release(self._reserve):
                    raise
                self._delete_in_steps(wearer)
            self._ids.pop(wearer, None)

    def check(self) -> None:
        """Raise `StoreFailed` if the next write would fail; empty the log and restore the reserve if that is due."""
        with self._errors():
            if (free := disk_reserve.free_bytes(self.path.parent)) < disk_reserve.MIN_FREE:
                raise sqlite3.OperationalError(f"{free} bytes are free on its disk")
            with self._transaction():
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")  # writes a page
            self._checkpoint_if_due()
            disk_reserve.allocate(self._reserve, RESERVE_BYTES)

    def close(self) -> None:
        """Release the file."""
        self._db.close()
        self._lock.release()

    # --- deletion -------------------------------------------------------------------------------------------------

    def _forget(self, wearer: str) -> None:
        """Remove a wearer from the list of wearers; its tables are orphans then."""
        others = self._db.execute("SELECT * FROM wearers WHERE name <> ? ORDER BY id", (wearer,)).fetchall()
        self._db.execute("DELETE FROM wearers")  # all rows, because names of many wearers share a page
        self._db.executemany("INSERT INTO wearers VALUES (?, ?, ?)", others)

    def _orphans(self, wearer: str | None = None) -> list[int]:
        """Return the ids of tables without a wearer; `wearer` is no longer one."""
        known = {key for name, key in self._ids.items() if name != wearer}
        names = (name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall())
        matches = (re.fullmatch(r"(?:state|inputs|events)_(\d+)", name) for name in names)
        return sorted({int(match[1]) for match in matches if match} - known)

    def _drop_orphans(self, wearer: str | None = None) -> None:
        for key in self._orphans(wearer):
            self._drop_tables(key)

    def _drop_tables(self, key: int) -> None:
        for kind in _CONTENT:
            self._db.execute(f"DROP TABLE IF EXISTS {kind}_{key}")

    def _delete_in_steps(self, wearer: str) -> None:
        """Delete a wearer in transactions so small that their log fits into the space of the reserve."""
        self._checkpoint()
        with self._transaction():
            self._forget(wearer)
        for key in self._orphans(wearer):
            for kind, column in _CONTENT.items():
                rows = self._db.execute(f"SELECT rowid, LENGTH({column}) FROM {kind}_{key} ORDER BY rowid").fetchall()
                for first, last in _ranges(rows, STEP_BYTES):
                    with self._transaction():
                        self._db.execute(f"DELETE FROM {kind}_{key} WHERE rowid BETWEEN ? AND ?", (first, last))
                    self._checkpoint()
        with self._transaction():
            self._drop_orphans(wearer)
        self._checkpoint()

    # --- transactions and log -------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            if self._identity() != self._files:
                raise sqlite3.OperationalError("its file was removed or replaced; stop the service, restore a backup")
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            raise

    def _identity(self) -> list[tuple[int, int]]:
        """Return device and number of the open files; empty if one of them is gone."""
        try:
            files = [os.stat(file) for file in (self.path, self._beside("-wal"))]
        except FileNotFoundError:
            return []
        return [(file.st_dev, file.st_ino) for file in files]

    def _checkpoint(self) -> None:
        """Empty the write-ahead log; raise if a reader, such as a backup, prevents that."""
        self._checkpointed = time.monotonic()
        if self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
            raise sqlite3.OperationalError("another program reads it, perhaps a backup; repeat when that is finished")

    def _checkpoint_if_due(self) -> None:
        """Empty the write-ahead log if it was not for `CHECKPOINT_S`; a reader or a full disk postpones that."""
        if time.monotonic() - self._checkpointed > CHECKPOINT_S:
            self._db.execute("PRAGMA busy_timeout = 0")
            with suppress(sqlite3.OperationalError):
                self._checkpoint()
            self._db.execute(f"PRAGMA busy_timeout = {round(1000 * self.timeout_s)}")

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(self.path.name, sqlite3.Error)


def _is_full(error: sqlite3.OperationalError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _ranges(rows: Sequence[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Divide rows, given as (id, bytes) in order, into ranges of ids with at most so many bytes, or a single row.

    Examples
    --------
    >>> list(_ranges([(1, 5), (2, 5), (3, 20), (7, 1)], most=10))
    [(1, 2), (3, 3), (7, 7)]
    """
    start, total = 0, 0
    for i, (row, size) in enumerate(rows):
        if i > start and total + size > most:
            yield rows[start][0], rows[i - 1][0]
            start, total = i, 0
        total += size
        if i == len(rows) - 1:
            yield rows[start][0], row
