"""A store in one SQLite file, with its log beside it (-wal); the default."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sight.serve.errors import StoreFailed
from sight.serve.store import Entry, Snapshot, Stored

#: Raised by one whenever an older `sight` could not use the tables of a newer one.
SCHEMA = 2
_WEARERS = "CREATE TABLE IF NOT EXISTS wearers (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, facts BLOB NOT NULL)"
# Every wearer has tables of its own. SQLite overwrites what is deleted, but when it divides a page, copies of rows stay
# in the unused part of it until others need the room. A page belongs to one table and is overwritten whole when the
# table goes: so no page that outlives a wearer has ever held a byte of it, however large the file.
_TABLES = (
    "CREATE TABLE state_{} (one INTEGER PRIMARY KEY, seq INTEGER NOT NULL, state BLOB NOT NULL)",
    "CREATE TABLE inputs_{} (seq INTEGER PRIMARY KEY, samples BLOB NOT NULL)",
    "CREATE TABLE answers_{} (window INTEGER PRIMARY KEY, seq INTEGER NOT NULL, events BLOB NOT NULL)",
    "CREATE INDEX answers_{0}_by_seq ON answers_{0} (seq)",
)
#: Prepared statements kept: five for each wearer who sends.
_STATEMENTS = 8192


class SqliteStore:
    """Keeps everything in a file that belongs to one process at a time.

    Parameters
    ----------
    path
        The file; made where there is none.
    fsync
        Whether a commit waits for the disk. Without, it is with the operating system: it survives a SIGKILL of the
        process, and may be lost with the machine's power.
    patience_s
        How long to wait for another process to let go of the file.

    Notes
    -----
    Content that leaves the store is overwritten with zeros. Deleting a wearer writes the list of the others anew and
    empties the log; the file keeps its size, and what was freed is used again.
    """

    def __init__(self, path: str | Path, *, fsync: bool = False, patience_s: float = 5.0) -> None:
        self.path, self.fsync = Path(path), fsync
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # The keeper is synchronous but may be called from a thread of its own.
            self._base = sqlite3.connect(
                self.path,
                timeout=patience_s,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_STATEMENTS,
            )
            self._prepare()
            self._ids: dict[str, int] = dict(self._base.execute("SELECT name, id FROM wearers").fetchall())
        except sqlite3.DatabaseError as error:
            held = "locked" in str(error)
            hint = "is another service using it? Stop that one" if held else "restore a backup, or name another file"
            raise ValueError(f"{self.path} cannot be used as a store ({error}); {hint}.") from None

    def _prepare(self) -> None:
        # Two services on one file would each answer from a memory of their own; the lock ends with the process.
        self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute(f"PRAGMA synchronous = {'FULL' if self.fsync else 'NORMAL'}")
        self._base.execute("PRAGMA secure_delete = ON")
        self._base.execute("PRAGMA wal_autocheckpoint = 4000")
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA):
            raise sqlite3.DatabaseError(f"its tables are of version {version}, this sight uses {SCHEMA}")
        self._base.executescript(f"BEGIN IMMEDIATE; {_WEARERS}; PRAGMA user_version = {SCHEMA}; COMMIT;")

    @property
    def facts(self) -> dict[str, str]:
        """Kind of store and how durable it is."""
        return {"store": "sqlite", "survives": "loss of power" if self.fsync else "SIGKILL"}

    def wearers(self) -> dict[str, bytes]:
        """Names of all wearers, sorted, with the facts of each."""
        with self._told():
            return dict(self._base.execute("SELECT name, facts FROM wearers ORDER BY name").fetchall())

    def put(self, facts: bytes, snapshot: Snapshot, *, clear: bool = False) -> None:
        """Create a wearer or replace its facts and state, in one piece; `clear` drops its answers."""
        known = self._ids.get(snapshot.wearer)
        with self._told(), self._transaction():
            made = self._base.execute(
                "INSERT INTO wearers (name, facts) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET facts = excluded.facts RETURNING id",
                (snapshot.wearer, facts),
            )
            key = made.fetchall()[0][0]
            if known is None:
                for table in _TABLES:
                    self._base.execute(table.format(key))
            self._save(key, snapshot)
            self._base.execute(f"DELETE FROM inputs_{key}")
            if clear:
                self._base.execute(f"DELETE FROM answers_{key}")
        self._ids[snapshot.wearer] = key

    def commit(self, entries: Sequence[Entry], snapshots: Sequence[Snapshot] = ()) -> None:
        """Append a batch, then take snapshots, in one piece."""
        with self._told(), self._transaction():
            for e in entries:
                key = self._ids[e.wearer]
                self._base.execute(f"INSERT INTO inputs_{key} VALUES (?, ?)", (e.seq, e.inputs))
                if e.answers is not None:
                    self._base.execute(f"INSERT INTO answers_{key} VALUES (?, ?, ?)", (e.window, e.seq, e.answers))
            for one in snapshots:
                key = self._ids[one.wearer]
                self._save(key, one)
                self._base.execute(f"DELETE FROM inputs_{key} WHERE seq <= ?", (one.seq,))
                self._base.execute(f"DELETE FROM answers_{key} WHERE window < ?", (one.oldest,))

    def _save(self, key: int, one: Snapshot) -> None:
        self._base.execute(f"REPLACE INTO state_{key} VALUES (1, ?, ?)", (one.seq, one.state))

    def load(self, wearer: str) -> Stored | None:
        """Give what resumes a wearer, inputs in order; None where there is no such wearer."""
        key = self._ids.get(wearer)
        if key is None:
            return None
        with self._told():
            facts = self._base.execute("SELECT facts FROM wearers WHERE id = ?", (key,)).fetchall()
            states = self._base.execute(f"SELECT seq, state FROM state_{key}").fetchall()
            inputs = self._base.execute(f"SELECT seq, samples FROM inputs_{key} ORDER BY seq").fetchall()
        seq, state = states[0] if states else (0, b"")
        return Stored(facts[0][0], seq, state, inputs)

    def answers(self, wearer: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Give the sequence number and answers of at most `limit` chunks with windows above `after`, in order."""
        return self._answers(wearer, "window > ? ORDER BY window LIMIT ?", after, limit)

    def newest(self, wearers: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Give the sequence number and answers of each wearer's latest chunk with windows, where there is one."""
        found = ((name, self._answers(name, "TRUE ORDER BY window DESC LIMIT 1")) for name in wearers)
        return {name: rows[0] for name, rows in found if rows}

    def answer(self, wearer: str, seq: int) -> bytes | None:
        """Give the answers of one chunk; None where it had none or they are no longer kept."""
        rows = self._answers(wearer, "seq = ?", seq)
        return rows[0][1] if rows else None

    def _answers(self, wearer: str, where: str, *values: int) -> list[tuple[int, bytes]]:
        key = self._ids.get(wearer)
        if key is None:
            return []
        with self._told():
            return self._base.execute(f"SELECT seq, events FROM answers_{key} WHERE {where}", values).fetchall()

    def delete(self, wearer: str) -> None:
        """Remove every trace of a wearer, from the log too."""
        key = self._ids.get(wearer)
        with self._told():
            with self._transaction():
                if key is not None:
                    for kind in ("state", "inputs", "answers"):
                        self._base.execute(f"DROP TABLE {kind}_{key}")
                others = self._base.execute("SELECT * FROM wearers WHERE name <> ? ORDER BY id", (wearer,)).fetchall()
                self._base.execute("DELETE FROM wearers")  # all of it, for names of many share a page
                self._base.executemany("INSERT INTO wearers VALUES (?, ?, ?)", others)
            self._ids.pop(wearer, None)
            # A deletion that failed before this is finished by the next.
            self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Release the file."""
        self._base.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._base.in_transaction:  # a full disk has ended it already
                self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreFailed(
                f"The store {self.path.name} failed ({error}); send the chunk again, and look at its disk."
            ) from error
