"""Migration of a SQLite store that an older version of `sight` wrote; a copy of the file is kept.

Version 2 (sight 0.1) named tables, columns and sealed records differently. The names of a method's state are not
changed here: each method declares its older names, which apply wherever a state is restored.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sight._util import tensorfile
from sight._util.atomic import staged_file
from sight.apps.serve import locks
from sight.apps.serve.errors import Damaged
from sight.apps.serve.serialisation import STATE_KEY, seal, unseal


def migrate(db: sqlite3.Connection, path: Path, schema: int) -> None:
    """Bring the tables of a database to version `schema`; nothing is done for a new or current one.

    Raises
    ------
    sqlite3.DatabaseError
        If the tables have a version that cannot be read.
    """
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version in (0, schema):
        return
    if version > schema:
        raise sqlite3.DatabaseError(f"its tables have version {version}, this sight uses {schema}; upgrade sight")
    if version != 2:
        raise sqlite3.DatabaseError(f"its tables have version {version}, which no release of sight wrote")
    copy(db, backup_path(path, version))
    db.execute("BEGIN IMMEDIATE")
    try:
        _from_2(db)
        db.execute("PRAGMA user_version = 3")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def backup_path(path: Path, version: int) -> Path:
    """Return where the copy of a database is kept before it is migrated."""
    return path.with_name(f"{path.name}.v{version}.bak")


def copy(db: sqlite3.Connection, path: Path) -> None:
    """Write a consistent copy of an open database to a file that only its owner can read."""
    with staged_file(path) as draft:
        locks.create_private(draft)
        target = sqlite3.connect(draft)
        try:
            db.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        finally:
            target.close()


def _from_2(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE wearers RENAME COLUMN facts TO config")
    for key, wearer, config in db.execute("SELECT id, name, config FROM wearers").fetchall():
        with suppress(Damaged):  # a damaged record stays as it is, and is reported when the wearer is used
            values = _renamed(json.loads(unseal(config, wearer, "facts")))
            sealed = seal(json.dumps(values, allow_nan=False).encode(), wearer, "config")
            db.execute("UPDATE wearers SET config = ? WHERE id = ?", (sealed, key))
        db.execute(f"ALTER TABLE state_{key} RENAME COLUMN one TO id")
        for seq, state in db.execute(f"SELECT seq, state FROM state_{key}").fetchall():
            with suppress(Damaged):
                header, arrays = tensorfile.unpack(unseal(state, wearer, "state", seq), STATE_KEY)
                sealed = seal(tensorfile.pack(arrays, STATE_KEY, _renamed(header)), wearer, "state", seq)
                db.execute(f"UPDATE state_{key} SET state = ?", (sealed,))
        db.execute(f"DROP INDEX answers_{key}_by_seq")
        db.execute(f"ALTER TABLE answers_{key} RENAME TO events_{key}")
        db.execute(f"CREATE INDEX events_{key}_by_seq ON events_{key} (seq)")
        rows = db.execute(f"SELECT window, seq, events FROM events_{key}").fetchall()
        for window, seq, events in rows:
            with suppress(Damaged):
                sealed = seal(unseal(events, wearer, "answers", seq), wearer, "events", seq)
                db.execute(f"UPDATE events_{key} SET events = ? WHERE window = ?", (sealed, window))


def _renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration or the header of a state with the present names of version 3."""
    present = {"params" if name == "settings" else name: value for name, value in values.items()}
    if present["method"] == "oatta" and present["params"].get("carry") == "answer":
        present["params"] |= {"carry": "output"}
    if present["method"] == "keel":  # parameters that 0.1 did not have, at values without effect
        present["params"] |= {"penalty": 99.0, "pooled": 1.0}
    return present
