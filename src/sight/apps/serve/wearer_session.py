"""A wearer in memory: its stream session, the number of its last chunk, and its time use of the day."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Self

import numpy as np

from sight.apps.serve import serialisation
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.errors import Conflict, Damaged, Refused, ReusedNumber, ServiceError
from sight.apps.serve.model_catalogue import Model, ModelCatalogue
from sight.apps.serve.store import Snapshot, StoredWearer
from sight.apps.stream.session import Session
from sight.methods.ops import cosine
from sight.types import Array, Event, Windows

DAY_S = 86_400.0
#: Most windows that one chunk may complete, so that no chunk delays those of other wearers for long.
MAX_WINDOWS = 1000
#: Chunks whose digests are kept, to tell a chunk that is sent again from another one under the same number.
REMEMBERED = 1024
#: Values near the limits of float32 may overflow inside the model; the method rejects the non-finite results.
ignore_overflow = np.errstate(over="ignore", invalid="ignore")
_PREFIX = "session."


class WearerSession:
    """Session of one wearer; `config` is what was chosen when it was created: model, method, params, rate."""

    def __init__(self, wearer: str, config: Mapping[str, Any], model: Model) -> None:
        adapter = model.adapter(config["method"], config["params"])
        # Hyper-parameters that the method has got since the wearer was created are at their present defaults.
        self.wearer, self.config, self.model = wearer, {**config, "params": adapter.params()}, model
        self.rate_hz: float = config["rate_hz"]
        self.session = Session(model.source, adapter, rate_in_hz=self.rate_hz)
        self.seq = 0  # of the last chunk applied, counted since the wearer was created; clients see seq - offset
        self.offset = 0  # of the last chunk before the present sequence
        self.saved = self.logged = 0  # windows predicted at the last snapshot, and chunks in the log since
        self.digests = np.zeros(REMEMBERED, np.uint64)  # of the last chunks; 0 if not known, which no chunk equals
        self.day = -np.inf
        self.time_use_s = np.zeros(len(model.card.classes))

    def check_channels(self, chunk: Chunk) -> None:
        expected, got = len(self.model.card.channels), chunk.values.shape[1]
        if got != expected:
            text = f"expected samples of {expected} channels, got {got}; one row per sample, one column per channel."
            raise Refused("chunk", f"{self.wearer}: {text}")

    def place(self, chunk: Chunk, seq: int) -> Chunk:
        """Return the chunk as applied: with its number, and with all times if the client gave the first."""
        time_s = chunk.time_s
        if time_s is None and chunk.t0 is not None:
            time_s = chunk.t0 + np.arange(len(chunk.values)) / self.rate_hz
        return replace(chunk, seq=seq - self.offset, time_s=time_s)

    def check_repeat(self, chunk: Chunk, seq: int, expected: int, known: int | None = None) -> None:
        """Raise `ReusedNumber` unless this chunk was applied as `seq`; `known` is the digest of that if not stored."""
        known = int(self.digests[seq % REMEMBERED]) if known is None else known
        is_recent = self.seq - REMEMBERED < seq
        if not is_recent or known != serialisation.digest_of(self.seal(self.place(chunk, seq), seq)):
            raise ReusedNumber(self.wearer, seq - self.offset, expected - self.offset)

    def seal(self, chunk: Chunk, seq: int) -> bytes:
        return serialisation.pack_inputs(self.wearer, seq, chunk.values, chunk.time_s)

    @property
    def dropped(self) -> int:
        """Samples not used so far because their time does not increase."""
        return self.session.windower.dropped

    @property
    def next_s(self) -> float:
        last_s = float(self.session.windower.last_s)
        return last_s + 1 / self.rate_hz if isfinite(last_s) else 0.0

    def cut(self, chunk: Chunk) -> Windows:
        """Push the samples of the next chunk; return the windows that are now complete."""
        windows = self.session.cut(chunk.values, chunk.time_s)
        if len(windows) > MAX_WINDOWS:
            text = f"expected a chunk of at most {MAX_WINDOWS} windows, got {len(windows)}; send smaller chunks."
            raise Refused("chunk", f"{self.wearer}: {text}")
        return windows

    def predict(self, windows: Windows, encoded: tuple[Array, Array] | None, digest: int) -> list[Event]:
        """Count a chunk as applied and return the predictions for its windows; see `Session.predict` for `encoded`."""
        events = self.session.predict(windows, encoded) if len(windows) else []
        self.seq += 1
        self.digests[self.seq % REMEMBERED] = digest
        self.logged += 1
        for event in events:
            day = event.time_s // DAY_S
            if day > self.day:
                self.day = day
                self.time_use_s[:] = 0
            self.time_use_s[event.q.argmax()] += self.session.windower.stride_s
        return events

    def info(self, *, adaptation: bool = False) -> dict[str, Any]:
        card, last_s = self.model.card, float(self.session.windower.last_s)
        lists = {key: list(getattr(card, key)) for key in ("classes", "channels", "units")}
        spans = {"window_s": card.window_s, "stride_s": card.stride_s}
        progress = {
            "seq": self.seq - self.offset,
            "count": self.session.count,
            "time_s": last_s if isfinite(last_s) else None,
            "samples": self.session.facts["samples"],
            "dropped": self.dropped,
            "warnings": [str(warning) for warning in self.session.warnings],
        }
        learned = {"adaptation": self.adaptation()} if adaptation else {}
        return {"wearer": self.wearer, **self.config, **progress, **lists, **spans, **learned}

    def adaptation(self) -> dict[str, Any]:
        adapter, source = self.session.adapter, self.model.source
        frequencies, prototypes = adapter.class_frequencies(), adapter.class_prototypes()
        weights = self.time_use_s if frequencies is None else frequencies
        total = float(np.sum(weights)) or 1.0
        of_model = source.weight if source.stats is None else source.stats.class_means
        vectors = of_model if prototypes is None else prototypes
        return {
            "class_frequencies": (np.asarray(weights, float) / total).tolist(),
            "frequencies_from": "day" if frequencies is None else "method",
            "similarity": cosine(vectors[:, None], vectors[None]).astype(float).tolist(),
            "prototypes_from": "model" if prototypes is None else "wearer",
            "time_use_s": self.time_use_s.tolist(),
            "count": self.session.count,
            "state_bytes": sum(adapter.state_bytes().values()),
        }

    def header(self) -> dict[str, Any]:
        method = {key: self.config[key] for key in ("method", "params", "rate_hz")}
        return {"wearer": self.wearer, "model": self.model.id, "model_sha256": self.model.digest, **method}

    def arrays(self) -> dict[str, Array]:
        """Return the complete state, from which `restore` continues bit for bit."""
        session = {_PREFIX + name: array for name, array in self.session.state().items()}
        use = {"use.day": np.array(self.day, float), "use.seconds": self.time_use_s}
        return session | use | {"chunks.digests": self.digests, "chunks.offset": np.array(self.offset)}

    def snapshot(self, keep: int) -> Snapshot:
        """Return a snapshot of the state; events older than the last `keep` windows may be removed."""
        state = serialisation.pack_state(self.wearer, self.seq, self.arrays(), self.header())
        return Snapshot(self.wearer, self.seq, state, oldest_window=max(self.session.count - keep, 0))

    def mark_saved(self) -> None:
        self.saved, self.logged = self.session.count, 0

    def restore(self, arrays: Mapping[str, Array], seq: int) -> Self:
        """Continue from the arrays of a state after chunk `seq`."""
        own = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
        self.session.restore(own)
        self.day, self.time_use_s = float(arrays["use.day"]), np.array(arrays["use.seconds"])
        self.seq, self.saved = seq, self.session.count
        self.digests, self.offset = np.array(arrays["chunks.digests"]), int(arrays["chunks.offset"])
        return self

    def continue_numbers(self, previous: WearerSession) -> None:
        self.seq, self.offset, self.digests = previous.seq, previous.offset, previous.digests.copy()

    def replay(self, inputs: Sequence[tuple[int, bytes]]) -> Self:
        """Apply logged chunks again; their events are stored already."""
        for seq, sealed in inputs:
            if seq != self.seq + 1:
                raise Damaged(f"{self.wearer}: chunk {self.seq + 1} is missing in the log; reset or delete the wearer.")
            windows = self.session.cut(*serialisation.unpack_inputs(self.wearer, seq, sealed))
            own = self.session.adapter.encodes or not len(windows)
            encoded = None if own else self.model.encode(windows.x)
            self.predict(windows, encoded, serialisation.digest_of(sealed))
        return self


@ignore_overflow
def resume(wearer: str, stored: StoredWearer, models: ModelCatalogue) -> WearerSession:
    """Return the session of a stored wearer: its last snapshot, then the chunks since.

    Raises `Damaged` if the stored data cannot be read, `Conflict` if the model is not the one of the state.
    """
    try:
        config = serialisation.unpack_config(wearer, stored.config)
        model = models.get(config["model"])
        header, arrays = serialisation.unpack_state(wearer, stored.seq, stored.state)
        # The state also has hyper-parameters that the method got after the wearer was created.
        params = {**header.get("params", {}), **config["params"]}
        session = WearerSession(wearer, {**config, "params": params}, model)
        if header != session.header() | {"params": params}:
            raise Conflict(
                f"{wearer}: the state was saved with model {header.get('model')} "
                f"({str(header.get('model_sha256'))[:8]}), loaded is {model.id} ({model.digest[:8]}); "
                f"load the model it was saved with, or reset the wearer."
            )
        return session.restore(arrays, stored.seq).replay(stored.inputs)
    except ServiceError as error:
        raise error if isinstance(error, Conflict) else Conflict(f"{wearer}: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise Damaged(f"{wearer}: the stored state does not fit ({error}); reset or delete the wearer.") from None
