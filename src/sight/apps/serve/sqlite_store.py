"""Store in one SQLite file; the default."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from sight.apps.serve.sqlite_file import OPEN_BYTES, SqliteFile
from sight.apps.serve.store import Snapshot, StoredChunk, StoredWearer, store_errors

#: Raised by one whenever an older `sight` could not use the tables of a newer one.
SCHEMA = 3
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


class SqliteStore:
    """Store in a file that one process uses at a time.

    The address is a path or ``sqlite://PATH``. Without `fsync` a commit does not wait for the disk: it survives a
    SIGKILL of the process but may be lost in a power failure. `timeout_s` is how long to wait for another process to
    release the file.

    Deleted content is overwritten with zeros. Deleting or resetting a wearer drops its tables and truncates the
    write-ahead log, which is also done when the store is opened and every 30 s; the file keeps its size, and
    the freed space is used again. Only the owner of the files can read them. Another process may read the database
    (`sight serve backup`), but not open it as a store.
    """

    name = "sqlite"
    losses = 0  # a database that is damaged or was replaced is refused

    def __init__(self, address: str | Path, *, fsync: bool = False, timeout_s: float = 5.0) -> None:
        self.path, self.fsync = Path(str(address).removeprefix("sqlite://")), fsync
        try:
            self._file = SqliteFile(self.path, fsync=fsync, timeout_s=timeout_s)
            self._db = self._file.db
            try:
                self._file.with_reserve(self._prepare, self._prepare, OPEN_BYTES)
            except BaseException:
                self._file.close()
                raise
        except TimeoutError:
            raise ValueError(f"{self.path} is in use by another service; stop that one, or use another file.") from None
        except sqlite3.DatabaseError as error:
            hint = "stop what uses it" if "locked" in str(error) else "restore a backup, or use another file"
            raise ValueError(f"{self.path} cannot be used as a store ({error}); {hint}.") from None

    def _prepare(self) -> None:
        check_schema(self._db)
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA):
            remedy = "upgrade sight" if version > SCHEMA else "use another file"
            raise sqlite3.DatabaseError(f"its tables have version {version}, this sight uses {SCHEMA}; {remedy}")
        self._db.executescript(f"BEGIN IMMEDIATE; {_WEARERS}; PRAGMA user_version = {SCHEMA}; COMMIT;")
        self._ids: dict[str, int] = dict(self._db.execute("SELECT name, id FROM wearers").fetchall())
        with self._file.transaction():
            self._drop_orphans()  # of a deletion that was interrupted
        self._file.checkpoint_if_due()
        self._file.fill_reserve()

    @property
    def info(self) -> dict[str, str]:
        return {"store": self.name, "durable_against": "power loss" if self.fsync else "process kill"}

    def wearers(self) -> dict[str, bytes]:
        with self._errors():
            return dict(self._db.execute("SELECT name, config FROM wearers ORDER BY name").fetchall())

    def put(self, config: bytes, snapshot: Snapshot, *, clear: bool = False) -> None:
        with self._errors(), self._file.transaction():
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
                self._file.checkpoint()

    def commit(self, chunks: Sequence[StoredChunk], snapshots: Sequence[Snapshot] = ()) -> None:
        with self._errors(), self._file.transaction():
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
        self._file.checkpoint_if_due()

    def _save(self, key: int, snapshot: Snapshot) -> None:
        self._db.execute(f"REPLACE INTO state_{key} VALUES (1, ?, ?)", (snapshot.seq, snapshot.state))

    def load(self, wearer: str) -> StoredWearer | None:
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
        return self._select_events(wearer, "window > ? ORDER BY window LIMIT ?", after, limit)

    def latest_events(self, wearers: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        latest = ((name, self._select_events(name, "TRUE ORDER BY window DESC LIMIT 1")) for name in wearers)
        return {name: rows[0] for name, rows in latest if rows}

    def chunk_events(self, wearer: str, seq: int) -> bytes | None:
        rows = self._select_events(wearer, "seq = ?", seq)
        return rows[0][1] if rows else None

    def _select_events(self, wearer: str, where: str, *values: int) -> list[tuple[int, bytes]]:
        key = self._ids.get(wearer)
        if key is None:
            return []
        with self._errors():
            return self._db.execute(f"SELECT seq, events FROM events_{key} WHERE {where}", values).fetchall()

    def delete(self, wearer: str) -> None:
        with self._errors():
            self._file.with_reserve(lambda: self._delete(wearer), lambda: self._delete_in_steps(wearer))
            self._ids.pop(wearer, None)

    def check(self) -> None:
        with self._errors():
            self._file.check_space()
            with self._file.transaction():
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")  # writes a page
            self._file.checkpoint_if_due()
            self._file.fill_reserve()

    def space(self) -> dict[str, int]:
        with self._errors():
            return {"used": self._file.size, "free": self._file.free_bytes}

    def close(self) -> None:
        self._file.close()

    def _delete(self, wearer: str) -> None:
        with self._file.transaction():
            self._forget(wearer)
            self._drop_orphans(wearer)
        self._file.checkpoint()

    def _forget(self, wearer: str) -> None:
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
        self._file.checkpoint()
        with self._file.transaction():
            self._forget(wearer)
        for key in self._orphans(wearer):
            for kind, column in _CONTENT.items():
                rows = self._db.execute(f"SELECT rowid, LENGTH({column}) FROM {kind}_{key} ORDER BY rowid").fetchall()
                for first, last in _ranges(rows, STEP_BYTES):
                    with self._file.transaction():
                        self._db.execute(f"DELETE FROM {kind}_{key} WHERE rowid BETWEEN ? AND ?", (first, last))
                    self._file.checkpoint()
        with self._file.transaction():
            self._drop_orphans(wearer)
        self._file.checkpoint()

    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(self.path.name, sqlite3.Error, OSError)


def check_schema(database: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if a database has tables, triggers or views that a store did not create."""
    for name, created in database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
        key = re.fullmatch(r"(?:state|inputs|events)_(\d+)(?:_by_seq)?", name)
        expected = (_WEARERS.replace("IF NOT EXISTS ", ""), *(table.format(key[1]) for table in _TABLES if key))
        if created not in expected:
            raise sqlite3.DatabaseError(f"{name!r} was not created by sight")


def _ranges(rows: Sequence[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Divide rows, given as (id, bytes) in order, into ranges of ids with at most so many bytes, or a single row."""
    start, total = 0, 0
    for i, (row, size) in enumerate(rows):
        if i > start and total + size > most:
            yield rows[start][0], rows[i - 1][0]
            start, total = i, 0
        total += size
        if i == len(rows) - 1:
            yield rows[start][0], row
