"""In-memory index of wearers and their latest prediction, so that listing many wearers needs no access to the store."""

import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sight.apps.serve import serialisation
from sight.apps.serve.errors import UnknownModel
from sight.apps.serve.model_catalogue import ModelCatalogue
from sight.apps.serve.store import Store
from sight.types import Event

_LISTED = ("model", "method", "rate_hz", "created")


class WearerIndex:
    """All wearers by name; the store is read when one is first listed, and again after its configuration changed."""

    def __init__(self, store: Store, models: ModelCatalogue) -> None:
        self._store, self._models = store, models
        self.names = set(store.wearers())
        self._rows: dict[str, dict[str, Any]] = {}
        self._received_s: dict[str, float] = {}

    def add(self, wearer: str) -> None:
        self.names.add(wearer)
        self._rows.pop(wearer, None)

    def remove(self, wearer: str) -> None:
        self.names.discard(wearer)
        self._rows.pop(wearer, None)
        self._received_s.pop(wearer, None)

    def update(self, wearer: str, events: Sequence[Event]) -> None:
        self._received_s[wearer] = time.monotonic()
        row = self._rows.get(wearer)
        if row is not None and events:
            row |= self._latest(events[-1], row["model"])

    def rows(self) -> list[dict[str, Any]]:
        """Return model, method, windows predicted, last refined class and idle seconds of each wearer, by name."""
        unread = self.names - self._rows.keys()
        if unread:
            configs, latest = self._store.wearers(), self._store.latest_events(sorted(unread))
            for wearer in unread & configs.keys():
                self._rows[wearer] = self._row(wearer, configs[wearer], latest.get(wearer))
        now, received = time.monotonic(), self._received_s
        return [
            row | {"idle_s": round(now - received[wearer], 3) if wearer in received else None}
            for wearer, row in sorted(self._rows.items())
        ]

    def _row(self, wearer: str, config: bytes, latest: tuple[int, bytes] | None) -> dict[str, Any]:
        """Return the row of a wearer; one with damaged data has the key `error`."""
        row: dict[str, Any] = {"wearer": wearer, "model": "", "method": "", "count": None, "label": None}
        try:
            values = serialisation.unpack_config(wearer, config)
            row |= {key: values[key] for key in _LISTED}
            if latest is None:
                return row | {"count": 0}
            return row | self._latest(serialisation.unpack_events(wearer, *latest)[-1], values["model"])
        except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
            return row | {"error": str(error)}

    def _latest(self, event: Event, model: str) -> dict[str, Any]:
        label = None
        with suppress(UnknownModel):  # it may be loaded again at the next start
            label = self._models.get(model).card.classes[int(event.q.argmax())]
        return {"count": event.window + 1, "label": label}
