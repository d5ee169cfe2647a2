"""The service without HTTP: a session per wearer, answers that are durable before they are given, one thread at a time.

A batch of chunks goes through four steps: admit (who, which number, which shape), cut into windows, encode all windows
of a model in one call, answer. Then everything is written in one piece, and only then acknowledged. Whatever goes
wrong on the way costs the wearer concerned its place in memory and nothing else: the store is the truth, and the next
chunk resumes from it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

import numpy as np

from sight.serve import serialization
from sight.serve.chunk_batch import Ack, Batch, Chunk, Work, cut
from sight.serve.errors import (
    BadChunk,
    BadRequest,
    Conflict,
    Damaged,
    KeeperError,
    LimitReached,
    StoreFailed,
    UnknownModel,
    UnknownWearer,
    WrongSequence,
)
from sight.serve.limits import Limits, check_wearer
from sight.serve.model_catalog import Models
from sight.serve.store import Store, Stored
from sight.serve.wearer_archive import archive
from sight.serve.wearer_creation import agree, enrol, started
from sight.serve.wearer_index import Roll
from sight.serve.wearer_session import HUSHED, Resident, read_facts, resume
from sight.types import Array, Event

__all__ = [
    "Ack",
    "BadChunk",
    "BadRequest",
    "Chunk",
    "Conflict",
    "Damaged",
    "Keeper",
    "KeeperError",
    "LimitReached",
    "StoreFailed",
    "UnknownModel",
    "UnknownWearer",
    "WrongSequence",
]

#: Chunks in the log after which a snapshot is taken however few windows they completed.
MOST_ROWS = 1024


class Keeper:
    """Keeps the sessions of all wearers.

    Parameters
    ----------
    models
        What wearers are served with.
    store
        Where everything lies; see `sight.serve.store.open_store`.
    snapshot_every
        Windows of a wearer between two snapshots: more of them mean less to write and more to replay.
    keep
        Windows of a wearer whose answers stay in the store.
    resident
        Wearers in memory; those longest unused are saved and make room.
    limits
        Most wearers, and most samples of a chunk.

    Attributes
    ----------
    store_s
        Seconds spent in the store.
    """

    def __init__(
        self,
        models: Models,
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
        self.store_s = 0.0
        self._roll = Roll(store, models)
        self._residents: OrderedDict[str, Resident] = OrderedDict()

    # --- samples --------------------------------------------------------------------------------------------------

    @HUSHED
    def ingest(self, chunks: Sequence[Chunk]) -> list[Ack | Exception]:
        """Apply chunks of many wearers, in order; each gets an acknowledgement or the error that kept it out.

        When this returns, what is acknowledged is in the store. A chunk that was refused changed nothing, for its
        wearer or anybody else, and its number is free.
        """
        batch = Batch(chunks)
        self._admit(batch)
        self._answer(batch)
        try:
            self._commit(batch)
        except Exception as failure:  # the batch may or may not be in the store
            for work in batch.answered:
                batch.refuse(work.at, failure, spoiled=True)
        else:
            for work in batch.answered:
                batch.outcomes[work.at] = Ack(work.wearer, work.seq, work.events)
                self._roll.note(work.wearer, work.events)
        for wearer in batch.spoiled:
            self._residents.pop(wearer, None)
        for at, seq, first in batch.repeated:
            batch.outcomes[at] = self._repeat(chunks[at].wearer, seq, None if first is None else batch.outcomes[first])
        self._make_room()
        return batch.outcomes

    def _admit(self, batch: Batch) -> None:
        """Find out who may go on, and cut their samples into windows."""
        seen: dict[tuple[str, int], int] = {}
        latest: dict[str, int] = {}
        for at, chunk in enumerate(batch.chunks):
            wearer = chunk.wearer
            try:
                resident = self._find(wearer)
                expected = latest.get(wearer, resident.seq) + 1
                seq = expected if chunk.seq is None else chunk.seq
                if seq < expected:
                    batch.repeated.append((at, seq, seen.get((wearer, seq))))
                    continue
                if seq > expected or wearer in batch.spoiled:
                    raise WrongSequence(wearer, seq, expected)
                values, time_s = self._checked(chunk, resident)
            except Exception as error:
                batch.refuse(at, error)
                continue
            try:
                windows = cut(resident, values, time_s)
            except Exception as error:  # the session may be half changed: it goes, the store has what was before
                batch.refuse(at, error, spoiled=True)
                continue
            latest[wearer], seen[wearer, seq] = seq, at
            batch.works.append(Work(at, seq, resident, values, time_s, windows))

    def _answer(self, batch: Batch) -> None:
        """Encode the windows of each model in one call, then answer each chunk."""
        for works in batch.by_model():
            try:
                z, p = works[0].resident.model.encode(np.concatenate([work.windows.x for work in works]))
            except Exception as error:
                for work in works:
                    batch.refuse(work.at, error, spoiled=True)
                continue
            edges = np.cumsum([len(work.windows) for work in works])[:-1]
            for work, *encoded in zip(works, np.split(z, edges), np.split(p, edges), strict=True):
                work.encoded = encoded[0], encoded[1]
        failed: dict[str, int] = {}
        for work in batch.works:
            try:
                if work.wearer in failed:
                    raise WrongSequence(work.wearer, work.seq, failed[work.wearer])
                work.answer()
            except Exception as error:
                failed.setdefault(work.wearer, work.seq)
                batch.refuse(work.at, error, spoiled=True)
            else:
                batch.answered.append(work)

    def _commit(self, batch: Batch) -> None:
        """Write what was answered, with the snapshots that are due, in one piece."""
        entries = [work.entry() for work in batch.answered]
        if not entries:
            return
        residents = {work.wearer: work.resident for work in batch.answered if work.wearer not in batch.spoiled}
        due = [resident for resident in residents.values() if self._due(resident)]
        start = time.perf_counter()
        try:
            self.store.commit(entries, [resident.snapshot(self.keep) for resident in due])
        finally:
            self.store_s += time.perf_counter() - start
        for resident in due:
            resident.snapped()

    def _due(self, resident: Resident) -> bool:
        """Whether to take a snapshot; wearers who began together take theirs at different windows."""
        offset = crc32(resident.wearer.encode())
        now, then = ((count + offset) // self.snapshot_every for count in (resident.session.count, resident.saved))
        return now > then or resident.rows >= MOST_ROWS

    def _repeat(self, wearer: str, seq: int, first: Ack | Exception | None) -> Ack | Exception:
        """Answer a chunk that was there before, with what it was answered then."""
        if isinstance(first, Exception):
            return first
        try:
            events = first.events if first else self._stored_events(wearer, seq)
        except (KeeperError, StoreFailed) as error:
            return error
        return Ack(wearer, seq, events, duplicate=True)

    def _stored_events(self, wearer: str, seq: int) -> list[Event]:
        if seq < 1:
            raise BadChunk(f"{wearer}: expected chunks numbered from 1, got {seq}.")
        sealed = self.store.answer(wearer, seq)
        return (
            [] if sealed is None else serialization.unpack_answers(serialization.unseal(sealed, wearer, "answers", seq))
        )

    def _checked(self, chunk: Chunk, resident: Resident) -> tuple[Array, Array | None]:
        channels, most = len(resident.model.card.channels), self.limits.samples
        values = np.ascontiguousarray(chunk.values, np.float32)
        time_s = None if chunk.time_s is None else np.ascontiguousarray(chunk.time_s, np.float64)
        if values.ndim != 2 or values.shape[1] != channels or not 0 < len(values) <= most:
            raise BadChunk(
                f"{chunk.wearer}: expected 1 to {most} samples of {channels} channels, got shape {values.shape}; "
                f"one row per sample, one column per channel."
            )
        if time_s is not None and time_s.shape != (len(values),):
            raise BadChunk(f"{chunk.wearer}: expected {len(values)} times, got {time_s.shape}; one for each sample.")
        return values, time_s

    # --- wearers --------------------------------------------------------------------------------------------------

    def create(
        self,
        wearer: str,
        model: str | None = None,
        method: str | None = None,
        params: Mapping[str, Any] | None = None,
        rate_hz: float | None = None,
    ) -> dict[str, Any]:
        """Create a wearer and return its facts; one that exists already must agree with what is given.

        Parameters
        ----------
        wearer
            1 to 64 letters, digits, ``.``, ``_`` or ``-``.
        model
            name@version, or a name for its newest version; None is the newest of the default.
        method, params
            Registry name and hyper-parameters; None is the recommended method with its defaults.
        rate_hz
            Nominal rate of the samples that will come; None is the model's.
        """
        check_wearer(wearer)
        if wearer in self._roll:
            facts = self.facts(wearer)
            agree(facts, self.models, model, method, params, rate_hz)
            return facts
        if len(self._roll) >= self.limits.wearers:
            raise LimitReached(f"Expected at most {self.limits.wearers} wearers; delete one, or raise the limit.")
        self._put(enrol(wearer, self.models, model, method, params, rate_hz))
        return self.facts(wearer)

    def wearers(self) -> list[dict[str, Any]]:
        """List all wearers by name: how they are served, windows answered, last refined class, seconds of silence."""
        return self._roll.rows()

    def facts(self, wearer: str) -> dict[str, Any]:
        """Tell how a wearer is served, and how far: last chunk, windows answered, time of the latest sample or None."""
        return self._held(wearer).told()

    def picture(self, wearer: str) -> dict[str, Any]:
        """Tell what adaptation has learned about a wearer."""
        return self._held(wearer).picture()

    def events(self, wearer: str, after: int = -1, limit: int = 1000) -> list[Event]:
        """Give stored answers to windows numbered above `after`, oldest first."""
        self._known(wearer)
        rows = self.store.answers(wearer, after, limit)
        found = (
            serialization.unpack_answers(serialization.unseal(sealed, wearer, "answers", seq)) for seq, sealed in rows
        )
        return [event for events in found for event in events if event.window > after][:limit]

    def reset(self, wearer: str) -> dict[str, Any]:
        """Forget what a wearer taught: state, log and answers go, windows count from 0; chunks keep their numbering."""
        stored = self._stored(wearer)
        facts = read_facts(wearer, stored)
        fresh = started(wearer, facts, self.models.get(facts["model"]))
        fresh.seq = stored.inputs[-1][0] if stored.inputs else stored.seq
        self._put(fresh, clear=True)
        return self.facts(wearer)

    def move(self, wearer: str, model: str) -> dict[str, Any]:
        """Serve a wearer with another model from now on; what was learned is carried where the two agree in shape."""
        one, chosen = self._held(wearer), self.models.get(model)
        if unlike := one.model.unlike(chosen):
            raise Conflict(
                f"{wearer}: expected a model with the shape of {one.model.id}, but {chosen.id} differs in "
                f"{', '.join(unlike)}; create another wearer for it."
            )
        moved = started(wearer, {**one.facts, "model": chosen.id}, chosen).restore(one.arrays())
        moved.seq = one.seq
        self._put(moved)
        return self.facts(wearer)

    def export(self, wearer: str) -> bytes:
        """Give all that is stored of a wearer as one zip archive."""
        one, stored = self._held(wearer), self._stored(wearer)
        return archive(self.facts(wearer), one, stored, self.events(wearer, limit=self.keep + 1))

    def delete(self, wearer: str) -> None:
        """Remove a wearer for good: facts, state, log and answers."""
        self._known(wearer)
        self._residents.pop(wearer, None)
        self.store.delete(wearer)
        self._roll.strike(wearer)

    def close(self) -> None:
        """Save everybody in memory, so that nothing has to be replayed, and release the store."""
        self.resident = 0
        self._make_room()
        self.store.close()

    # --- memory ---------------------------------------------------------------------------------------------------

    @property
    def in_memory(self) -> int:
        """Number of wearers whose sessions are in memory."""
        return len(self._residents)

    def _known(self, wearer: str) -> None:
        if wearer not in self._roll:
            raise UnknownWearer(wearer)

    def _stored(self, wearer: str) -> Stored:
        self._known(wearer)
        stored = self.store.load(wearer)
        if stored is None:
            raise UnknownWearer(wearer)
        return stored

    def _find(self, wearer: str) -> Resident:
        """Give a wearer's session, from memory or from the store."""
        one = self._residents.get(wearer)
        if one is None:
            self._residents[wearer] = one = resume(wearer, self._stored(wearer), self.models)
        self._residents.move_to_end(wearer)
        return one

    def _held(self, wearer: str) -> Resident:
        """Give a wearer's session outside of a batch, where others may leave memory for it."""
        self._make_room()
        return self._find(wearer)

    def _put(self, one: Resident, *, clear: bool = False) -> None:
        """Store a wearer whole, then hold it."""
        facts = serialization.seal(serialization.pack_facts(one.facts), one.wearer, "facts")
        self._residents.pop(one.wearer, None)
        self.store.put(facts, one.snapshot(self.keep), clear=clear)
        one.snapped()
        self._residents[one.wearer] = one
        self._roll.enter(one.wearer)

    def _make_room(self) -> None:
        """Save and let go of those longest unused, while there are too many."""
        gone = [self._residents.popitem(last=False)[1] for _ in range(len(self._residents) - self.resident)]
        changed = [one.snapshot(self.keep) for one in gone if one.rows]
        if changed:
            with suppress(StoreFailed):  # the log still has it all
                self.store.commit([], changed)
