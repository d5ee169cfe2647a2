"""A store in Redis, for services whose disk does not outlive them.

Keys, all under one prefix: ``wearers`` (hash, name to facts), and for each wearer ``state:NAME`` (hash: seq, state),
``inputs:NAME`` (list, oldest first) and ``answers:NAME`` (sorted set by the number of the last window). Entries of the
latter two begin with eight bytes, the number of their chunk.

Redis must keep an append-only file. What a reply acknowledges is then with its operating system, and survives a
SIGKILL of this process or of the machine it runs on. ``appendfsync everysec`` may lose a second with Redis itself;
``always`` loses nothing, and is what `fsync` asks for.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from sight.serve.errors import StoreFailed
from sight.serve.store import Entry, Snapshot, Stored

_NUMBER = 8


class RedisStore:
    """Keeps everything under one prefix of a Redis database that belongs to one process at a time.

    Parameters
    ----------
    url
        Such as redis://localhost:6379/0.
    fsync
        Whether to insist on ``appendfsync always``.
    prefix
        What every key begins with.
    patience_s
        How long to wait for a reply, for a server that is still loading, and for the file to be rewritten.

    Notes
    -----
    The service that opened the store last owns it; one that was replaced is refused at its next write, so that no two
    answer for the same wearers. Deleting a wearer also has the append-only file rewritten without it.
    """

    def __init__(self, url: str, *, fsync: bool = False, prefix: str = "sight:", patience_s: float = 10.0) -> None:
        import redis

        self.fsync, self.patience_s = fsync, patience_s
        self._prefix, self._owner = prefix.encode(), uuid4().hex.encode()
        self._failures = (redis.RedisError, OSError)
        self._redis: Any = redis.Redis.from_url(url, socket_timeout=patience_s, socket_connect_timeout=patience_s)
        self._shown = url.rpartition("@")[2]  # without a password
        try:
            self._wait_loaded(redis.BusyLoadingError)
            self._policy = self._durability()
            self._redis.set(self._key("owner"), self._owner)
        except self._failures as error:
            raise ValueError(
                f"There is no Redis to use at {self._shown} ({error}); start it, or check the address."
            ) from None

    def _wait_loaded(self, loading: type[Exception]) -> None:
        end = time.monotonic() + self.patience_s
        while True:
            try:
                self._redis.ping()
                return
            except loading:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def _durability(self) -> str:
        """Find out what an acknowledgement of this server is worth, and refuse what is worth nothing."""
        if not int(self._redis.info("persistence").get("aof_enabled", 0)):
            raise ValueError(
                f"Redis at {self._shown} keeps no append-only file, so acknowledged samples would be lost with it; "
                f"set appendonly yes."
            )
        try:
            policy = str(self._redis.config_get("appendfsync").get("appendfsync", "unknown"))
        except self._failures:  # managed servers forbid the question
            policy = "unknown"
        if self.fsync and policy != "always":
            raise ValueError(
                f"Expected appendfsync always at {self._shown} to survive loss of power, got {policy}; set it, or run "
                f"without fsync."
            )
        return policy

    @property
    def facts(self) -> dict[str, str]:
        """Kind of store and how durable it is."""
        survives = "loss of power" if self._policy == "always" else "SIGKILL"
        return {"store": "redis", "survives": survives, "appendfsync": self._policy}

    def wearers(self) -> dict[str, bytes]:
        """Names of all wearers, sorted, with the facts of each."""
        with self._told():
            found = self._redis.hgetall(self._key("wearers"))
        return {name.decode(): facts for name, facts in sorted(found.items())}

    def put(self, facts: bytes, snapshot: Snapshot, *, clear: bool = False) -> None:
        """Create a wearer or replace its facts and state, in one piece; `clear` drops its answers."""
        wearer = snapshot.wearer
        with self._transaction() as pipe:
            pipe.hset(self._key("wearers"), wearer, facts)
            self._save(pipe, snapshot)
            pipe.delete(self._key("inputs", wearer))
            if clear:
                pipe.delete(self._key("answers", wearer))

    def commit(self, entries: Sequence[Entry], snapshots: Sequence[Snapshot] = ()) -> None:
        """Append a batch, then take snapshots, in one piece."""
        with self._transaction() as pipe:
            for entry in entries:
                number = entry.seq.to_bytes(_NUMBER, "big")
                pipe.rpush(self._key("inputs", entry.wearer), number + entry.inputs)
                if entry.answers is not None:
                    pipe.zadd(self._key("answers", entry.wearer), {number + entry.answers: entry.window})
            for one in snapshots:
                self._save(pipe, one)
                # A snapshot holds all chunks up to this batch, so that nothing is left of the log.
                pipe.delete(self._key("inputs", one.wearer))
                pipe.zremrangebyscore(self._key("answers", one.wearer), "-inf", f"({one.oldest}")

    def load(self, wearer: str) -> Stored | None:
        """Give what resumes a wearer, inputs in order; None where there is no such wearer."""
        with self._told():
            pipe = self._redis.pipeline(transaction=True)
            pipe.hget(self._key("wearers"), wearer)
            pipe.hmget(self._key("state", wearer), "seq", "state")
            pipe.lrange(self._key("inputs", wearer), 0, -1)
            facts, (seq, state), rows = pipe.execute()
        if facts is None:
            return None
        return Stored(facts, int(seq or 0), state or b"", [_numbered(row) for row in rows])

    def answers(self, wearer: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Give the sequence number and answers of at most `limit` chunks with windows above `after`, in order."""
        with self._told():
            rows = self._redis.zrangebyscore(self._key("answers", wearer), f"({after}", "+inf", start=0, num=limit)
        return [_numbered(row) for row in rows]

    def newest(self, wearers: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Give the sequence number and answers of each wearer's latest chunk with windows, where there is one."""
        with self._told():
            pipe = self._redis.pipeline(transaction=False)
            for wearer in wearers:
                pipe.zrange(self._key("answers", wearer), -1, -1)
            return {name: _numbered(rows[0]) for name, rows in zip(wearers, pipe.execute(), strict=True) if rows}

    def answer(self, wearer: str, seq: int) -> bytes | None:
        """Give the answers of one chunk; None where it had none or they are no longer kept."""
        key = self._key("answers", wearer)

        def row(rank: int) -> tuple[int, bytes]:
            return _numbered(self._redis.zrange(key, rank, rank)[0])

        with self._told():
            count = self._redis.zcard(key)
            rank = bisect_left(range(count), seq, key=lambda place: row(place)[0])  # in the order of windows and chunks
            found = row(rank) if rank < count else (0, b"")
        return found[1] if found[0] == seq else None

    def delete(self, wearer: str) -> None:
        """Remove every trace of a wearer, from the append-only file too."""
        with self._transaction() as pipe:
            pipe.hdel(self._key("wearers"), wearer)
            pipe.delete(*(self._key(kind, wearer) for kind in ("state", "inputs", "answers")))
        with self._told():
            self._rewrite()

    def close(self) -> None:
        """Release the connection."""
        self._redis.close()

    def _rewrite(self) -> None:
        """Have the append-only file written anew, and wait for it."""
        end = time.monotonic() + self.patience_s
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
            f"The wearer is deleted, but Redis at {self._shown} is still rewriting its file after "
            f"{self.patience_s:g} s; look at its log."
        )

    def _save(self, pipe: Any, one: Snapshot) -> None:
        pipe.hset(self._key("state", one.wearer), mapping={"seq": one.seq, "state": one.state})

    def _key(self, kind: str, wearer: str | None = None) -> bytes:
        return self._prefix + kind.encode() + (b"" if wearer is None else b":" + wearer.encode())

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Collect commands, then run them as one, if the store is still ours."""
        with self._told(), self._redis.pipeline(transaction=True) as pipe:
            pipe.watch(self._key("owner"))
            if pipe.get(self._key("owner")) != self._owner:
                raise StoreFailed(f"Another service has opened the store at {self._shown}; stop one of the two.")
            pipe.multi()
            yield pipe
            pipe.execute()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._failures as error:
            raise StoreFailed(
                f"The store at {self._shown} failed ({error}); send the chunk again, and look at the server."
            ) from error


def _numbered(row: bytes) -> tuple[int, bytes]:
    return int.from_bytes(row[:_NUMBER], "big"), row[_NUMBER:]
