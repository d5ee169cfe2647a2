"""Store in one SQLite file with its write-ahead log (-wal) beside it; the default."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sight.serve.store import Snapshot, StoredChunk, StoredWearer, store_errors

#: Raised by one whenever an older `sight` could not use the tables of a newer one.
SCHEMA = 3
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
#: Prepared statements kept: five for each active wearer.
_STATEMENTS = 8192


class SqliteStore:
    """Store in a file that one process uses at a time.

    Parameters
    ----------
    path
        The file; created if absent.
    fsync
        Whether a commit waits for the disk. Without it, a commit survives a SIGKILL of the process but may be lost
        in a power failure.
    timeout_s
        How long to wait for another process to release the file.

    Notes
    -----
    Deleted content is overwritten with zeros. Deleting a wearer rewrites the list of the others and truncates the
    write-ahead log; the file keeps its size, and the freed space is used again.
    """

    def __init__(self, path: str | Path, *, fsync: bool = False, timeout_s: float = 5.0) -> None:
        self.path, self.fsync = Path(path), fsync
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Synchronous, but called from the thread of the ingest queue rather than the one that opens it.
            self._db = sqlite3.connect(
                self.path,
                timeout=timeout_s,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_STATEMENTS,
            )
            self._prepare()
            self._ids: dict[str, int] = dict(self._db.execute("SELECT name, id FROM wearers").fetchall())
        except sqlite3.DatabaseError as error:
            locked = "locked" in str(error)
            hint = "is another service using it? Stop that one" if locked else "restore a backup, or use another file"
            raise ValueError(f"{self.path} cannot be used as a store ({error}); {hint}.") from None

    def _prepare(self) -> None:
        # Two services on one file would each predict from their own memory; the lock ends with the process.
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {'FULL' if self.fsync else 'NORMAL'}")
        self._db.execute("PRAGMA secure_delete = ON")
        self._db.execute("PRAGMA wal_autocheckpoint = 4000")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA):
            raise sqlite3.DatabaseError(f"its tables have version {version}, this sight uses {SCHEMA}")
        self._db.executescript(f"BEGIN IMMEDIATE; {_WEARERS}; PRAGMA user_version = {SCHEMA}; COMMIT;")

    @property
    def info(self) -> dict[str, str]:
        """Kind of store and what its data survive, for the log."""
        return {"store": "sqlite", "durable_against": "power loss" if self.fsync else "process kill"}

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
            if snapshot.wearer not in self._ids:
                for table in _TABLES:
                    self._db.execute(table.format(key))
            self._save(key, snapshot)
            self._db.execute(f"DELETE FROM inputs_{key}")
            if clear:
                self._db.execute(f"DELETE FROM events_{key}")
        self._ids[snapshot.wearer] = key

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
        """Remove all data of a wearer, from the write-ahead log too."""
        key = self._ids.get(wearer)
        with self._errors():
            with self._transaction():
                if key is not None:
                    for kind in ("state", "inputs", "events"):
                        self._db.execute(f"DROP TABLE {kind}_{key}")
                others = self._db.execute("SELECT * FROM wearers WHERE name <> ? ORDER BY id", (wearer,)).fetchall()
                self._db.execute("DELETE FROM wearers")  # all rows, because names of many wearers share a page
                self._db.executemany("INSERT INTO wearers VALUES (?, ?, ?)", others)
            self._ids.pop(wearer, None)
            # If an earlier deletion failed before this, the next one completes it.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(self.path.name, sqlite3.Error)
