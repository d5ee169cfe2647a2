"""A store in one SQLite file, with its log beside it (-wal); the default."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sight.serve.errors import StoreFailed
from sight.serve.store import Entry, Snapshot, Stored

#: Raised by one whenever an older `sight` could not use the tables of a newer one.
SCHEMA = 1
# Samples lie under one whole number, wearer and chunk together: a table with a compound key would put every row
# beyond a quarter of a page onto pages of its own, and rows of one wearer should lie side by side.
_TABLES = """
CREATE TABLE IF NOT EXISTS wearers (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, facts BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS states (wearer INTEGER PRIMARY KEY, seq INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS inputs (place INTEGER PRIMARY KEY, samples BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    wearer INTEGER, window INTEGER, seq INTEGER NOT NULL, events BLOB NOT NULL, PRIMARY KEY (wearer, window)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answers_by_seq ON answers (wearer, seq);
"""
_SEQ_BITS = 36
_MASK = (1 << _SEQ_BITS) - 1


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
    Content that leaves the store is overwritten with zeros. Deleting a wearer also writes the whole file anew and
    empties the log, which takes about a second for each 100 MB.
    """

    def __init__(self, path: str | Path, *, fsync: bool = False, patience_s: float = 5.0) -> None:
        self.path, self.fsync = Path(path), fsync
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # The keeper is synchronous but may be called from a thread of its own.
            self._base = sqlite3.connect(self.path, timeout=patience_s, isolation_level=None, check_same_thread=False)
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
        self._base.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")

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
        with self._told(), self._transaction():
            made = self._base.execute(
                "INSERT INTO wearers (name, facts) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET facts = excluded.facts RETURNING id",
                (snapshot.wearer, facts),
            )
            wearer = made.fetchall()[0][0]
            self._base.execute("REPLACE INTO states VALUES (?, ?, ?)", (wearer, snapshot.seq, snapshot.state))
            self._base.execute("DELETE FROM inputs WHERE place BETWEEN ? AND ?", _span(wearer))
            if clear:
                self._base.execute("DELETE FROM answers WHERE wearer = ?", (wearer,))
        self._ids[snapshot.wearer] = wearer

    def commit(self, entries: Sequence[Entry], snapshots: Sequence[Snapshot] = ()) -> None:
        """Append a batch, then take snapshots, in one piece."""
        ids = self._ids
        with self._told(), self._transaction():
            self._base.executemany(
                "INSERT INTO inputs VALUES (?, ?)", [(_place(ids[e.wearer], e.seq), e.inputs) for e in entries]
            )
            self._base.executemany(
                "INSERT INTO answers VALUES (?, ?, ?, ?)",
                [(ids[e.wearer], e.window, e.seq, e.answers) for e in entries if e.answers is not None],
            )
            for one in snapshots:
                wearer = ids[one.wearer]
                self._base.execute("REPLACE INTO states VALUES (?, ?, ?)", (wearer, one.seq, one.state))
                self._base.execute("DELETE FROM inputs WHERE place BETWEEN ? AND ?", _span(wearer, one.seq))
                self._base.execute("DELETE FROM answers WHERE wearer = ? AND window < ?", (wearer, one.oldest))

    def load(self, wearer: str) -> Stored | None:
        """Give what resumes a wearer, inputs in order; None where there is no such wearer."""
        if wearer not in self._ids:
            return None
        key = self._ids[wearer]
        with self._told():
            facts = self._base.execute("SELECT facts FROM wearers WHERE id = ?", (key,)).fetchall()
            states = self._base.execute("SELECT seq, state FROM states WHERE wearer = ?", (key,)).fetchall()
            rows = self._base.execute(
                "SELECT place, samples FROM inputs WHERE place BETWEEN ? AND ? ORDER BY place", _span(key)
            ).fetchall()
        seq, state = states[0] if states else (0, b"")
        return Stored(facts[0][0], seq, state, [(place & _MASK, samples) for place, samples in rows])

    def answers(self, wearer: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Give the sequence number and answers of at most `limit` chunks with windows above `after`, in order."""
        with self._told():
            return self._base.execute(
                "SELECT seq, events FROM answers WHERE wearer = ? AND window > ? ORDER BY window LIMIT ?",
                (self._ids.get(wearer), after, limit),
            ).fetchall()

    def newest(self, wearers: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Give the sequence number and answers of each wearer's latest chunk with windows, where there is one."""
        query = "SELECT seq, events FROM answers WHERE wearer = ? ORDER BY window DESC LIMIT 1"
        with self._told():
            found = ((name, self._base.execute(query, (self._ids.get(name),)).fetchall()) for name in wearers)
            return {name: rows[0] for name, rows in found if rows}

    def answer(self, wearer: str, seq: int) -> bytes | None:
        """Give the answers of one chunk; None where it had none or they are no longer kept."""
        with self._told():
            rows = self._base.execute(
                "SELECT events FROM answers WHERE wearer = ? AND seq = ?", (self._ids.get(wearer), seq)
            ).fetchall()
        return rows[0][0] if rows else None

    def delete(self, wearer: str) -> None:
        """Remove every trace of a wearer, from the log too."""
        key = self._ids.pop(wearer, 0)  # 0 is nobody: a deletion that failed halfway is finished by the next
        with self._told():
            with self._transaction():
                self._base.execute("DELETE FROM inputs WHERE place BETWEEN ? AND ?", _span(key))
                for table, column in (("states", "wearer"), ("answers", "wearer"), ("wearers", "id")):
                    self._base.execute(f"DELETE FROM {table} WHERE {column} = ?", (key,))
            # Rows are overwritten as they go, but where a page was split a copy may lie in the unused part of it.
            self._base.execute("VACUUM")
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


def _place(wearer: int, seq: int) -> int:
    return wearer << _SEQ_BITS | seq


def _span(wearer: int, last: int = _MASK) -> tuple[int, int]:
    """First and last place of a wearer's samples, up to a chunk."""
    return _place(wearer, 0), _place(wearer, last)
