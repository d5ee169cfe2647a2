"""Store in Redis, for services without a durable disk.

Keys, all under one prefix: ``schema`` (version of the keys), ``owner`` (the service that opened it last), ``commits``
(number of transactions so far), ``wearers`` (hash, name to configuration), and for each wearer ``state:NAME`` (hash:
seq, state), ``inputs:NAME`` (list, oldest first) and ``events:NAME`` (sorted set by the number of the last window).
Entries of the latter two start with eight bytes, the number of their chunk.

Redis must keep an append-only file. An acknowledged write is then with its operating system and survives a SIGKILL of
this process or the loss of its machine. With ``appendfsync everysec`` a second may be lost when the machine of Redis
itself fails; with ``always``, which `fsync` requires, nothing is lost. A loss is noticed at the next write, because
the number of transactions is lower than before.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from uuid import uuid4

from sight.apps.serve.errors import StoreFailed
from sight.apps.serve.store import Snapshot, StoredChunk, StoredWearer, store_errors

#: Raised by one whenever an older `sight` could not use the keys of a newer one.
SCHEMA = 3
_SEQ_BYTES = 8


class RedisStore:
    """Store under one prefix of a Redis database that one process uses at a time.

    `fsync` requires ``appendfsync always``; `timeout_s` is how long to wait for a reply, for a server that is still
    loading, and for a rewrite of the append-only file.

    The service that opened the store last owns it. An earlier one is refused at its next write, so that no two
    services serve the same wearers. Deleting or resetting a wearer rewrites the append-only file.
    """

    name = "redis"
    losses = 0

    def __init__(self, url: str, *, fsync: bool = False, prefix: str = "sight:", timeout_s: float = 10.0) -> None:
        import redis

        self.fsync, self.timeout_s = fsync, timeout_s
        self._prefix, self._owner = prefix.encode(), uuid4().hex.encode()
        self._failures = (redis.RedisError, OSError)
        self._redis: Any = redis.Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
        self._address = url.rpartition("@")[2]  # without a password
        try:
            self._wait_loaded(redis.BusyLoadingError)
            self._policy = self._check_durability()
            self._check_schema()
            self._redis.set(self._key("owner"), self._owner)
            self._commits = self._number(self._redis.get(self._key("commits")))
        except (*self._failures, StoreFailed) as error:
            raise ValueError(
                f"Cannot use Redis at {self._address} ({error}); start the server, or check the address."
            ) from None

    def _wait_loaded(self, loading: type[Exception]) -> None:
        end = time.monotonic() + self.timeout_s
        while True:
            try:
                self._redis.ping()
                return
            except loading:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def _check_schema(self) -> None:
        written = self._number(self._redis.get(self._key("schema"))) or SCHEMA
        if written != SCHEMA:
            remedy = "upgrade sight" if written > SCHEMA else "use another database"
            raise ValueError(
                f"The keys in Redis at {self._address} have version {written}, this sight uses {SCHEMA}; {remedy}."
            )
        self._redis.set(self._key("schema"), SCHEMA)

    def _check_durability(self) -> str:
        """Return the fsync policy of the server; raise ValueError if it would lose acknowledged data."""
        memory = self._redis.info("memory")
        if int(memory.get("maxmemory", 0)) and str(memory.get("maxmemory_policy", "")).startswith("allkeys"):
            raise ValueError(
                f"Redis at {self._address} evicts keys when its memory is full ({memory['maxmemory_policy']}), so it "
                f"would lose acknowledged samples; set maxmemory-policy noeviction."
            )
        if not int(self._redis.info("persistence").get("aof_enabled", 0)):
            raise ValueError(
                f"Redis at {self._address} keeps no append-only file, so it would lose acknowledged samples when it "
                f"stops; set appendonly yes."
            )
        try:
            policy = str(self._redis.config_get("appendfsync").get("appendfsync", "unknown"))
        except self._failures:  # managed servers forbid CONFIG
            policy = "unknown"
        if self.fsync and policy != "always":
            raise ValueError(
                f"Expected appendfsync always at {self._address} to survive loss of power, got {policy}; set it, or "
                f"run without fsync."
            )
        return policy

    @property
    def info(self) -> dict[str, str]:
        durable_against = "power loss" if self._policy == "always" else "process kill"
        return {"store": self.name, "durable_against": durable_against, "appendfsync": self._policy}

    def wearers(self) -> dict[str, bytes]:
        with self._errors():
            configs = self._redis.hgetall(self._key("wearers"))
        return {name.decode("utf-8", "backslashreplace"): config for name, config in sorted(configs.items())}

    def put(self, config: bytes, snapshot: Snapshot, *, clear: bool = False) -> None:
        with self._transaction() as pipe:
            pipe.hset(self._key("wearers"), snapshot.wearer, config)
            self._save(pipe, snapshot)
            if clear:
                pipe.delete(self._key("events", snapshot.wearer))
        if clear:
            with self._errors():
                self._rewrite()

    def commit(self, chunks: Sequence[StoredChunk], snapshots: Sequence[Snapshot] = ()) -> None:
        with self._transaction() as pipe:
            for chunk in chunks:
                number = chunk.seq.to_bytes(_SEQ_BYTES, "big")
                pipe.rpush(self._key("inputs", chunk.wearer), number + chunk.inputs)
                if chunk.events is not None:
                    pipe.zadd(self._key("events", chunk.wearer), {number + chunk.events: chunk.last_window})
            for snapshot in snapshots:
                self._save(pipe, snapshot)
                pipe.zremrangebyscore(self._key("events", snapshot.wearer), "-inf", f"({snapshot.oldest_window}")

    def load(self, wearer: str) -> StoredWearer | None:
        with self._errors():
            pipe = self._redis.pipeline(transaction=True)
            pipe.hget(self._key("wearers"), wearer)
            pipe.hmget(self._key("state", wearer), "seq", "state")
            pipe.lrange(self._key("inputs", wearer), 0, -1)
            config, (seq, state), rows = pipe.execute()
        if config is None:
            return None
        number = int(seq) if seq and seq.isdigit() else 0  # a damaged one does not fit the state
        return StoredWearer(config, number, state or b"", [_numbered(row) for row in rows])

    def events(self, wearer: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        with self._errors():
            rows = self._redis.zrangebyscore(self._key("events", wearer), f"({after}", "+inf", start=0, num=limit)
        return [_numbered(row) for row in rows]

    def latest_events(self, wearers: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        with self._errors():
            pipe = self._redis.pipeline(transaction=False)
            for wearer in wearers:
                pipe.zrange(self._key("events", wearer), -1, -1)
            return {name: _numbered(rows[0]) for name, rows in zip(wearers, pipe.execute(), strict=True) if rows}

    def chunk_events(self, wearer: str, seq: int) -> bytes | None:
        key = self._key("events", wearer)

        def row(rank: int) -> tuple[int, bytes]:
            return _numbered(self._redis.zrange(key, rank, rank)[0])

        with self._errors():
            count = self._redis.zcard(key)
            rank = bisect_left(range(count), seq, key=lambda at: row(at)[0])  # windows and chunks have the same order
            number, events = row(rank) if rank < count else (0, b"")
        return events if number == seq else None

    def delete(self, wearer: str) -> None:
        with self._transaction() as pipe:
            pipe.hdel(self._key("wearers"), wearer)
            pipe.delete(*(self._key(kind, wearer) for kind in ("state", "inputs", "events")))
        with self._errors():
            self._rewrite()

    def check(self) -> None:
        with self._transaction() as pipe:
            pipe.get(self._key("owner"))
        with self._errors():
            status = self._redis.info("persistence").get("aof_last_write_status", "ok")
        if status != "ok":
            raise StoreFailed(f"Redis at {self._address} cannot write its append-only file; check its disk")

    def space(self) -> dict[str, int]:
        with self._errors():
            memory = self._redis.info("memory")
        used, most = int(memory["used_memory"]), int(memory.get("maxmemory", 0))
        return {"used": used} | ({"free": max(most - used, 0)} if most else {})

    def close(self) -> None:
        self._redis.close()

    def _rewrite(self) -> None:
        end = time.monotonic() + self.timeout_s
        started = False
        while time.monotonic() < end:
            state = self._redis.info("persistence")
            busy = state["aof_rewrite_in_progress"] or state.get("aof_rewrite_scheduled", 0)
            if not busy and started:
                return
            if not busy:
                self._redis.bgrewriteaof()
                started = True
            time.sleep(0.01)
        raise StoreFailed(
            f"Redis at {self._address} is still rewriting its file after {self.timeout_s:g} s",
            "The data are deleted, but the store is still rewriting its file; see the log of the store.",
        )

    def _save(self, pipe: Any, snapshot: Snapshot) -> None:
        """Write a state and clear the log, of which a snapshot always includes every chunk."""
        pipe.hset(self._key("state", snapshot.wearer), mapping={"seq": snapshot.seq, "state": snapshot.state})
        pipe.delete(self._key("inputs", snapshot.wearer))

    def _key(self, kind: str, wearer: str | None = None) -> bytes:
        return self._prefix + kind.encode() + (b"" if wearer is None else b":" + wearer.encode())

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        keys = self._key("owner"), self._key("commits")
        with self._errors(), self._redis.pipeline(transaction=True) as pipe:
            pipe.watch(*keys)
            owner, commits = pipe.mget(*keys)
            if owner != self._owner:
                raise StoreFailed(f"Another service has opened the store at {self._address}; stop one of the two")
            before, self._commits = self._commits, self._number(commits)
            if self._commits < before:
                self.losses += 1
                raise StoreFailed(f"Redis at {self._address} has lost its last {before - self._commits} writes")
            pipe.multi()
            yield pipe
            pipe.incr(keys[1])
            pipe.execute()
            self._commits += 1

    def _number(self, text: Any) -> int:
        if text is not None and not text.isdigit():
            raise StoreFailed(f"Redis at {self._address} has a key of sight with another value than a number")
        return int(text or 0)

    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(f"at {self._address}", *self._failures)


def _numbered(row: bytes) -> tuple[int, bytes]:
    return int.from_bytes(row[:_SEQ_BYTES], "big"), row[_SEQ_BYTES:]
