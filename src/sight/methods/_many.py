"""States of many wearers of one model, advanced together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sight.methods._layout import WearerStates
from sight.state import check_state
from sight.types import Array

if TYPE_CHECKING:
    from sight.methods._compiled import CompiledAdapter


class ManyWearers:
    """A method for W wearers who share a model; each is refined exactly as by an adapter of its own.

    Parameters
    ----------
    adapter
        Bound to the model; its hyper-parameters apply to all wearers.
    wearers
        W.

    Attributes
    ----------
    surprise
        Surprise of each window of the last call of `refine`.
    """

    def __init__(self, adapter: CompiledAdapter, wearers: int) -> None:
        self._adapter = adapter.clone()
        self._head = np.asarray(adapter.source.weight)
        self._states = WearerStates(adapter.layout, wearers, self._head, self._adapter._initial())
        self.surprise: Array = np.empty(0, self._head.dtype)

    def __len__(self) -> int:
        return len(self._states)

    @property
    def count(self) -> Array:
        """Windows that each wearer has seen, (W,)."""
        return self._states.views["count"].astype(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of all states."""
        return sum(array.nbytes for array in self._states.arrays)

    def refine(self, z: Array, p: Array, rows: Array | None = None) -> Array:
        """Return refined probabilities for one window of each wearer in `rows`, then adapt.

        Parameters
        ----------
        z, p
            Features (B, D) and probabilities (B, K), one row per wearer.
        rows
            Wearers, (B,), each at most once; None for all in order.
        """
        rows = self._check_rows(rows)
        z, p = self._check_input(np.asarray(z), np.asarray(p), rows)
        q, trace = self._adapter.backend.advance(z, p, self._states.arrays, rows, *self._adapter.constants)
        self.surprise = trace[:, 0]
        return q

    def gap(self, seconds: float, rows: Array | None = None) -> None:
        """Report a gap before the next window of these wearers; see `Adapter.gap`."""
        if not (np.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"Expected a gap of zero or more seconds, got {seconds}.")
        half_life_s = self._adapter.params()["gap_half_life_s"]
        self._states.gap(float(seconds), half_life_s, self._check_rows(rows))

    def reset(self, rows: Array | None = None, names: Sequence[str] | None = None) -> None:
        """Discard what was learned from these wearers, or only the named entries of their states."""
        self._states.reset(self._check_rows(rows), names)

    def state(self, wearer: int) -> dict[str, Array]:
        """Return a copy of one wearer's state, as `Adapter.state` returns it."""
        return {name: np.array(value) for name, value in sorted(self._states.get(wearer).items())}

    def restore(self, wearer: int, state: Mapping[str, Any]) -> None:
        """Continue one wearer from a saved state."""
        check_state(state, self.state(wearer), self._adapter.name, same_type=False)
        self._states.set(wearer, state)

    def arrays(self) -> dict[str, Array]:
        """Return a copy of the states of all wearers, name to (W, ...)."""
        kinds = self._adapter.layout.entries
        return {
            name: np.array(view, np.int64 if kinds[name] == "int" else view.dtype)
            for name, view in self._states.views.items()
        }

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Continue all wearers from `arrays`."""
        check_state(arrays, self.arrays(), self._adapter.name)
        for name, view in self._states.views.items():
            view[...] = arrays[name]

    def _check_rows(self, rows: Array | None) -> Array:
        if rows is None:
            return np.arange(len(self))
        rows = np.ascontiguousarray(rows, np.int64)
        if rows.ndim != 1 or len(np.unique(rows)) != len(rows) or (rows < 0).any() or (rows >= len(self)).any():
            raise ValueError(f"Expected distinct rows of {len(self)} wearers, got {rows.tolist()[:20]}.")
        return rows

    def _check_input(self, z: Array, p: Array, rows: Array) -> tuple[Array, Array]:
        classes, dims = self._head.shape
        if z.shape != (len(rows), dims) or p.shape != (len(rows), classes):
            raise ValueError(
                f"Expected features ({len(rows)}, {dims}) and probabilities ({len(rows)}, {classes}), "
                f"got {z.shape} and {p.shape}."
            )
        z, p = np.require(z, self._head.dtype, ("C", "W")), np.require(p, self._head.dtype, ("C", "W"))
        is_valid = self._adapter.backend.is_valid
        if not is_valid(z, p):
            bad = next(w for w in range(len(p)) if not is_valid(z[w : w + 1], p[w : w + 1]))
            raise ValueError(
                f"Window of wearer {int(rows[bad])} has non-finite features or probabilities that do not sum to 1; "
                f"drop it before adapting (nothing was changed)."
            )
        return z, p
