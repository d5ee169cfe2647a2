"""The contract of a durable store: configurations, snapshots, a log of samples, and events, all as bytes.

`sight.apps.serve.serialisation` encodes the bytes and detects damage. A store keeps them, writes a batch completely or
not at all, and removes them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from sight import registry
from sight.apps.serve.errors import StoreFailed


@dataclass(frozen=True)
class StoredChunk:
    """One chunk of one wearer as it is written."""

    wearer: str
    seq: int
    inputs: bytes  # the samples; kept until a snapshot includes them
    last_window: int = -1  # number of the last window that the chunk completed
    events: bytes | None = None  # predictions of the windows it completed


@dataclass(frozen=True)
class Snapshot:
    """State of a wearer's session after a chunk."""

    wearer: str
    seq: int  # of the last chunk that the state includes; inputs up to it are removed
    state: bytes
    oldest_window: int = 0  # events whose last window has a lower number are removed


@dataclass(frozen=True)
class StoredWearer:
    """What resumes a wearer: configuration, the last snapshot, and the inputs since, as (seq, inputs)."""

    config: bytes
    seq: int
    state: bytes
    inputs: Sequence[tuple[int, bytes]]


class Store(Protocol):
    """Durable storage; each method that writes returns once the data would survive a SIGKILL of this process.

    A class is registered under the scheme of its addresses as ``sight.stores`` (`sight.registry`) and is called with
    the address and `fsync`, whether a write must survive a loss of power. It raises ValueError if it cannot be opened.
    """

    name: ClassVar[str]
    losses: int  # how often data that were written before were found missing; what is in memory is then not to be used

    @property
    def info(self) -> dict[str, str]:
        """Kind of store and what its data survive, for the log."""

    def wearers(self) -> dict[str, bytes]:
        """Return the configuration of each wearer, sorted by name."""

    def put(self, config: bytes, snapshot: Snapshot, *, clear: bool = False) -> None:
        """Create a wearer, or replace its configuration and state and drop its inputs.

        `clear` drops its events too, and removes inputs, events and the previous state from the files of the store.
        """

    def commit(self, chunks: Sequence[StoredChunk], snapshots: Sequence[Snapshot] = ()) -> None:
        """Append chunks, then apply snapshots, in one transaction."""

    def load(self, wearer: str) -> StoredWearer | None:
        """Return what resumes a wearer, inputs in order; None if there is no such wearer."""

    def events(self, wearer: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return number and events of at most `limit` chunks with windows above `after`, in order."""

    def latest_events(self, wearers: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Return number and events of the latest chunk with windows of each wearer that has one."""

    def chunk_events(self, wearer: str, seq: int) -> bytes | None:
        """Return the events of one chunk; None if it had none or they are no longer kept."""

    def delete(self, wearer: str) -> None:
        """Remove all data of a wearer, from the files of the store too."""

    def check(self) -> None:
        """Raise `StoreFailed` if the next write would fail; called regularly, so that a store can do what is due."""

    def space(self) -> dict[str, int]:
        """Return the bytes that the data take ("used") and that are left for them ("free"), if known."""

    def close(self) -> None:
        """Release the store."""


@contextmanager
def store_errors(name: str, *errors: type[Exception]) -> Iterator[None]:
    """Raise errors of a store's library as `StoreFailed`."""
    try:
        yield
    except errors as error:
        # Redis names the failed command with its arguments, which are samples, before the cause.
        cause = " ".join(str(error).rpartition("caused error: ")[2].split())[:200]
        raise StoreFailed(f"The store {name} failed: {cause}") from error


def open_store(address: str, *, fsync: bool = False) -> Store:
    """Open the store at an address SCHEME://..., whose scheme is registered as a store; a path is a SQLite file."""
    scheme = address.partition("://")[0] if "://" in address else "sqlite"
    store: Store = registry.get("stores", scheme)(address, fsync=fsync)
    return store
