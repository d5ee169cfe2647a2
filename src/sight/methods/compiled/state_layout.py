"""Declaration of a compiled method's state, and the arrays that hold it; numpy only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from sight._util.object_state import check_state
from sight.types import Array

#: Shape of a state entry: matrix (K, D), vector (K,), a single number, or float32 moments (2, K, C) of layers with C
#: channels, which are no part of `StateArrays`.
Kind: TypeAlias = Literal["KD", "K", "float", "int", "2C"]


class StateArrays(NamedTuple):
    """State in the three arrays that the steps take and update in place; without the first axis for one wearer."""

    matrices: Array  # (W, entries, K, D)
    vectors: Array  # (W, entries, K)
    numbers: Array  # (W, entries), float64


@dataclass(frozen=True, kw_only=True)
class StateLayout:
    """Names, shapes and meaning of a method's state; adapter, many wearers and fused graph all follow it.

    `entries` maps names to kinds, in the order of the graph's inputs. ``belief`` (kind "K", the last prediction) and
    ``count`` (kind "int", windows seen) are required. Entries of one kind are stacked in this order in `StateArrays`.
    `means` maps sums that the fused graph stores as means, which float32 holds more exactly, to the entry that counts
    their terms.
    """

    entries: Mapping[str, Kind]
    dtype: type | None = None  # float type of matrices and vectors; None for that of the head
    means: Mapping[str, str] = field(default_factory=dict)
    gap_clears: tuple[str, ...] = ()  # numbers that a gap sets to 0
    frequencies: str | None = None  # entry that counts how frequent each class was
    prototypes: str | None = None  # entry that holds adapted prototypes
    version: int = 1  # increased by one whenever names, kinds or meaning of the entries change

    def __post_init__(self) -> None:
        if (self.entries.get("belief"), self.entries.get("count")) != ("K", "int"):
            raise ValueError(f"Expected a state layout with belief 'K' and count 'int', got {dict(self.entries)}.")

    def allocate(self, wearers: int, head: Array) -> tuple[StateArrays, dict[str, Array]]:
        """Return zeros for the states of W wearers of a head (K, D), and views of them by name, (W, ...)."""
        stacks: list[list[str]] = [[], [], []]
        for name, kind in self.entries.items():
            stacks[("KD", "K").index(kind) if kind in ("KD", "K") else 2].append(name)
        dtype = self.dtype or head.dtype
        arrays = StateArrays(
            np.zeros((wearers, len(stacks[0]), *head.shape), dtype),
            np.zeros((wearers, len(stacks[1]), len(head)), dtype),
            np.zeros((wearers, len(stacks[2]))),
        )
        pairs = zip(arrays, stacks, strict=True)
        return arrays, {name: array[:, i] for array, names in pairs for i, name in enumerate(names)}

    def nbytes(self, head: Array) -> int:
        """Return the bytes of one wearer's state for a head (K, D)."""
        sizes = {"KD": head.size, "K": len(head)}
        item = np.dtype(self.dtype or head.dtype).itemsize
        return sum(sizes[kind] * item if kind in sizes else 8 for kind in self.entries.values())

    def graph_zeros(self, classes: int, dims: int, channels: int = 0) -> dict[str, Array]:
        shapes = {"KD": (classes, dims), "K": (classes,), "float": (1,), "int": (1,), "2C": (2, channels)}
        types = {name: np.int32 if kind == "int" else np.float32 for name, kind in self.entries.items()}
        return {name: np.zeros(shapes[kind], types[name]) for name, kind in self.entries.items()}

    def from_graph(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        state = {}
        for name, kind in self.entries.items():
            dtype = {"int": np.int64, "2C": np.float32}.get(kind, self.dtype or np.float32)
            value: Array = tensors[name].astype(dtype)
            value = value * tensors[self.means[name]][0] if name in self.means else value
            state[name] = value[0, ...] if kind in ("float", "int") else value
        return state

    def to_graph(self, state: Mapping[str, Any], classes: int, dims: int, channels: int = 0) -> dict[str, Array]:
        """Return the adapter's state as the graph's; raise ValueError if it does not fit."""
        zeros = self.graph_zeros(classes, dims, channels)
        check_state(state, self.from_graph(zeros), "fused graph", same_type=False)
        tensors = {}
        for name, zero in zeros.items():
            terms = max(int(state[self.means[name]]), 1) if name in self.means else 1
            tensors[name] = np.array(np.asarray(state[name]) / terms, zero.dtype).reshape(zero.shape)
        return tensors
