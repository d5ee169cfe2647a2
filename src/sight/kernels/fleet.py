"""Many wearers in one block of memory, advanced together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from sight.kernels.backend import Backend, backend
from sight.kernels.keel_reference import COUNT, LINKED, TRACE, KeelRules, KeelSource
from sight.kernels.reference import Rules
from sight.kernels.states import KEEL_NUMBERS, KEEL_VECTORS, KeelState, SightState
from sight.ops import relaxed
from sight.types import Array


class Fleet(ABC):
    """A method for W wearers who share a model; each is answered exactly as an adapter of its own would.

    Made by the adapter's `fleet`, such as `sight.methods.keel.Keel.fleet`.

    Parameters
    ----------
    like
        Head of the model, (K, D); features and answers come in its shape and float type.
    backend
        Implementation that answers.
    fresh
        State of a wearer nobody has seen, as the adapter's `state` gives it.
    named
        The same of all wearers: name to an array with W in front, views into the block.
    gap_half_life_s
        Half-life of a belief over a gap; None keeps it.

    Notes
    -----
    ``block`` is all float state, one contiguous array; ``count`` (W,) tells how many windows each wearer has seen. The
    two are enough to resume. ``surprise`` holds that of each window of the last call.
    """

    block: Array
    count: Array

    def __init__(
        self,
        like: Array,
        backend: Backend,
        fresh: Mapping[str, Array],
        named: Mapping[str, Array],
        gap_half_life_s: float | None,
    ) -> None:
        self._shape, self._dtype, self._backend = like.shape, like.dtype, backend
        self._fresh, self._named, self._half_life = fresh, named, gap_half_life_s
        self.surprise: Array = np.empty(0, like.dtype)
        self.reset()

    def __len__(self) -> int:
        return len(self._named["belief"])

    def refine(self, z: Array, p: Array, rows: Array | None = None) -> Array:
        """Answer one window each of the wearers `rows`, then adapt; `surprise` holds each one's.

        Parameters
        ----------
        z, p
            Features (B, D) and probabilities (B, K), one row for each wearer.
        rows
            Which wearers, (B,), nobody twice; None for all in order.
        """
        rows = self._checked_rows(rows)
        z, p = self._checked(np.asarray(z), np.asarray(p), rows)
        q, self.surprise = self._advance(z, p, rows)
        return q

    def gap(self, seconds: float, rows: Array | None = None) -> None:
        """Tell that these wearers were away: beliefs relax, knowledge stays."""
        if not (np.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"Expected a gap of zero or more seconds, got {seconds}.")
        self._away(float(seconds), self._checked_rows(rows))

    def reset(self, rows: Array | None = None) -> None:
        """Forget these wearers."""
        rows = self._checked_rows(rows)
        for name, value in self._fresh.items():
            self._named[name][rows] = value

    def state(self, wearer: int) -> dict[str, Array]:
        """Copy one wearer's state, as the adapter's `state` gives it."""
        return {name: np.array(self._named[name][wearer], value.dtype) for name, value in sorted(self._fresh.items())}

    def restore(self, wearer: int, state: Mapping[str, Any]) -> None:
        """Put one wearer's state in place."""
        if set(state) != set(self._fresh):
            raise ValueError(f"Expected state with {sorted(self._fresh)}, got {sorted(state)}.")
        for name, value in state.items():
            if np.shape(value) != self._fresh[name].shape or not np.isfinite(value).all():
                raise ValueError(
                    f"Expected finite {name!r} of shape {self._fresh[name].shape}, got shape {np.shape(value)}; "
                    f"was it saved by another model?"
                )
        for name, value in state.items():
            self._named[name][wearer] = value

    # --- hooks ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _advance(self, z: Array, p: Array, rows: Array) -> tuple[Array, Array]:
        """Answer checked windows, adapt, and return answers and surprises."""

    def _away(self, seconds: float, rows: Array) -> None:
        belief = self._named["belief"]
        for row in rows[self.count[rows] > 0]:
            belief[row] = relaxed(belief[row], seconds, self._half_life)

    def _checked_rows(self, rows: Array | None) -> Array:
        if rows is None:
            return np.arange(len(self))
        rows = np.ascontiguousarray(rows, np.int64)
        if rows.ndim != 1 or len(np.unique(rows)) != len(rows) or (rows < 0).any() or (rows >= len(self)).any():
            raise ValueError(f"Expected rows of the {len(self)} wearers, nobody twice, got {rows.tolist()[:20]}.")
        return rows

    def _checked(self, z: Array, p: Array, rows: Array) -> tuple[Array, Array]:
        classes, dims = self._shape
        if z.shape != (len(rows), dims) or p.shape != (len(rows), classes):
            raise ValueError(
                f"Expected features ({len(rows)}, {dims}) and probabilities ({len(rows)}, {classes}), "
                f"got {z.shape} and {p.shape}."
            )
        z, p = np.require(z, self._dtype, ("C", "W")), np.require(p, self._dtype, ("C", "W"))
        if not self._backend.sound(z, p):
            bad = next(w for w in range(len(p)) if not self._backend.sound(z[w : w + 1], p[w : w + 1]))
            raise ValueError(
                f"Window of wearer {int(rows[bad])} has features that are not finite or probabilities that do not "
                f"sum to 1; drop it before adapting (nothing was changed)."
            )
        return z, p


class SightFleet(Fleet):
    """SIGHT for many wearers; the block holds every wearer's prototypes, then every habit, then every belief.

    Parameters
    ----------
    anchors
        Directions of the head, (K, D); stored once for all.
    rules
        Fields of SIGHT.
    wearers
        W.
    fresh, gap_half_life_s
        As `Fleet` takes them.
    """

    def __init__(
        self, anchors: Array, rules: Rules, wearers: int, fresh: Mapping[str, Array], gap_half_life_s: float | None
    ) -> None:
        shapes = {name: anchors.shape[: 2 if name == "prototypes" else 1] for name in SightState._fields}
        self.block, named = _carved(shapes, wearers, anchors.dtype)
        self._states = SightState(**named)
        self.count = np.zeros(wearers, np.int64)
        self._anchors, self._rules = anchors, rules
        super().__init__(anchors, backend(anchors.dtype), fresh, {**named, "count": self.count}, gap_half_life_s)

    def _advance(self, z: Array, p: Array, rows: Array) -> tuple[Array, Array]:
        return self._backend.many(z, p, self._states, self.count, rows, self._anchors, self._rules)


class KeelFleet(Fleet):
    """Keel for many wearers; the block holds every wearer's vectors, then every wearer's numbers, all float64.

    Parameters
    ----------
    like
        Head of the model, (K, D).
    source
        What Keel takes from it; stored once for all.
    rules
        Fields of Keel.
    wearers
        W.
    fresh, gap_half_life_s
        As `Fleet` takes them.
    """

    def __init__(
        self,
        like: Array,
        source: KeelSource,
        rules: KeelRules,
        wearers: int,
        fresh: Mapping[str, Array],
        gap_half_life_s: float | None,
    ) -> None:
        shapes = {"vectors": (len(KEEL_VECTORS), len(like)), "numbers": (len(KEEL_NUMBERS),)}
        self.block, arrays = _carved(shapes, wearers, np.dtype(np.float64))
        self._states = KeelState(**arrays)
        self._of_source, self._rules = source, rules
        named = {name: self._states.vectors[:, i] for i, name in enumerate(KEEL_VECTORS)}
        named |= {name: self._states.numbers[:, i] for i, name in enumerate(KEEL_NUMBERS)}
        super().__init__(like, backend(like.dtype, "keel"), fresh, named, gap_half_life_s)

    @property
    def count(self) -> Array:  # type: ignore[override]
        """Windows that each wearer has seen, (W,)."""
        return self._states.numbers[:, COUNT].astype(np.int64)

    def _advance(self, z: Array, p: Array, rows: Array) -> tuple[Array, Array]:
        q, trace = self._backend.many(z, p, self._states, rows, self._of_source, self._rules)
        return q, trace[:, TRACE.index("surprise")]

    def _away(self, seconds: float, rows: Array) -> None:
        super()._away(seconds, rows)
        if seconds > 0:
            self._states.numbers[rows, LINKED] = 0


def _carved(shapes: Mapping[str, tuple[int, ...]], wearers: int, dtype: Any) -> tuple[Array, dict[str, Array]]:
    """Lay arrays of all wearers one after the other in one block, and return it with the views of them."""
    sizes = [wearers * int(np.prod(shape)) for shape in shapes.values()]
    block: Array = np.zeros(sum(sizes), dtype)
    parts = np.split(block, np.cumsum(sizes)[:-1])
    return block, {
        name: part.reshape(wearers, *shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }
