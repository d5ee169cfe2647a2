"""Every store keeps the same promises: order, whole batches, one owner, and a deletion that leaves nothing."""

from __future__ import annotations

import shutil
import sqlite3

import numpy as np
import pytest
import redis

from sight.serve.errors import StoreFailed
from sight.serve.redis_store import RedisStore
from sight.serve.sqlite_store import SqliteStore
from sight.serve.store import Entry, Snapshot, open_store
from tests.helpers.keeping import RedisServer


@pytest.fixture(scope="module")
def server():
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "redis"])
def place(request, tmp_path):
    """Where a store lies, and the folder of its raw files."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db"), tmp_path
    server = request.getfixturevalue("server")
    redis.Redis.from_url(server.url).flushall()
    return server.url, server.folder


@pytest.fixture
def store(place):
    store = open_store(place[0])
    yield store
    store.close()


def fill(store, wearer: str, chunks: int, mark: bytes = b"") -> None:
    """A wearer with two windows in every second chunk: 1 has none, 2 has 0 and 1, 3 has none, 4 has 2 and 3."""
    store.put(b"facts" + mark, Snapshot(wearer, 0, b"state 0" + mark))
    for seq in range(1, chunks + 1):
        answers = (seq - 1, b"answers %d" % seq + mark) if seq % 2 == 0 else (-1, None)
        store.commit([Entry(wearer, seq, b"inputs %d" % seq + mark, *answers)])


def test_a_new_store_is_empty(store):
    assert store.wearers() == {}
    assert store.load("anna") is None
    assert store.answers("anna", -1, 10) == []
    assert store.answer("anna", 1) is None
    store.delete("anna")


def test_the_log_comes_back_in_order(store):
    fill(store, "anna", 12)
    fill(store, "Anna", 1)
    found = store.load("anna")
    assert (found.facts, found.seq, found.state) == (b"facts", 0, b"state 0")
    assert list(found.inputs) == [(seq, b"inputs %d" % seq) for seq in range(1, 13)]
    assert list(store.wearers()) == ["Anna", "anna"]


def test_answers_are_found_by_window_and_by_chunk(store):
    fill(store, "anna", 400)
    assert store.answers("anna", -1, 2) == [(2, b"answers 2"), (4, b"answers 4")]
    assert store.answers("anna", 0, 1) == [(2, b"answers 2")]  # window 1 lies in chunk 2, with window 0
    assert store.answers("anna", 1, 1) == [(4, b"answers 4")]
    assert store.answers("anna", 397, 9) == [(400, b"answers 400")]
    assert store.answers("anna", 399, 9) == []
    assert [store.answer("anna", seq) for seq in (2, 3, 400, 401)] == [b"answers 2", None, b"answers 400", None]
    fill(store, "ben", 1)
    fill(store, "cleo", 3)
    assert store.newest(["anna", "ben", "cleo", "nobody"]) == {"anna": (400, b"answers 400"), "cleo": (2, b"answers 2")}


def test_a_snapshot_takes_the_place_of_the_log_and_of_old_answers(store):
    fill(store, "anna", 9)
    fill(store, "ben", 9)
    entry = Entry("anna", 10, b"inputs 10", 9, b"answers 10")
    store.commit([entry, Entry("ben", 10, b"inputs 10")], [Snapshot("anna", 10, b"state 10", oldest=5)])
    found = store.load("anna")
    assert (found.seq, found.state, list(found.inputs)) == (10, b"state 10", [])
    assert [seq for seq, _ in store.answers("anna", -1, 99)] == [6, 8, 10]  # their last windows are 5, 7 and 9
    assert len(store.load("ben").inputs) == 10
    assert len(store.answers("ben", -1, 99)) == 4
    store.commit([Entry("anna", 11, b"inputs 11")])
    assert list(store.load("anna").inputs) == [(11, b"inputs 11")]


def test_put_replaces_state_and_log_and_clears_answers_when_told(store):
    fill(store, "anna", 4)
    store.put(b"others", Snapshot("anna", 4, b"moved"))
    assert store.load("anna").facts == b"others"
    assert store.load("anna").inputs == []
    assert len(store.answers("anna", -1, 9)) == 2
    store.put(b"others", Snapshot("anna", 4, b"fresh"), clear=True)
    assert store.answers("anna", -1, 9) == []


def test_a_batch_is_in_it_whole_or_not_at_all(store):
    fill(store, "anna", 2)
    fill(store, "ben", 2)
    with pytest.raises(StoreFailed, match="send the chunk again"):
        store.commit([Entry("anna", 3, b"inputs 3")], [Snapshot("ben", 2, object())])
    assert [len(store.load(name).inputs) for name in ("anna", "ben")] == [2, 2]
    store.commit([Entry("anna", 3, b"inputs 3"), Entry("ben", 3, b"inputs 3")])
    assert [len(store.load(name).inputs) for name in ("anna", "ben")] == [3, 3]


def test_deleting_leaves_no_byte_of_the_wearer(place):
    """Many wearers share the pages; names and contents of the deleted ones are looked for in the raw files."""
    store, rng = open_store(place[0]), np.random.default_rng(0)
    names = [f"person-{i:03d}" for i in range(60)]
    rng.shuffle(names)
    gone = names[::3]

    def content(name: str, kind: str) -> bytes:
        return f"<{name}:{kind}>".encode() * int(rng.integers(1, 150))

    for name in names:
        store.put(content(name, "facts"), Snapshot(name, 0, content(name, "state") * 8))
    for seq in range(1, 40):
        batch = [Entry(n, seq, content(n, "inputs"), seq, content(n, "answers")[:400]) for n in names]
        some = rng.choice(names, 4, replace=False)
        store.commit(batch, [Snapshot(str(n), seq, content(n, "state") * 8, oldest=seq - 20) for n in some])
    for name in gone:
        store.delete(name)
        assert store.load(name) is None
    files = [file for file in place[1].rglob("*") if file.is_file()]
    raw = b"".join(file.read_bytes() for file in files)
    assert raw.count(b"person-") > 1000  # the others are there, as plain as these would be
    assert [name for name in gone if name.encode() in raw] == []
    assert len(store.wearers()) == 40
    store.close()


def test_a_name_that_was_deleted_starts_anew(store):
    fill(store, "anna", 4)
    store.delete("anna")
    fill(store, "anna", 1)
    assert len(store.load("anna").inputs) == 1
    assert store.answers("anna", -1, 9) == []


# --- SQLite ----------------------------------------------------------------------------------------------------------


def test_a_file_has_one_owner(tmp_path):
    first = SqliteStore(tmp_path / "a.db")
    with pytest.raises(ValueError, match="is another service using it"):
        SqliteStore(tmp_path / "a.db", patience_s=0.05)
    first.close()
    SqliteStore(tmp_path / "a.db", patience_s=0.05).close()


def test_what_was_committed_survives_without_a_goodbye(tmp_path):
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
        assert store._base.execute("PRAGMA synchronous").fetchone()[0] == level
        assert store.facts["survives"] == ("loss of power" if fsync else "SIGKILL")
        store.close()


def test_a_full_disk_is_told_and_loses_nothing(tmp_path):
    store = SqliteStore(tmp_path / "a.db")
    fill(store, "anna", 2)
    store._base.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreFailed, match="full"):
        store.commit([Entry("anna", 3, bytes(500_000))])
    assert len(store.load("anna").inputs) == 2
    store.close()


def test_foreign_files_are_refused(tmp_path):
    (tmp_path / "text.db").write_bytes(b"not a database at all " * 100)
    with pytest.raises(ValueError, match="cannot be used as a store"):
        SqliteStore(tmp_path / "text.db")
    with pytest.raises(ValueError, match="cannot be used as a store"):
        SqliteStore(tmp_path)
    other = sqlite3.connect(tmp_path / "newer.db")
    other.execute("PRAGMA user_version = 7")
    other.close()
    with pytest.raises(ValueError, match="version 7, this sight uses 2"):
        SqliteStore(tmp_path / "newer.db")


# --- Redis -----------------------------------------------------------------------------------------------------------


def test_redis_belongs_to_who_came_last(server):
    first = RedisStore(server.url, prefix="owner:")
    fill(first, "anna", 1)
    second = RedisStore(server.url, prefix="owner:")
    with pytest.raises(StoreFailed, match="Another service has opened the store"):
        first.commit([Entry("anna", 2, b"inputs 2")])
    second.commit([Entry("anna", 2, b"inputs 2")])
    assert len(second.load("anna").inputs) == 2


def test_redis_must_keep_a_file(server):
    client = redis.Redis.from_url(server.url)
    with pytest.raises(ValueError, match=r"appendfsync always .* got everysec"):
        RedisStore(server.url, fsync=True)
    client.config_set("appendfsync", "always")
    assert RedisStore(server.url, fsync=True).facts["survives"] == "loss of power"
    client.config_set("appendfsync", "everysec")
    client.config_set("appendonly", "no")
    try:
        with pytest.raises(ValueError, match="set appendonly yes"):
            RedisStore(server.url)
    finally:
        client.config_set("appendonly", "yes")


def test_no_redis_is_one_sentence():
    with pytest.raises(ValueError, match=r"There is no Redis to use at 127\.0\.0\.1:1/0"):
        RedisStore("redis://somebody:secret@127.0.0.1:1/0", patience_s=0.2)


def test_redis_comes_back_after_a_kill():
    server = RedisServer(appendfsync="always")
    try:
        store = RedisStore(server.url, fsync=True)
        fill(store, "anna", 3)
        server.kill()
        with pytest.raises(StoreFailed, match="look at the server"):
            store.commit([Entry("anna", 4, b"inputs 4")])
        server.start()
        store.commit([Entry("anna", 4, b"inputs 4")])
        assert [seq for seq, _ in store.load("anna").inputs] == [1, 2, 3, 4]
    finally:
        server.close()
