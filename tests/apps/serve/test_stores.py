"""The contract of every store: order, complete batches, one owner, and deletion without remains."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import redis

from sight import registry
from sight.apps.serve import web_server
from sight.apps.serve.errors import StoreFailed
from sight.apps.serve.sqlite_store import SqliteStore
from sight.apps.serve.store import Snapshot, StoredChunk, open_store
from tests.conftest import ROOT
from tests.helpers.services import serve_command


@pytest.fixture(params=sorted({registry.get("stores", name).name for name in registry.names("stores")}))
def location(request, tmp_path):
    """Address of each registered store, and the folder of its files."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'store.db'}", tmp_path
    if request.param != "redis":
        pytest.fail(f"there is no address to test the store {request.param}; add one here")
    server = request.getfixturevalue("server")
    redis.Redis.from_url(server.url).flushall()
    return server.url, server.folder


@pytest.fixture
def store(location):
    store = open_store(location[0])
    yield store
    store.close()


def fill(store, wearer: str, chunks: int) -> None:
    """Store a wearer with two windows in every second chunk: 1 has none, 2 has 0 and 1, 3 has none, 4 has 2 and 3."""
    store.put(b"config", Snapshot(wearer, 0, b"state 0"))
    for seq in range(1, chunks + 1):
        events = (seq - 1, b"events %d" % seq) if seq % 2 == 0 else (-1, None)
        store.commit([StoredChunk(wearer, seq, b"inputs %d" % seq, *events)])


def test_the_space_of_a_store_is_known(store):
    before = store.space()["used"]
    store.put(b"config", Snapshot("anna", 0, bytes(300_000)))
    assert store.space()["used"] > before + 200_000 > 200_000
    assert all(size >= 0 for size in store.space().values())


def test_a_new_store_is_empty(store):
    assert store.wearers() == {}
    assert store.load("anna") is None
    assert store.events("anna", -1, 10) == []
    assert store.chunk_events("anna", 1) is None
    store.delete("anna")


def test_the_log_is_returned_in_order(store):
    fill(store, "anna", 12)
    fill(store, "Anna", 1)
    stored = store.load("anna")
    assert (stored.config, stored.seq, stored.state) == (b"config", 0, b"state 0")
    assert list(stored.inputs) == [(seq, b"inputs %d" % seq) for seq in range(1, 13)]
    assert list(store.wearers()) == ["Anna", "anna"]


def test_events_are_found_by_window_and_by_chunk(store):
    fill(store, "anna", 100)
    assert store.events("anna", -1, 2) == [(2, b"events 2"), (4, b"events 4")]
    assert store.events("anna", 0, 1) == [(2, b"events 2")]  # window 1 belongs to chunk 2, like window 0
    assert store.events("anna", 1, 1) == [(4, b"events 4")]
    assert store.events("anna", 97, 9) == [(100, b"events 100")]
    assert store.events("anna", 99, 9) == []
    assert [store.chunk_events("anna", seq) for seq in (2, 3, 100, 101)] == [b"events 2", None, b"events 100", None]
    fill(store, "ben", 1)
    fill(store, "cleo", 3)
    latest = store.latest_events(["anna", "ben", "cleo", "absent"])
    assert latest == {"anna": (100, b"events 100"), "cleo": (2, b"events 2")}


def test_a_snapshot_replaces_the_log_and_removes_old_events(store):
    fill(store, "anna", 9)
    fill(store, "ben", 9)
    chunk = StoredChunk("anna", 10, b"inputs 10", 9, b"events 10")
    snapshot = Snapshot("anna", 10, b"state 10", oldest_window=5)
    store.commit([chunk, StoredChunk("ben", 10, b"inputs 10")], [snapshot])
    stored = store.load("anna")
    assert (stored.seq, stored.state, list(stored.inputs)) == (10, b"state 10", [])
    assert [seq for seq, _ in store.events("anna", -1, 99)] == [6, 8, 10]  # their last windows are 5, 7 and 9
    assert len(store.load("ben").inputs) == 10
    assert len(store.events("ben", -1, 99)) == 4
    store.commit([StoredChunk("anna", 11, b"inputs 11")])
    assert list(store.load("anna").inputs) == [(11, b"inputs 11")]


def test_put_replaces_state_and_log_and_optionally_events(store):
    fill(store, "anna", 4)
    store.put(b"others", Snapshot("anna", 4, b"moved"))
    assert store.load("anna").config == b"others"
    assert store.load("anna").inputs == []
    assert len(store.events("anna", -1, 9)) == 2
    store.put(b"others", Snapshot("anna", 4, b"fresh"), clear=True)
    assert store.events("anna", -1, 9) == []


def test_a_batch_is_stored_completely_or_not_at_all(store):
    fill(store, "anna", 2)
    fill(store, "ben", 2)
    with pytest.raises(StoreFailed):
        store.commit([StoredChunk("anna", 3, b"inputs 3")], [Snapshot("ben", 2, object())])
    assert [len(store.load(name).inputs) for name in ("anna", "ben")] == [2, 2]
    store.commit([StoredChunk("anna", 3, b"inputs 3"), StoredChunk("ben", 3, b"inputs 3")])
    assert [len(store.load(name).inputs) for name in ("anna", "ben")] == [3, 3]


def test_deleting_removes_every_byte_of_the_wearer(location):
    """Many wearers share the pages; names and contents of the deleted ones are searched in the raw files."""
    store, rng = open_store(location[0]), np.random.default_rng(0)
    names = [f"person-{i:03d}" for i in range(60)]
    rng.shuffle(names)
    deleted = names[::3]

    def content(name: str, kind: str) -> bytes:
        return f"<{name}:{kind}>".encode() * int(rng.integers(1, 150))

    for name in names:
        store.put(content(name, "config"), Snapshot(name, 0, content(name, "state") * 8))
    for seq in range(1, 40):
        batch = [StoredChunk(n, seq, content(n, "inputs"), seq, content(n, "events")[:400]) for n in names]
        chosen = rng.choice(names, 4, replace=False)
        store.commit(batch, [Snapshot(str(n), seq, content(n, "state") * 8, oldest_window=seq - 20) for n in chosen])
    for name in deleted:
        store.delete(name)
        assert store.load(name) is None
    raw = b"".join(file.read_bytes() for file in location[1].rglob("*") if file.is_file())
    assert raw.count(b"person-") > 1000  # the other wearers are found, as the deleted ones would be
    assert [name for name in deleted if name.encode() in raw] == []
    assert len(store.wearers()) == 40
    store.close()


def test_resetting_removes_every_sample_of_the_wearer(location):
    store = open_store(location[0])
    fill(store, "anna", 20)
    store.commit([StoredChunk("anna", 21, b"<anna:inputs>" * 99, 21, b"<anna:events>")])
    store.put(b"config", Snapshot("anna", 21, b"new"), clear=True)
    raw = b"".join(file.read_bytes() for file in location[1].rglob("*") if file.is_file())
    assert b"new" in raw
    assert b"<anna:" not in raw
    store.close()


def test_a_deleted_name_can_be_used_again(store):
    fill(store, "anna", 4)
    store.delete("anna")
    fill(store, "anna", 1)
    assert len(store.load("anna").inputs) == 1
    assert store.events("anna", -1, 9) == []


def test_a_store_has_one_owner(location):
    first = open_store(location[0])
    fill(first, "anna", 1)
    try:
        second = open_store(location[0])
    except ValueError:
        first.close()
        return
    with pytest.raises(StoreFailed):
        first.commit([StoredChunk("anna", 2, b"inputs 2")])
    with pytest.raises(StoreFailed):
        first.check()
    second.check()
    assert len(second.load("anna").inputs) == 1
    second.close()


def test_what_was_written_survives_a_kill_of_the_process(location):
    program = (
        "import sys, time\n"
        "from sight.apps.serve.store import open_store\n"
        "from tests.apps.serve.test_stores import fill\n"
        "store = open_store(sys.argv[1])\n"
        "fill(store, 'anna', 7)\n"
        "print('filled', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, location[0]], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout.readline() == b"filled\n"
    process.kill()
    process.communicate()
    store = open_store(location[0])
    assert [seq for seq, _ in store.load("anna").inputs] == [1, 2, 3, 4, 5, 6, 7]
    assert store.chunk_events("anna", 6) == b"events 6"
    store.close()


# --- registry --------------------------------------------------------------------------------------------------------


class ToyStore(SqliteStore):
    """A store of another package, in the folder of its address."""

    name = "toy"

    def __init__(self, address: str, *, fsync: bool = False) -> None:
        super().__init__(f"{address.removeprefix('toy://')}/toy.db", fsync=fsync)


def test_a_store_of_another_package_is_opened_by_its_scheme(tmp_path, monkeypatch):
    entry = EntryPoint("toy", "tests.apps.serve.test_stores:ToyStore", "sight.stores")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == "sight.stores" else [])
    monkeypatch.setattr(registry, "_installed", registry._installed.__wrapped__)
    served = []
    monkeypatch.setattr(web_server, "run", lambda server, listener: served.append(server) or listener.close())
    result = serve_command("--demo", "--data", tmp_path / "data", "--port", "0", "--store", f"toy://{tmp_path}")
    assert result.exit_code == 0, result.output
    store = served[0]._service.manager.store
    assert store.info["store"] == "toy"
    assert (tmp_path / "toy.db").exists()
    store.close()


def test_a_path_is_a_sqlite_file_and_an_unknown_scheme_is_refused(tmp_path):
    store = open_store(str(tmp_path / "a.db"))
    assert (store.info["store"], store.path) == ("sqlite", tmp_path / "a.db")
    store.close()
    with pytest.raises(ValueError, match="no store called 'mysql'; choose from sqlite, redis, rediss, unix"):
        open_store("mysql://localhost")


# --- SQLite ----------------------------------------------------------------------------------------------------------


def test_a_file_is_free_again_when_its_owner_closes_it(tmp_path):
    first = SqliteStore(tmp_path / "a.db")
    with pytest.raises(ValueError, match="another service"):
        SqliteStore(tmp_path / "a.db", timeout_s=0.05)
    first.close()
    SqliteStore(tmp_path / "a.db", timeout_s=0.05).close()


def test_commits_survive_a_kill(tmp_path):
    """A copy of the files at any moment is what a SIGKILL leaves."""
    store = SqliteStore(tmp_path / "a.db")
    fill(store, "anna", 7)
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in tmp_path.glob("a.db*"):
        shutil.copy(file, killed)
    again = SqliteStore(killed / "a.db")
    assert len(again.load("anna").inputs) == 7
    again.close()
    store.close()


def test_fsync_waits_for_the_disk(tmp_path):
    for fsync, level in ((False, 1), (True, 2)):
        store = open_store(str(tmp_path / f"{fsync}.db"), fsync=fsync)
        assert store._db.execute("PRAGMA synchronous").fetchone()[0] == level
        assert store.info["durable_against"] == ("power loss" if fsync else "process kill")
        store.close()


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path):
    store = SqliteStore(tmp_path / "a.db")
    fill(store, "anna", 2)
    store._db.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreFailed, match="full"):
        store.commit([StoredChunk("anna", 3, bytes(500_000))])
    assert len(store.load("anna").inputs) == 2
    store.close()


def test_foreign_files_are_refused(tmp_path):
    (tmp_path / "text.db").write_bytes(b"not a database at all " * 100)
    for path in (tmp_path / "text.db", tmp_path):
        with pytest.raises(ValueError, match="cannot be used as a store"):
            SqliteStore(path)
    other = sqlite3.connect(tmp_path / "newer.db")
    other.execute("PRAGMA user_version = 7")
    other.close()
    with pytest.raises(ValueError, match="version 7, this sight uses 3; upgrade sight"):
        SqliteStore(tmp_path / "newer.db")
    other = sqlite3.connect(tmp_path / "newer.db")
    assert other.execute("PRAGMA user_version").fetchone()[0] == 7  # left as it is
    other.execute("PRAGMA user_version = 2")
    other.close()
    with pytest.raises(ValueError, match="version 2, this sight uses 3; use another file"):
        SqliteStore(tmp_path / "newer.db")
