"""The Redis store: its owner, durability that it requires, foreign values, and losses of the server."""

from __future__ import annotations

import os
import re

import pytest
import redis

from sight.apps.serve.errors import STORE_FAILED, StoreFailed, describe
from sight.apps.serve.redis_store import RedisStore
from sight.apps.serve.store import StoredChunk
from tests.apps.serve.test_stores import fill
from tests.helpers.sessions import RedisServer


def test_redis_is_owned_by_the_service_that_opened_it_last(server):
    first = RedisStore(server.url, prefix="owner:")
    fill(first, "anna", 1)
    second = RedisStore(server.url, prefix="owner:")
    with pytest.raises(StoreFailed, match="Another service"):
        first.commit([StoredChunk("anna", 2, b"inputs 2")])
    second.commit([StoredChunk("anna", 2, b"inputs 2")])
    assert len(second.load("anna").inputs) == 2


def test_redis_keys_of_other_versions_are_refused(server):
    client = redis.Redis.from_url(server.url)
    fill(RedisStore(server.url, prefix="other:"), "anna", 1)
    RedisStore(server.url, prefix="other:").close()
    client.set("other:schema", 4)
    with pytest.raises(ValueError, match="upgrade sight"):
        RedisStore(server.url, prefix="other:")
    client.set("other:schema", 2)
    with pytest.raises(ValueError, match="version 2, this sight uses 3; use another database"):
        RedisStore(server.url, prefix="other:")


def test_redis_must_keep_an_append_only_file(server):
    client = redis.Redis.from_url(server.url)
    with pytest.raises(ValueError, match=r"appendfsync always .* got everysec"):
        RedisStore(server.url, fsync=True)
    client.config_set("appendfsync", "always")
    assert RedisStore(server.url, fsync=True).info["durable_against"] == "power loss"
    client.config_set("appendfsync", "everysec")
    client.config_set("appendonly", "no")
    try:
        with pytest.raises(ValueError, match="set appendonly yes"):
            RedisStore(server.url)
    finally:
        client.config_set("appendonly", "yes")


def test_redis_must_not_evict(server):
    client = redis.Redis.from_url(server.url)
    client.config_set("maxmemory", "1gb")
    try:
        RedisStore(server.url).close()
        client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(ValueError, match=r"evicts keys .*allkeys-lru.* set maxmemory-policy noeviction"):
            RedisStore(server.url)
    finally:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 0)


def test_foreign_values_in_redis_are_failures_of_the_store(server):
    client = redis.Redis.from_url(server.url)
    store = RedisStore(server.url, prefix="foreign:")
    fill(store, "anna", 1)
    client.hset("foreign:state:anna", "seq", "zz")
    assert store.load("anna").seq == 0  # which does not fit the state
    client.hset("foreign:wearers", b"\xff", b"{}")
    assert set(store.wearers()) == {"anna", r"\xff"}
    client.set("foreign:commits", "abc")
    with pytest.raises(StoreFailed, match="another value than a number"):
        store.commit([StoredChunk("anna", 2, b"inputs 2")])
    for key in ("commits", "schema"):
        client.set(f"foreign:{key}", "abc")
        with pytest.raises(ValueError, match="another value than a number"):
            RedisStore(server.url, prefix="foreign:")
        client.delete(f"foreign:{key}")


def test_a_missing_redis_is_reported_without_its_password():
    with pytest.raises(ValueError, match=r"Redis at 127\.0\.0\.1:1/0"):
        RedisStore("redis://user:secret@127.0.0.1:1/0", timeout_s=0.2)


def test_errors_of_redis_reach_neither_senders_nor_logs_with_their_commands(server, tmp_path):
    """Redis repeats the command that failed, with key and samples, and its client library the address."""
    client, store = redis.Redis.from_url(server.url), RedisStore(server.url, prefix="full:", timeout_s=1.0)
    fill(store, "anna", 1)
    client.config_set("maxmemory", "1")
    try:
        with pytest.raises(StoreFailed, match="not allowed") as full:
            store.commit([StoredChunk(wearer, 2, b"samples of " + wearer.encode()) for wearer in ("anna", "ben")])
    finally:
        client.config_set("maxmemory", "0")
    port = server.url.rpartition(":")[2].partition("/")[0]
    reason, text, status = describe(full.value)
    assert (reason, text, status) == ("store", STORE_FAILED, 503)
    assert not {"anna", "ben", "samples"} & set(re.findall(r"\w+", str(full.value)))
    gone = RedisServer()
    lost = RedisStore(gone.url, timeout_s=1.0)
    gone.close()
    for call in (lambda: lost.load("anna"), lambda: lost.commit([StoredChunk("anna", 3, b"")]), lost.check):
        with pytest.raises(StoreFailed) as missing:
            call()
        assert port not in describe(missing.value)[1]
        assert describe(missing.value)[1] == STORE_FAILED


def test_redis_that_lost_its_last_writes_is_noticed():
    """As after a loss of power with `appendfsync everysec`: the end of the append-only file is gone."""
    server = RedisServer(appendfsync="always")  # so that the size of the file is known
    try:
        store = RedisStore(server.url)
        fill(store, "anna", 2)
        (file,) = server.folder.rglob("*.incr.aof")
        size = file.stat().st_size
        store.commit([StoredChunk("anna", 3, b"inputs 3")])
        assert store.losses == 0
        server.kill()
        os.truncate(file, size)
        server.start()
        with pytest.raises(StoreFailed, match="lost its last 1 writes"):
            store.commit([StoredChunk("anna", 4, b"inputs 4")])
        assert store.losses == 1
        assert [seq for seq, _ in store.load("anna").inputs] == [1, 2]
        store.commit([StoredChunk("anna", 3, b"inputs 3 again")])
        assert [seq for seq, _ in store.load("anna").inputs] == [1, 2, 3]
        again = RedisStore(server.url)
        again.commit([StoredChunk("anna", 4, b"inputs 4")])
        assert again.losses == 0
    finally:
        server.close()


def test_redis_data_survive_a_kill():
    server = RedisServer(appendfsync="always")
    try:
        store = RedisStore(server.url, fsync=True)
        fill(store, "anna", 3)
        server.kill()
        with pytest.raises(StoreFailed):
            store.commit([StoredChunk("anna", 4, b"inputs 4")])
        server.start()
        store.commit([StoredChunk("anna", 4, b"inputs 4")])
        assert [seq for seq, _ in store.load("anna").inputs] == [1, 2, 3, 4]
    finally:
        server.close()
