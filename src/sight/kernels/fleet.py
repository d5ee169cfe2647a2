"""Many wearers in one block of memory, advanced together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sight.kernels.backend import backend
from sight.kernels.reference import Rules
from sight.kernels.states import SightState
from sight.ops import relaxed
from sight.types import Array


class Fleet:
    """SIGHT for W wearers who share a model; each is answered exactly as an adapter of its own would.

    Made by `sight.methods.sight.SIGHT.fleet`.

    Parameters
    ----------
    anchors
        Directions of the head, (K, D); stored once for all.
    rules
        Fields of SIGHT.
    wearers
        W.
    gap_half_life_s
        Half-life of a belief over a gap; None keeps it.

    Notes
    -----
    ``block`` is all float state, one contiguous array of W (K D + 2 K) numbers: first every wearer's prototypes,
    then every habit, then every belief, in the order of wearers. ``count`` (W,) tells how many windows each has
    seen. The two are enough to resume.
    """

    def __init__(self, anchors: Array, rules: Rules, wearers: int, gap_half_life_s: float | None = 30.0) -> None:
        classes, dims = anchors.shape
        each = np.array([classes * dims, classes, classes])
        self.block: Array = np.full(wearers * each.sum(), 1 / classes, anchors.dtype)
        prototypes, habit, belief = np.split(self.block, np.cumsum(wearers * each)[:-1])
        self._states = SightState(
            prototypes=prototypes.reshape(wearers, classes, dims),
            habit=habit.reshape(wearers, classes),
            belief=belief.reshape(wearers, classes),
        )
        self._states.prototypes[:] = anchors
        self.count: Array = np.zeros(wearers, np.int64)
        self.surprise: Array = np.empty(0, anchors.dtype)
        self._anchors, self._rules, self._half_life = anchors, rules, gap_half_life_s
        self._backend = backend(anchors.dtype)

    def __len__(self) -> int:
        return len(self.count)

    def refine(self, z: Array, p: Array, rows: Array | None = None) -> Array:
        """Answer one window each of the wearers `rows`, then adapt; `surprise` holds lambda for each.

        Parameters
        ----------
        z, p
            Features (B, D) and probabilities (B, K), one row for each wearer.
        rows
            Which wearers, (B,), nobody twice; None for all in order.
        """
        rows = self._checked_rows(rows)
        z, p = self._checked(np.asarray(z), np.asarray(p), rows)
        q, self.surprise = self._backend.many(z, p, self._states, self.count, rows, self._anchors, self._rules)
        return q

    def gap(self, seconds: float, rows: Array | None = None) -> None:
        """Tell that these wearers were away: beliefs relax, knowledge stays."""
        if not (np.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"Expected a gap of zero or more seconds, got {seconds}.")
        rows = self._checked_rows(rows)
        for row in rows[self.count[rows] > 0]:
            self._states.belief[row] = relaxed(self._states.belief[row], seconds, self._half_life)

    def reset(self, rows: Array | None = None) -> None:
        """Forget these wearers."""
        rows = self._checked_rows(rows)
        self._states.prototypes[rows] = self._anchors
        self._states.habit[rows] = self._states.belief[rows] = 1 / len(self._anchors)
        self.count[rows] = 0

    def state(self, wearer: int) -> dict[str, Array]:
        """Copy one wearer's state, as the adapter's `state` gives it."""
        named = {**self._states._asdict(), "count": self.count}
        return {name: np.array(named[name][wearer]) for name in sorted(named)}

    def restore(self, wearer: int, state: Mapping[str, Any]) -> None:
        """Put one wearer's state in place."""
        named = {**self._states._asdict(), "count": self.count}
        if set(state) != set(named):
            raise ValueError(f"Expected state with {sorted(named)}, got {sorted(state)}.")
        for name, value in state.items():
            if np.shape(value) != named[name][wearer].shape or not np.isfinite(value).all():
                raise ValueError(
                    f"Expected finite {name!r} of shape {named[name][wearer].shape}, got shape {np.shape(value)}; "
                    f"was it saved by another model?"
                )
        for name, value in state.items():
            named[name][wearer] = value

    def _checked_rows(self, rows: Array | None) -> Array:
        if rows is None:
            return np.arange(len(self))
        rows = np.ascontiguousarray(rows, np.int64)
        if rows.ndim != 1 or len(np.unique(rows)) != len(rows) or (rows < 0).any() or (rows >= len(self)).any():
            raise ValueError(f"Expected rows of the {len(self)} wearers, nobody twice, got {rows.tolist()[:20]}.")
        return rows

    def _checked(self, z: Array, p: Array, rows: Array) -> tuple[Array, Array]:
        classes, dims = self._anchors.shape
        if z.shape != (len(rows), dims) or p.shape != (len(rows), classes):
            raise ValueError(
                f"Expected features ({len(rows)}, {dims}) and probabilities ({len(rows)}, {classes}), "
                f"got {z.shape} and {p.shape}."
            )
        dtype = self._anchors.dtype
        z, p = np.require(z, dtype, ("C", "W")), np.require(p, dtype, ("C", "W"))
        if not self._backend.sound(z, p):
            bad = next(w for w in range(len(p)) if not self._backend.sound(z[w : w + 1], p[w : w + 1]))
            raise ValueError(
                f"Window of wearer {int(rows[bad])} has features that are not finite or probabilities that do not "
                f"sum to 1; drop it before adapting (nothing was changed)."
            )
        return z, p
