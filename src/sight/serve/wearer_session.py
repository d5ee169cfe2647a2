"""One wearer in memory: a session, the number of its last chunk, and the time use of the day."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Self

import numpy as np

from sight.ops import cosine
from sight.serve import serialization
from sight.serve.errors import Conflict, Damaged, KeeperError
from sight.serve.model_catalog import Model, Models
from sight.serve.store import Snapshot, Stored
from sight.stream.session import Session
from sight.types import Array, Event, Windows

DAY_S = 86_400.0
_SESSION = "session."
#: Samples near the end of the number range overflow on their way; the method refuses what comes of them.
HUSHED = np.errstate(over="ignore", invalid="ignore")


class Resident:
    """A wearer whose session is in memory.

    Parameters
    ----------
    wearer
        Name.
    facts
        What was decided when the wearer was created: model, its digest, method, params, rate.
    model
        The model of that name.

    Attributes
    ----------
    seq
        Number of the last chunk that is in the session.
    saved, rows
        Windows that the last snapshot had answered, and chunks logged since.
    """

    def __init__(self, wearer: str, facts: Mapping[str, Any], model: Model) -> None:
        self.wearer, self.facts, self.model = wearer, facts, model
        adapter = model.adapter(facts["method"], facts["params"])
        self.session = Session(model.source, adapter, rate_in_hz=facts["rate_hz"])
        self.seq = self.saved = self.rows = 0
        self.day = -np.inf
        self.use_s = np.zeros(len(model.card.classes))

    # --- answers --------------------------------------------------------------------------------------------------

    def answer(self, windows: Windows, encoded: tuple[Array, Array] | None) -> list[Event]:
        """Answer the windows of the next chunk, and take it as done; None where it completed no window."""
        events = [] if encoded is None else self.session.predict(windows, *encoded)
        self._note(events)
        return events

    def _note(self, events: Sequence[Event]) -> None:
        """Count the chunk, and what the wearer did on the day of the stream's own clock."""
        self.seq += 1
        self.rows += 1
        for event in events:
            day = event.time_s // DAY_S
            if day > self.day:
                self.day = day
                self.use_s[:] = 0
            self.use_s[event.q.argmax()] += self.session.windower.stride_s

    def told(self) -> dict[str, Any]:
        """Tell how the wearer is served, and how far."""
        card, latest_s = self.model.card, float(self.session.windower.last_s)
        lists = {key: list(getattr(card, key)) for key in ("classes", "channels", "units")}
        spans = {"window_s": card.window_s, "stride_s": card.stride_s}
        progress = {"seq": self.seq, "count": self.session.count, "time_s": latest_s if isfinite(latest_s) else None}
        return {"wearer": self.wearer, **self.facts, **progress, **lists, **spans}

    def picture(self) -> dict[str, Any]:
        """Tell what adaptation has learned: habit, similarity of prototypes, time use of the day."""
        adapter, source = self.session.adapter, self.model.source
        shares, prototypes = adapter.class_frequencies(), adapter.class_prototypes()
        if shares is None:
            shares = self.use_s
        if prototypes is None:
            prototypes = source.weight if source.stats is None else source.stats.class_means
        total = float(np.sum(shares))
        return {
            "habit": (np.asarray(shares, float) / total if total else np.zeros(len(shares))).tolist(),
            "similarity": cosine(prototypes[:, None], prototypes[None]).astype(float).tolist(),
            "time_use_s": self.use_s.tolist(),
            "count": self.session.count,
            "state_bytes": sum(adapter.state_bytes().values()),
        }

    # --- save and resume ------------------------------------------------------------------------------------------

    def header(self) -> dict[str, Any]:
        """Say what a saved state belongs to."""
        kept = {key: self.facts[key] for key in ("method", "params", "rate_hz")}
        return {"wearer": self.wearer, "model": self.model.id, "model_sha256": self.model.digest, **kept}

    def arrays(self) -> dict[str, Array]:
        """Everything needed to go on, bit for bit."""
        session = {_SESSION + name: array for name, array in self.session.state().items()}
        return session | {"use.day": np.array(self.day, float), "use.seconds": self.use_s}

    def snapshot(self, keep: int) -> Snapshot:
        """Save the state; answers older than the last `keep` windows may go."""
        content = serialization.pack_state(self.arrays(), self.header())
        state = serialization.seal(content, self.wearer, "state", self.seq)
        return Snapshot(self.wearer, self.seq, state, oldest=max(self.session.count - keep, 0))

    def snapped(self) -> None:
        """Take the snapshot as stored."""
        self.saved, self.rows = self.session.count, 0

    def restore(self, arrays: Mapping[str, Array]) -> Self:
        """Go on from `arrays`."""
        own = {name.removeprefix(_SESSION): array for name, array in arrays.items() if name.startswith(_SESSION)}
        self.session.restore(own)
        self.day, self.use_s = float(arrays["use.day"]), np.array(arrays["use.seconds"])
        self.saved = self.session.count
        return self

    def replay(self, inputs: Sequence[tuple[int, bytes]]) -> Self:
        """Apply logged chunks again; the answers were given before."""
        for seq, sealed in inputs:
            if seq != self.seq + 1:
                raise Damaged(f"{self.wearer}: chunk {self.seq + 1} is missing in the log; reset or delete the wearer.")
            windows = self.session.cut(
                *serialization.unpack_inputs(serialization.unseal(sealed, self.wearer, "inputs", seq))
            )
            self.answer(windows, self.model.encode(windows.x) if len(windows) else None)
        return self


def read_facts(wearer: str, stored: Stored | bytes) -> dict[str, Any]:
    """Read the facts of a stored wearer."""
    return serialization.unpack_facts(
        serialization.unseal(stored if isinstance(stored, bytes) else stored.facts, wearer, "facts")
    )


@HUSHED
def resume(wearer: str, stored: Stored, models: Models) -> Resident:
    """Bring a stored wearer into memory: the last snapshot, then the chunks since it."""
    try:
        facts = read_facts(wearer, stored)
        model = models.get(facts["model"])
        arrays, header = serialization.unpack_state(serialization.unseal(stored.state, wearer, "state", stored.seq))
        one = Resident(wearer, facts, model)
        if header != one.header():
            raise Conflict(
                f"{wearer}: the state was saved with model {header.get('model')} "
                f"({str(header.get('model_sha256'))[:8]}), loaded is {model.id} ({model.digest[:8]}); "
                f"load the model it was saved with, or reset the wearer."
            )
        one.restore(arrays).seq = stored.seq
        return one.replay(stored.inputs)
    except KeeperError as error:
        raise error if isinstance(error, Conflict) else Conflict(f"{wearer}: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise Damaged(f"{wearer}: the stored state does not fit ({error}); reset or delete the wearer.") from None
