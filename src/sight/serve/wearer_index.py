"""Who there is, and the latest of each: read once, then kept in memory, so that a long list costs next to nothing."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sight.serve import serialization
from sight.serve.errors import UnknownModel
from sight.serve.model_catalog import Models
from sight.serve.store import Store
from sight.serve.wearer_session import read_facts
from sight.types import Event

_LISTED = ("model", "method", "rate_hz", "created")


class Roll:
    """All wearers by name.

    Parameters
    ----------
    store
        Where they are looked up the first time, and again after their facts have changed.
    models
        Tell the names of the classes.
    """

    def __init__(self, store: Store, models: Models) -> None:
        self._store, self._models = store, models
        self._names = set(store.wearers())
        self._rows: dict[str, dict[str, Any]] = {}
        self._heard: dict[str, float] = {}

    def __contains__(self, wearer: str) -> bool:
        """Tell whether there is a wearer of this name."""
        return wearer in self._names

    def __len__(self) -> int:
        """Count the wearers."""
        return len(self._names)

    def enter(self, wearer: str) -> None:
        """Add a wearer, or look it up anew."""
        self._names.add(wearer)
        self._rows.pop(wearer, None)

    def strike(self, wearer: str) -> None:
        """Forget a wearer."""
        self._names.discard(wearer)
        self._rows.pop(wearer, None)
        self._heard.pop(wearer, None)

    def note(self, wearer: str, events: Sequence[Event]) -> None:
        """Take note of a chunk that is in the store, and of its answers."""
        self._heard[wearer] = time.monotonic()
        row = self._rows.get(wearer)
        if row is not None and events:
            row |= self._latest(events[-1], row["model"])

    def rows(self) -> list[dict[str, Any]]:
        """List all wearers by name: how they are served, windows answered, last refined class, seconds of silence."""
        unread = self._names - self._rows.keys()
        if unread:
            facts, newest = self._store.wearers(), self._store.newest(sorted(unread))
            for wearer in unread & facts.keys():
                self._rows[wearer] = self._row(wearer, facts[wearer], newest.get(wearer))
        now, heard = time.monotonic(), self._heard
        return [
            row | {"idle_s": round(now - heard[wearer], 3) if wearer in heard else None}
            for wearer, row in sorted(self._rows.items())
        ]

    def _row(self, wearer: str, sealed: bytes, newest: tuple[int, bytes] | None) -> dict[str, Any]:
        """Tell a wearer; one whose facts or answers are damaged is told with the reason."""
        row: dict[str, Any] = {"wearer": wearer, "model": "", "method": "", "count": None, "label": None}
        try:
            facts = read_facts(wearer, sealed)
            row |= {key: facts[key] for key in _LISTED}
            if newest is None:
                return row | {"count": 0}
            seq, answers = newest
            events = serialization.unpack_answers(serialization.unseal(answers, wearer, "answers", seq))
            return row | self._latest(events[-1], facts["model"])
        except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
            return row | {"refused": str(error)}

    def _latest(self, event: Event, model: str) -> dict[str, Any]:
        label = None
        with suppress(UnknownModel):  # it may come back with the next start
            label = self._models.get(model).card.classes[int(event.q.argmax())]
        return {"count": event.window + 1, "label": label}
