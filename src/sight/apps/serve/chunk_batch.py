"""A batch of chunks of many wearers: numbering, windows, encoding and prediction, with one outcome for each chunk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from sight.apps.serve import serialisation
from sight.apps.serve.chunks import Ack, Chunk
from sight.apps.serve.errors import UnknownWearer, WrongSequence
from sight.apps.serve.store import StoredChunk
from sight.apps.serve.wearer_session import WearerSession
from sight.types import Array, Event, Windows

Outcome: TypeAlias = Ack | Exception


@dataclass(eq=False, slots=True)
class BatchItem:
    """A chunk that is being processed."""

    index: int  # position in the batch
    seq: int  # number of the chunk in the store
    chunk: Chunk  # as applied
    session: WearerSession
    inputs: bytes  # the samples as the store keeps them
    start_s: float  # time of the first sample if they come without times
    dropped: int  # samples that are not used
    windows: Windows  # that the chunk completes
    encoded: tuple[Array, Array] | None = None  # their features and probabilities
    events: list[Event] = field(default_factory=list)

    def stored(self) -> StoredChunk:
        wearer, seq = self.chunk.wearer, self.seq
        if not self.events:
            return StoredChunk(wearer, seq, self.inputs)
        events = serialisation.pack_events(wearer, seq, self.events)
        return StoredChunk(wearer, seq, self.inputs, self.events[-1].window, events)

    @property
    def digest(self) -> int:
        return serialisation.digest_of(self.inputs)

    def ack(self) -> Ack:
        classes, rate_hz = self.session.model.card.classes, self.session.rate_hz
        return Ack(self.chunk, self.events, classes, rate_hz, self.start_s, dropped=self.dropped)


class ChunkBatch:
    """Chunks of many wearers in order of arrival, and their outcomes; `find_session` may raise."""

    def __init__(self, chunks: Sequence[Chunk], find_session: Callable[[str], WearerSession]) -> None:
        self.chunks, self._find_session = chunks, find_session
        self.outcomes: list[Outcome] = [UnknownWearer(chunk.wearer) for chunk in chunks]
        self.items: list[BatchItem] = []  # chunks that were admitted and not refused since
        # Index and number of chunks that were applied before, and the index of the first if it is in this batch.
        self.repeats: list[tuple[int, int, int | None]] = []
        self.changed: set[str] = set()  # wearers whose session in memory no longer equals the store

    def admit(self) -> None:
        applied: dict[tuple[str, int], BatchItem] = {}
        latest: dict[str, int] = {}
        for index, chunk in enumerate(self.chunks):
            wearer = chunk.wearer
            try:
                session = self._find_session(wearer)
                expected = latest.get(wearer, session.seq) + 1
                seq = expected if chunk.seq is None else chunk.seq + session.offset
                if seq < expected:
                    first = applied.get((wearer, seq))
                    session.check_repeat(chunk, seq, expected, None if first is None else first.digest)
                    self.repeats.append((index, seq, None if first is None else first.index))
                    continue
                if seq > expected or wearer in self.changed:
                    raise WrongSequence(wearer, seq - session.offset, expected - session.offset)
                session.check_channels(chunk)
            except Exception as error:
                self.outcomes[index] = error
                continue
            try:
                item = self._cut(index, seq, chunk, session)
            except Exception as error:  # the session may be half changed; the store has what was before
                self.refuse(index, error)
                continue
            latest[wearer], applied[wearer, seq] = seq, item
            self.items.append(item)

    def _cut(self, index: int, seq: int, chunk: Chunk, session: WearerSession) -> BatchItem:
        placed, start_s, dropped = session.place(chunk, seq), session.next_s, session.dropped
        windows = session.cut(placed)
        inputs = session.seal(placed, seq)
        return BatchItem(index, seq, placed, session, inputs, start_s, session.dropped - dropped, windows)

    def predict(self) -> None:
        errors = self._encode()
        failed: dict[str, int] = {}
        admitted, self.items = self.items, []
        for item in admitted:
            wearer = item.chunk.wearer
            try:
                if wearer in failed:
                    raise WrongSequence(wearer, item.chunk.seq or 0, failed[wearer])
                if item.index in errors:
                    raise errors[item.index]
                item.events = item.session.predict(item.windows, item.encoded, item.digest)
            except Exception as error:
                failed.setdefault(wearer, item.chunk.seq or 0)
                self.refuse(item.index, error)
            else:
                self.items.append(item)

    def _encode(self) -> dict[int, Exception]:
        groups: dict[str, list[BatchItem]] = {}
        for item in self.items:
            if len(item.windows) and not item.session.session.adapter.encodes:
                groups.setdefault(item.session.model.id, []).append(item)
        errors: dict[int, Exception] = {}
        for items in groups.values():
            try:
                z, p = items[0].session.model.encode(np.concatenate([item.windows.x for item in items]))
            except Exception as error:
                errors |= {item.index: error for item in items}
                continue
            edges = np.cumsum([len(item.windows) for item in items])[:-1]
            for item, *encoded in zip(items, np.split(z, edges), np.split(p, edges), strict=True):
                item.encoded = encoded[0], encoded[1]
        return errors

    def refuse(self, index: int, error: Exception) -> None:
        """Set the error of a chunk whose session was changed already."""
        self.outcomes[index] = error
        self.changed.add(self.chunks[index].wearer)
