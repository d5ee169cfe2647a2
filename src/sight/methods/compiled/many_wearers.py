"""States of many wearers of one model, advanced together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sight._util.array_checks import check_gap
from sight._util.object_state import check_state
from sight.methods.ops import relax
from sight.types import Array

if TYPE_CHECKING:
    from sight.methods.compiled.adapter import CompiledAdapter


class ManyWearers:
    """A method for W wearers who share a model; each is refined exactly as by an adapter of its own.

    The hyper-parameters of `adapter`, which is bound to the model, apply to all. `arrays` are the states of all wearers
    as the steps take them, `views` the same memory by name, (W, ...); `surprise` is that of each window of the last
    call of `refine`.
    """

    def __init__(self, adapter: CompiledAdapter, wearers: int) -> None:
        self._adapter, self._layout = adapter, adapter.layout
        self.arrays, self.views = self._layout.allocate(wearers, np.asarray(adapter.source.weight))
        self._initial = dict.fromkeys(self._layout.entries, 0.0) | adapter._initial()
        self.surprise: Array = np.empty(0)
        self.reset()

    def __len__(self) -> int:
        return len(self.arrays.numbers)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def refine(self, z: Array, p: Array, rows: Array | None = None) -> Array:
        """Return refined probabilities for one window of each wearer in `rows`, then adapt.

        Features z (B, D) and probabilities p (B, K) have one row per wearer; `rows` (B,) are distinct, None for all.
        """
        rows = self._check_rows(rows)
        dtype = self._adapter.source.weight.dtype
        z, p = np.require(z, dtype, ("C", "W")), np.require(p, dtype, ("C", "W"))
        self._adapter.check_input(z, p)
        if len(z) != len(rows):
            raise ValueError(f"Expected one window for each of {len(rows)} wearers, got {len(z)}.")
        q, trace = self.advance(z, p, rows)
        self.surprise = trace[:, 0]
        return q

    def advance(self, z: Array, p: Array, rows: Array) -> tuple[Array, Array]:
        """Return refined probabilities and trace for valid windows of the wearers in `rows`, equally many of each."""
        return self._adapter.backend.advance(z, p, self.arrays, rows, *self._adapter.constants)

    def gap(self, seconds: float, rows: Array | None = None) -> None:
        check_gap(self._adapter.name, seconds)
        rows, half_life_s = self._check_rows(rows), self._adapter.params()["gap_half_life_s"]
        belief = self.views["belief"]
        for row in rows[self.views["count"][rows] > 0]:
            belief[row] = relax(belief[row], seconds, half_life_s)
        for name in self._layout.gap_clears if seconds > 0 else ():
            self.views[name][rows] = 0

    def reset(self, rows: Array | None = None, names: Sequence[str] | None = None) -> None:
        """Set the states of these wearers, or only the named entries, to their initial values."""
        rows = self._check_rows(rows)
        for name in self._layout.entries if names is None else names:
            self.views[name][rows] = self._initial[name]

    def state(self, wearer: int | slice) -> dict[str, Array]:
        """Return a copy of one wearer's state, as `Adapter.state` returns it; of several with W in front."""
        kinds = self._layout.entries
        return {
            name: np.array(view[wearer], np.int64 if kinds[name] == "int" else view.dtype)
            for name, view in sorted(self.views.items())
        }

    def restore(self, wearer: int | slice, state: Mapping[str, Any]) -> None:
        check_state(state, self.state(wearer), self._adapter.name, same_type=False)
        for name, value in state.items():
            self.views[name][wearer] = value

    def _check_rows(self, rows: Array | None) -> Array:
        if rows is None:
            return np.arange(len(self))
        rows = np.ascontiguousarray(rows, np.int64)
        if rows.ndim != 1 or len(np.unique(rows)) != len(rows) or (rows < 0).any() or (rows >= len(self)).any():
            raise ValueError(f"Expected distinct rows of {len(self)} wearers, got {rows.tolist()[:20]}.")
        return rows
