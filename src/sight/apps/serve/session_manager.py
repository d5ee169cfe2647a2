"""The service without HTTP: one session per wearer, and predictions that are durable before they are returned.

Not thread-safe: all calls come from one thread. `SessionManager.ingest` applies a batch of chunks: it checks their
numbers, cuts windows, encodes all windows of a model in one call, predicts, writes everything in one transaction, and
only then acknowledges. If anything fails on the way, the session of the wearer concerned is dropped from memory, and
its next chunk resumes from the store.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from zlib import crc32

from sight import registry
from sight.apps.serve import serialisation
from sight.apps.serve.chunk_batch import ChunkBatch, Outcome
from sight.apps.serve.chunks import Ack, Chunk
from sight.apps.serve.errors import Conflict, Refused, ServiceError, StoreFailed, UnknownWearer
from sight.apps.serve.limits import Limits, check_wearer
from sight.apps.serve.model_catalogue import ModelCatalogue
from sight.apps.serve.store import Store, StoredWearer
from sight.apps.serve.wearer_archive import StoredSession
from sight.apps.serve.wearer_creation import WearerOptions, check_rate, new_session
from sight.apps.serve.wearer_index import WearerIndex
from sight.apps.serve.wearer_session import WearerSession, ignore_overflow, resume

#: Chunks in the log after which a snapshot is taken however few windows they completed.
MAX_LOGGED = 1024


class SessionManager:
    """Sessions of all wearers, in memory and in a store.

    More windows between two snapshots (`snapshot_every`) mean less writing, and more to replay after a kill. The events
    of the last `keep` windows of a wearer stay in the store. Beyond `resident` wearers in memory the least recently
    used are saved and dropped.
    """

    def __init__(
        self,
        models: ModelCatalogue,
        store: Store,
        *,
        snapshot_every: int = 20,
        keep: int = 86_400,
        resident: int = 2_000,
        limits: Limits | None = None,
    ) -> None:
        for name, value in (("snapshot_every", snapshot_every), ("keep", keep), ("resident", resident)):
            if value < 1:
                raise ValueError(f"Expected {name} of 1 or more, got {value}.")
        self.models, self.store, self.limits = models, store, limits or Limits()
        self.snapshot_every, self.resident = snapshot_every, resident
        self.keep = max(keep, snapshot_every)
        self.store_s = 0.0  # spent in commits
        self._losses = store.losses
        self._index = WearerIndex(store, models)
        self._sessions: OrderedDict[str, WearerSession] = OrderedDict()

    @ignore_overflow
    def ingest(self, chunks: Sequence[Chunk]) -> list[Outcome]:
        """Apply chunks of many wearers in order; when this returns, acknowledged chunks are in the store.

        A refused chunk changed nothing, and its number can be used again.
        """
        batch = ChunkBatch(chunks, self._find)
        batch.admit()
        batch.predict()
        try:
            self._commit(batch)
        except Exception as error:  # the batch may or may not be in the store
            for item in batch.items:
                batch.refuse(item.index, error)
        else:
            for item in batch.items:
                batch.outcomes[item.index] = item.ack()
                self._index.update(item.chunk.wearer, item.events)
        for wearer in batch.changed:
            self._sessions.pop(wearer, None)
        for index, seq, first in batch.repeats:
            batch.outcomes[index] = self._repeat(chunks[index], seq, None if first is None else batch.outcomes[first])
        self._evict()
        return batch.outcomes

    def _commit(self, batch: ChunkBatch) -> None:
        if not batch.items:
            return
        sessions = {item.chunk.wearer: item.session for item in batch.items}
        due = [session for name, session in sessions.items() if name not in batch.changed and self._is_due(session)]
        chunks, start = [item.stored() for item in batch.items], time.perf_counter()
        try:
            self.store.commit(chunks, [session.snapshot(self.keep) for session in due])
        finally:
            self.store_s += time.perf_counter() - start
        for session in due:
            session.mark_saved()

    def _is_due(self, session: WearerSession) -> bool:
        """Return whether to take a snapshot; the offset spreads those of wearers that started together."""
        offset = crc32(session.wearer.encode())
        now, then = ((count + offset) // self.snapshot_every for count in (session.session.count, session.saved))
        return now > then or session.logged >= MAX_LOGGED

    def _repeat(self, chunk: Chunk, seq: int, first: Outcome | None) -> Outcome:
        """Return the outcome of a chunk that was applied before: in this batch, if `first` is given, or earlier."""
        if isinstance(first, Exception):
            return first
        if first is not None:
            return replace(first, duplicate=True)
        try:
            session, sealed = self._find(chunk.wearer), self.store.chunk_events(chunk.wearer, seq)
            events = [] if sealed is None else serialisation.unpack_events(chunk.wearer, seq, sealed)
        except (ServiceError, StoreFailed) as error:
            return error
        return Ack(chunk, events, session.model.card.classes, session.rate_hz, duplicate=True)

    def create(self, wearer: str, **options: Any) -> dict[str, Any]:
        """Create a wearer with `WearerOptions`; raise `Conflict` if it exists with others.

        The rate of a wearer that has sent nothing can still be changed.
        """
        check_wearer(wearer)
        chosen = WearerOptions(**options)
        if wearer in self.names:
            info = self.info(wearer)
            if info["time_s"] is None and chosen.rate_hz not in (None, info["rate_hz"]):
                replace(chosen, rate_hz=None).check_agreement(info, self.models)
                return self._change_rate(wearer, chosen.rate_hz)
            chosen.check_agreement(info, self.models)
            return info
        if len(self.names) >= self.limits.wearers:
            text = f"Expected at most {self.limits.wearers} wearers; delete one, or raise the limit."
            raise Refused("wearers", text, 409)
        return self._put(new_session(wearer, chosen.config(self.models, self.limits.state_bytes), self.models))

    def _change_rate(self, wearer: str, rate_hz: float | None) -> dict[str, Any]:
        session = self._find_alone(wearer)
        changed = new_session(wearer, {**session.config, "rate_hz": check_rate(rate_hz, session.model)}, self.models)
        changed.continue_numbers(session)
        return self._put(changed)

    def warm_up(self) -> None:
        """Do what would delay the first request: compile the steps of the default method, and list the wearers."""
        for model in self.models:
            model.warm_up(registry.RECOMMENDED)
        self.wearers()

    @property
    def names(self) -> set[str]:
        return self._index.names

    def wearers(self) -> list[dict[str, Any]]:
        return self._index.rows()

    def info(self, wearer: str, *, adaptation: bool = False) -> dict[str, Any]:
        return self._find_alone(wearer).info(adaptation=adaptation)

    def adaptation(self, wearer: str) -> dict[str, Any]:
        return self._find_alone(wearer).adaptation()

    def event_rows(self, wearer: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return number and sealed events of at most `limit` chunks with windows numbered above `after`."""
        self._require(wearer)
        return self.store.events(wearer, after, limit)

    def reset(self, wearer: str) -> dict[str, Any]:
        """Delete state, log and events of a wearer; windows count from 0 again, chunks keep their numbering."""
        stored = self._load(wearer)
        session = new_session(wearer, serialisation.unpack_config(wearer, stored.config), self.models)
        session.seq = stored.inputs[-1][0] if stored.inputs else stored.seq
        with suppress(ServiceError):  # damaged data may be the reason to reset
            session.continue_numbers(self._find_alone(wearer))
        return self._put(session, clear=True)

    def start_sequence(self, wearer: str) -> dict[str, Any]:
        """Let the next chunk of a wearer be number 1; everything else stays."""
        session = self._find_alone(wearer)
        session.offset = session.seq
        return self._put(session)

    def move(self, wearer: str, model: str) -> dict[str, Any]:
        """Continue a wearer with another model; its state is kept, so the two models must agree in shape."""
        session, chosen = self._find_alone(wearer), self.models.get(model)
        if differences := session.model.differences(chosen):
            raise Conflict(
                f"{wearer}: expected a model with the shape of {session.model.id}, but {chosen.id} differs in "
                f"{', '.join(differences)}; create another wearer for it."
            )
        moved = new_session(wearer, {**session.config, "model": chosen.id}, self.models)
        return self._put(moved.restore(session.arrays(), session.seq))

    def export(self, wearer: str) -> StoredSession:
        session, stored = self._find_alone(wearer), self._load(wearer)
        info, arrays = session.info(adaptation=True), {name: array.copy() for name, array in session.arrays().items()}
        return StoredSession(info, session.header(), arrays, stored.inputs, session.offset)

    def delete(self, wearer: str) -> None:
        self._require(wearer)
        self._sessions.pop(wearer, None)
        self.store.delete(wearer)
        self._index.remove(wearer)

    def close(self) -> None:
        """Save the sessions in memory, so that nothing has to be replayed, and release the store."""
        self.resident = 0
        self._evict()
        self.store.close()

    @property
    def in_memory(self) -> int:
        return len(self._sessions)

    def _require(self, wearer: str) -> None:
        if wearer not in self.names:
            raise UnknownWearer(wearer)

    def _load(self, wearer: str) -> StoredWearer:
        self._require(wearer)
        stored = self.store.load(wearer)
        if stored is None:
            raise UnknownWearer(wearer)
        return stored

    def _find(self, wearer: str) -> WearerSession:
        if self.store.losses != self._losses:  # sessions in memory are ahead of the store
            self._losses = self.store.losses
            self._sessions.clear()
            self._index = WearerIndex(self.store, self.models)
        session = self._sessions.get(wearer)
        if session is None:
            self._sessions[wearer] = session = resume(wearer, self._load(wearer), self.models)
        self._sessions.move_to_end(wearer)
        return session

    def _find_alone(self, wearer: str) -> WearerSession:
        """Return a wearer's session outside of a batch, when others may be evicted for it."""
        self._evict()
        return self._find(wearer)

    def _put(self, session: WearerSession, *, clear: bool = False) -> dict[str, Any]:
        self._sessions.pop(session.wearer, None)
        config = serialisation.pack_config(session.wearer, session.config)
        self.store.put(config, session.snapshot(self.keep), clear=clear)
        session.mark_saved()
        self._sessions[session.wearer] = session
        self._evict()
        self._index.add(session.wearer)
        return session.info()

    def _evict(self) -> None:
        evicted = [self._sessions.popitem(last=False)[1] for _ in range(len(self._sessions) - self.resident)]
        changed = [session.snapshot(self.keep) for session in evicted if session.logged]
        if changed:
            with suppress(StoreFailed):  # the log still has all of it
                self.store.commit([], changed)
