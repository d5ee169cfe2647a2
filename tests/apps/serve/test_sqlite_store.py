"""The SQLite store: what stays in its files, who can read them, and what it does if files or space are gone."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from sight.apps.serve import sqlite_file, sqlite_store
from sight.apps.serve.errors import StoreFailed
from sight.apps.serve.sqlite_store import SqliteStore
from sight.apps.serve.store import Snapshot, StoredChunk

SAMPLES = np.random.default_rng(5).bytes(3000)


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "data" / "store.db")
    for wearer in ("anna", "ben"):
        store.put(b"config", Snapshot(wearer, 0, b"state"))
    yield store
    store.close()


def fill(store, wearer: str, chunks: int, content: bytes = SAMPLES) -> None:
    for seq in range(1, chunks + 1):
        store.commit([StoredChunk(wearer, seq, content, seq, content[:500])])


def raw(folder) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


@pytest.mark.parametrize("wearer", ["anna", "ben"])
def test_a_kill_during_a_deletion_leaves_no_samples_after_the_next_start(store, tmp_path, wearer):
    """The files are copied after the deletion is committed and before the log is emptied, as a SIGKILL leaves them."""
    fill(store, wearer, 20)
    killed = tmp_path / "killed"

    def kill(statement: str) -> None:
        if "wal_checkpoint" in statement and not killed.exists():
            shutil.copytree(store.path.parent, killed)

    store._db.set_trace_callback(kill)
    store.delete(wearer)
    assert SAMPLES[:40] in raw(killed)
    again = SqliteStore(killed / "store.db")
    assert again.load(wearer) is None
    assert SAMPLES[:40] not in raw(killed)
    assert SAMPLES[-40:] not in raw(killed)
    again.close()


def test_a_deletion_that_was_interrupted_is_completed_at_the_next_start(store):
    fill(store, "ben", 3)
    store._db.execute("DELETE FROM wearers WHERE name = 'ben'")
    store.close()
    store.__init__(store.path)
    assert list(store.wearers()) == ["anna"]
    assert SAMPLES[:40] not in raw(store.path.parent)
    store.put(b"config", Snapshot("cleo", 0, b"state"))
    assert store.load("cleo").inputs == []


def test_a_reset_leaves_no_samples_in_the_files(store):
    rng = np.random.default_rng(1)
    for seq in range(1, 200):  # rows of many sizes, so that pages are split
        content = SAMPLES[:40] * int(rng.integers(1, 40))
        store.commit([StoredChunk("anna", seq, content, seq, content[:200])])
    store.put(b"config", Snapshot("anna", 199, b"new"), clear=True)
    assert SAMPLES[:40] not in raw(store.path.parent)
    assert store.load("anna").seq == 199


def test_the_log_is_emptied_regularly(store, monkeypatch):
    log = store.path.with_name("store.db-wal")
    fill(store, "anna", 3)
    assert log.stat().st_size > 0
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_S", 0.0)
    store.commit([StoredChunk("anna", 4, SAMPLES)])
    assert log.stat().st_size == 0
    assert len(store.load("anna").inputs) == 4


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_only_the_owner_can_read_the_files(store, monkeypatch):
    def modes():
        return {file.stat().st_mode & 0o777 for file in store.path.parent.iterdir()}

    fill(store, "anna", 1)
    assert store.path.parent.stat().st_mode & 0o777 == 0o700
    assert modes() == {0o600}
    store.close()
    store.path.chmod(0o644)  # as older versions created it
    store.__init__(store.path)
    fill(store, "ben", 1)
    assert modes() == {0o600}


@pytest.mark.parametrize("file", ["store.db", "store.db-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(store, tmp_path, file, replaced):
    fill(store, "anna", 1)
    path = store.path.with_name(file)
    shutil.copy(path, tmp_path / "copy")
    if replaced:
        os.replace(tmp_path / "copy", path)
    else:
        path.unlink()
    with pytest.raises(StoreFailed, match="removed or replaced"):
        store.commit([StoredChunk("anna", 2, SAMPLES)])
    with pytest.raises(StoreFailed, match="removed or replaced"):
        store.check()


def test_rows_are_divided_by_their_bytes():
    rows = [(1, 5), (2, 5), (3, 20), (7, 1)]
    assert list(sqlite_store._ranges(rows, 10)) == [(1, 2), (3, 3), (7, 7)]


def test_a_log_that_others_could_read_becomes_private(tmp_path):
    SqliteStore(tmp_path / "store.db").close()
    log = tmp_path / "store.db-wal"
    log.write_bytes(b"left by a kill")
    log.chmod(0o644)
    store = SqliteStore(tmp_path / "store.db")
    assert log.stat().st_mode & 0o777 == 0o600
    store.close()


def test_the_reserve_is_written_where_space_cannot_be_allocated(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setattr(sqlite_file, "RESERVE_BYTES", 1 << 20)
    SqliteStore(tmp_path / "store.db").close()
    assert (tmp_path / "store.db.reserve").stat().st_size == 1 << 20


def test_a_deletion_that_finds_the_disk_full_uses_the_reserve(tmp_path, monkeypatch):
    """Without a small file system: the first deletion fails as SQLite does on a full disk."""
    other = bytes(reversed(SAMPLES))
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    monkeypatch.setattr(sqlite_store, "STEP_BYTES", 7000)
    for reserve_bytes in (0, 1 << 20):
        monkeypatch.setattr(sqlite_file, "RESERVE_BYTES", reserve_bytes)
        store = SqliteStore(tmp_path / "data" / "store.db")
        reserve, drop, failures = store.path.with_name("store.db.reserve"), store._drop_orphans, [full]
        assert reserve.exists() == bool(reserve_bytes)
        for wearer in ("anna", "ben"):
            store.put(b"config", Snapshot(wearer, 0, b"state"), clear=True)
        fill(store, "anna", 5, other)
        fill(store, "ben", 5)

        def fail_once(*wearer, drop=drop, failures=failures):
            if failures:
                raise failures.pop()
            drop(*wearer)

        store._drop_orphans = fail_once
        if reserve_bytes:
            store.delete("ben")
            assert SAMPLES[:40] not in raw(store.path.parent)
        else:
            with pytest.raises(StoreFailed):
                store.delete("ben")
            assert len(store.load("ben").inputs) == 5
        assert not reserve.exists()
        store.close()
    store = SqliteStore(tmp_path / "data" / "store.db")
    assert list(store.wearers()) == ["anna"]
    assert list(store.load("anna").inputs) == [(seq, other) for seq in range(1, 6)]
    store.close()


FULL_DISK = """
    import os, sys
    from pathlib import Path
    from sight.apps.serve.errors import StoreFailed
    from sight.apps.serve.sqlite_store import SqliteStore
    from sight.apps.serve.store import Snapshot, StoredChunk

    folder = Path(sys.argv[1])
    store = SqliteStore(folder / "store.db")
    reserve = folder / "store.db.reserve"
    assert reserve.stat().st_blocks * 512 >= 24 << 20
    for wearer in ("anna", "ben"):
        store.put(b"config", Snapshot(wearer, 0, b"state"))
    store.check()
    stored = 0
    try:
        while True:
            content = b"<%d>" % stored * 20_000
            store.commit([StoredChunk(wearer, stored + 1, content) for wearer in ("anna", "ben")])
            stored += 1
    except StoreFailed:
        pass
    assert stored > 5
    try:
        store.check()
        raise AssertionError("a full disk is not reported")
    except StoreFailed:
        pass
    store.close()
    store = SqliteStore(folder / "store.db")  # opens on a full disk, too
    store.delete("ben")
    assert not reserve.exists()
    assert store.load("ben") is None
    assert list(store.wearers()) == ["anna"]
    assert [seq for seq, _ in store.load("anna").inputs] == list(range(1, stored + 1))
    store.commit([StoredChunk("anna", stored + 1, b"x" * 100_000)])
    os.truncate(folder / "other", 0)
    store.check()
    assert reserve.stat().st_size == 24 << 20
    print("done")
"""


#: Others fill the disk while the store is closed, and again after it was opened, several times.
RESTART_ON_A_FULL_DISK = """
    import sys
    from pathlib import Path
    from sight.apps.serve.sqlite_store import SqliteStore
    from sight.apps.serve.store import Snapshot, StoredChunk

    def fill_disk():
        try:
            with (folder / "filler").open("ab", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 12))
        except OSError:
            pass

    folder = Path(sys.argv[1])
    store = SqliteStore(folder / "store.db")
    store.put(b"config", Snapshot("anna", 0, b"state"))
    for seq in range(1, 100):
        store.commit([StoredChunk("anna", seq, b"samples" * 20_000)])
    for _ in range(15):
        store.close()
        fill_disk()
        store = SqliteStore(folder / "store.db")
        fill_disk()
    assert (folder / "store.db.reserve").stat().st_size > 16 << 20
    store.delete("anna")
    assert store.load("anna") is None
    print("done")
"""


@pytest.mark.parametrize("program", [FULL_DISK, RESTART_ON_A_FULL_DISK], ids=["filled", "restarted"])
def test_a_full_disk_is_reported_and_permits_deletion(tmp_path, program):
    """On a small file system that only the child process sees."""
    script = tmp_path / "full_disk.py"
    script.write_text(textwrap.dedent(program))
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=80m none {disk} && head -c 8388608 /dev/zero > {disk}/other"
    command = ["unshare", "-rm", "sh", "-c", f"{mount} && exec {sys.executable} {script} {disk}"]
    if shutil.which("unshare") is None or subprocess.run([*command[:2], "true"], check=False).returncode:
        pytest.skip("no permission to mount a small file system")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n", done.stdout + done.stderr
