"""Declaration of a compiled method's state, and the arrays that hold it for one or many wearers; numpy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from sight.ops import relax
from sight.state import check_state
from sight.types import Array

#: Shape of a state entry: matrix (K, D), vector (K,), or a single number.
Kind: TypeAlias = Literal["KD", "K", "float", "int"]


class StateArrays(NamedTuple):
    """State in the three arrays that the steps take and update in place.

    With W wearers, or without the first axis for one wearer.
    """

    matrices: Array  # (W, entries, K, D)
    vectors: Array  # (W, entries, K)
    numbers: Array  # (W, entries), float64


@dataclass(frozen=True, kw_only=True)
class StateLayout:
    """Names, shapes and meaning of a method's state; adapter, many wearers and fused graph all follow it.

    Parameters
    ----------
    entries
        Name to kind, in the order of the graph's inputs. ``belief`` (kind "K", the last prediction) and ``count``
        (kind "int", windows seen) are required. Entries of one kind are stacked in this order in `StateArrays`.
    dtype
        Float type of matrices and vectors; None for that of the head.
    means
        Sums that the fused graph stores as means, which float32 holds more exactly: name to the entry that counts their
        terms.
    gap_clears
        Numbers that a gap sets to 0.
    frequencies, prototypes
        Entry that counts how frequent each class was, and entry that holds adapted prototypes; None if there is none.
    version
        Increased by one whenever names, kinds or meaning of the entries change.
    """

    entries: Mapping[str, Kind]
    dtype: type | None = None
    means: Mapping[str, str] = field(default_factory=dict)
    gap_clears: tuple[str, ...] = ()
    frequencies: str | None = None
    prototypes: str | None = None
    version: int = 1

    def __post_init__(self) -> None:
        if (self.entries.get("belief"), self.entries.get("count")) != ("K", "int"):
            raise ValueError(
                f"Expected entries belief 'K' and count 'int' in a state layout, got {dict(self.entries)}."
            )

    def _named(self, *kinds: Kind) -> list[str]:
        return [name for name, kind in self.entries.items() if kind in kinds]

    # --- arrays -----------------------------------------------------------------------------------------------

    def allocate(self, wearers: int, head: Array) -> StateArrays:
        """Return arrays of zeros for W wearers of a model with this head (K, D)."""
        dtype, classes = np.dtype(self.dtype or head.dtype), len(head)
        return StateArrays(
            np.zeros((wearers, len(self._named("KD")), *head.shape), dtype),
            np.zeros((wearers, len(self._named("K")), classes), dtype),
            np.zeros((wearers, len(self._named("float", "int")))),
        )

    def views(self, arrays: StateArrays) -> dict[str, Array]:
        """Return views of the entries of all wearers, name to (W, ...)."""
        names = (self._named("KD"), self._named("K"), self._named("float", "int"))
        return {name: array[:, i] for array, own in zip(arrays, names, strict=True) for i, name in enumerate(own)}

    # --- fused graph ------------------------------------------------------------------------------------------

    def graph_zeros(self, classes: int, dims: int) -> dict[str, Array]:
        """Return the graph's state tensors, filled with zeros."""
        shapes = {"KD": (classes, dims), "K": (classes,), "float": (1,), "int": (1,)}
        return {
            name: np.zeros(shapes[kind], np.int32 if kind == "int" else np.float32)
            for name, kind in self.entries.items()
        }

    def from_graph(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Return the graph's state as the adapter's."""
        state = {}
        for name, kind in self.entries.items():
            value: Array = tensors[name].astype(np.int64 if kind == "int" else self.dtype or np.float32)
            value = value * tensors[self.means[name]][0] if name in self.means else value
            state[name] = value if kind in ("KD", "K") else value[0, ...]
        return state

    def to_graph(self, state: Mapping[str, Any], classes: int, dims: int) -> dict[str, Array]:
        """Return the adapter's state as the graph's; raise ValueError if it does not fit."""
        zeros = self.graph_zeros(classes, dims)
        check_state(state, self.from_graph(zeros), "fused graph", same_type=False)
        tensors = {}
        for name, zero in zeros.items():
            terms = max(int(state[self.means[name]]), 1) if name in self.means else 1
            tensors[name] = np.array(np.asarray(state[name]) / terms, zero.dtype).reshape(zero.shape)
        return tensors


class WearerStates:
    """States of W wearers of one model.

    Parameters
    ----------
    layout
        Declaration of the state.
    wearers
        W.
    head
        Weights of the model's head, (K, D).
    initial
        Values that a new wearer starts from; entries that are not named start at 0.
    """

    def __init__(self, layout: StateLayout, wearers: int, head: Array, initial: Mapping[str, Any]) -> None:
        self.layout, self.arrays = layout, layout.allocate(wearers, head)
        self.views = layout.views(self.arrays)
        self._initial = dict.fromkeys(layout.entries, 0.0) | dict(initial)
        self.reset(np.arange(wearers))

    def __len__(self) -> int:
        return len(self.arrays.numbers)

    def reset(self, rows: Array, names: Sequence[str] | None = None) -> None:
        """Set the named entries, or all, of these wearers to their initial values."""
        for name in self.layout.entries if names is None else names:
            self.views[name][rows] = self._initial[name]

    def gap(self, seconds: float, half_life_s: float | None, rows: Array) -> None:
        """Relax the belief of these wearers towards uniform; those without a window keep theirs."""
        belief = self.views["belief"]
        for row in rows[self.views["count"][rows] > 0]:
            belief[row] = relax(belief[row], seconds, half_life_s)
        if seconds > 0:
            for name in self.layout.gap_clears:
                self.views[name][rows] = 0

    def get(self, row: int) -> dict[str, Any]:
        """Return one wearer's state: views of arrays, Python numbers."""
        numbers: dict[str, type] = {"int": int, "float": float}
        return {
            name: numbers[kind](self.views[name][row]) if kind in numbers else self.views[name][row]
            for name, kind in self.layout.entries.items()
        }

    def set(self, row: int, state: Mapping[str, Any]) -> None:
        """Overwrite one wearer's state."""
        for name, value in state.items():
            self.views[name][row] = value
