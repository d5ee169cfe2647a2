"""A batch of chunks on its way through the keeper, and what comes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sight.serve import serialization
from sight.serve.errors import BadChunk, UnknownWearer
from sight.serve.store import Entry
from sight.serve.wearer_session import Resident
from sight.types import Array, Event, Windows

#: Windows that one chunk may complete; a chunk that spans hours would hold up everybody else.
MOST_WINDOWS = 1000


@dataclass(frozen=True, eq=False)
class Chunk:
    """Samples of one wearer.

    Parameters
    ----------
    wearer
        Whose.
    seq
        The client's number of the chunk, 1, 2, 3 and so on; None lets the keeper number it.
    values
        Samples, (n, C) float32, in the channels and units of the model.
    time_s
        Their times, (n,); None counts on from the latest sample at the nominal rate.
    """

    wearer: str
    seq: int | None
    values: Array
    time_s: Array | None = None


@dataclass(frozen=True, eq=False)
class Ack:
    """A chunk is durable, and these are its answers.

    Parameters
    ----------
    wearer, seq
        Whose, and its number.
    events
        An answer for each window that it completed.
    duplicate
        Whether it had been applied before; then nothing was changed, and the events are those of the first time.
    """

    wearer: str
    seq: int
    events: list[Event]
    duplicate: bool = False


@dataclass(eq=False, slots=True)
class Work:
    """A chunk that was admitted."""

    at: int
    seq: int
    resident: Resident
    values: Array
    time_s: Array | None
    windows: Windows
    encoded: tuple[Array, Array] | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def wearer(self) -> str:
        """Whose."""
        return self.resident.wearer

    def answer(self) -> None:
        """Answer the windows, as far as there are any."""
        self.events = self.resident.answer(self.windows, self.encoded)

    def entry(self) -> Entry:
        """Write it for the store."""
        who, seq = self.wearer, self.seq
        inputs = serialization.seal(serialization.pack_inputs(self.values, self.time_s), who, "inputs", seq)
        if not self.events:
            return Entry(who, seq, inputs)
        answers = serialization.seal(serialization.pack_answers(self.events), who, "answers", seq)
        return Entry(who, seq, inputs, self.events[-1].window, answers)


class Batch:
    """Chunks of many wearers in order, and their outcomes.

    Attributes
    ----------
    works, answered
        Chunks admitted, and those of them that were answered.
    repeated
        Place and number of chunks that came before, and the place of the first where it is in this batch.
    spoiled
        Wearers whose session no longer is what the store says.
    """

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks
        self.outcomes: list[Ack | Exception] = [UnknownWearer(chunk.wearer) for chunk in chunks]
        self.works: list[Work] = []
        self.answered: list[Work] = []
        self.repeated: list[tuple[int, int, int | None]] = []
        self.spoiled: set[str] = set()

    def refuse(self, at: int, error: Exception, *, spoiled: bool = False) -> None:
        """Keep a chunk out."""
        self.outcomes[at] = error
        if spoiled:
            self.spoiled.add(self.chunks[at].wearer)

    def by_model(self) -> list[list[Work]]:
        """Group the chunks that completed windows by their model."""
        groups: dict[str, list[Work]] = {}
        for work in self.works:
            if len(work.windows):
                groups.setdefault(work.resident.model.id, []).append(work)
        return list(groups.values())


def cut(resident: Resident, values: Array, time_s: Array | None) -> Windows:
    """Push samples into a session; they give the windows that are now complete."""
    windows = resident.session.cut(values, time_s)
    if len(windows) > MOST_WINDOWS:
        raise BadChunk(
            f"{resident.wearer}: expected a chunk of at most {MOST_WINDOWS} windows, got {len(windows)}; cut it."
        )
    return windows
