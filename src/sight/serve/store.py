"""What a durable store promises: a log of inputs, snapshots, answers; a batch is in it whole or not at all.

A store knows bytes only. `sight.serve.serialization` gives them meaning, and finds out when they are damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Entry:
    """One chunk of one wearer.

    Parameters
    ----------
    wearer, seq
        Whose, and its number: 1, 2, 3 and so on.
    inputs
        The samples, kept until a snapshot includes them.
    window
        Number of the last window that the chunk completed, where it completed one.
    answers
        The events it gave, or None where it completed no window.
    """

    wearer: str
    seq: int
    inputs: bytes
    window: int = -1
    answers: bytes | None = None


@dataclass(frozen=True)
class Snapshot:
    """All there is to know of a wearer after a chunk.

    Parameters
    ----------
    wearer, seq
        Whose, and the last chunk that is in it; inputs up to it leave the log.
    state
        What a session resumes from.
    oldest
        Answers whose last window has a lower number leave the store.
    """

    wearer: str
    seq: int
    state: bytes
    oldest: int = 0


@dataclass(frozen=True)
class Stored:
    """What a store holds to resume a wearer: facts, the last snapshot, and the inputs since."""

    facts: bytes
    seq: int
    state: bytes
    inputs: Sequence[tuple[int, bytes]]


class Store(Protocol):
    """Durable memory; every method that writes returns after the write would survive a SIGKILL of this process."""

    @property
    def facts(self) -> dict[str, str]:
        """Kind of store and how durable it is, for people."""

    def wearers(self) -> dict[str, bytes]:
        """Names of all wearers, sorted, with the facts of each."""

    def put(self, facts: bytes, snapshot: Snapshot, *, clear: bool = False) -> None:
        """Create a wearer or replace its facts and state, in one piece; `clear` drops its answers."""

    def commit(self, entries: Sequence[Entry], snapshots: Sequence[Snapshot] = ()) -> None:
        """Append a batch, then take snapshots, in one piece."""

    def load(self, wearer: str) -> Stored | None:
        """Give what resumes a wearer, inputs in order; None where there is no such wearer."""

    def answers(self, wearer: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Give the sequence number and answers of at most `limit` chunks with windows above `after`, in order."""

    def newest(self, wearers: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Give the sequence number and answers of each wearer's latest chunk with windows, where there is one."""

    def answer(self, wearer: str, seq: int) -> bytes | None:
        """Give the answers of one chunk; None where it had none or they are no longer kept."""

    def delete(self, wearer: str) -> None:
        """Remove every trace of a wearer."""

    def close(self) -> None:
        """Release the store."""


def open_store(place: str, *, fsync: bool = False) -> Store:
    """Open the store at a path (SQLite) or an address redis://, rediss:// or unix:// (Redis)."""
    if "://" in place:
        from sight.serve.redis_store import RedisStore

        return RedisStore(place, fsync=fsync)
    from sight.serve.sqlite_store import SqliteStore

    return SqliteStore(place, fsync=fsync)
