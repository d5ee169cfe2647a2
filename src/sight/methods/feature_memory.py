"""Memories of fixed capacity for features, and a random generator whose position is part of the state; numpy only."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sight._util.object_state import Stateful
from sight.methods.ops import unit
from sight.types import Array


class SeededGenerator(Stateful):
    """A random generator that can be saved and restored in the middle of its sequence."""

    _fixed: ClassVar[bool] = True

    def __init__(self, seed: int) -> None:
        self.generator = np.random.Generator(np.random.PCG64(seed))

    def _own(self) -> dict[str, Array]:
        state: dict[str, Any] = dict(self.generator.bit_generator.state)
        wide = (state["state"]["state"], state["state"]["inc"])
        words = [half for value in wide for half in (value >> 64, value & (2**64 - 1))]
        return {"words": np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)}

    def _set_state(self, state: Mapping[str, Array]) -> None:
        high, low, inc_high, inc_low, has_uint32, uinteger = (int(word) for word in state["words"])
        self.generator.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": (high << 64) | low, "inc": (inc_high << 64) | inc_low},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }


class Memory(Stateful):
    """Base class of memories whose state is their array attributes."""

    _fixed: ClassVar[bool] = True

    def _own(self) -> dict[str, Array]:
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def _set_state(self, state: Mapping[str, Array]) -> None:
        for name, value in state.items():
            setattr(self, name, np.array(value))


class Supports(Memory):
    """The features of each predicted class with the lowest entropy, at most `per_class` of them.

    The first ``count[k]`` places of class k are in use. Of two equal entropies the older one stays.
    """

    def __init__(self, classes: int, per_class: int, dims: int, dtype: Any = "float32") -> None:
        if per_class < 1:
            raise ValueError(f"Expected at least 1 support per class, got {per_class}.")
        self.features = np.zeros((classes, per_class, dims), dtype)
        self.entropy = np.zeros((classes, per_class), dtype)
        self.count = np.zeros(classes, np.int64)

    @staticmethod
    def nbytes(classes: int, dims: int, per_class: int, itemsize: int) -> int:
        return classes * (per_class * (dims + 1) * itemsize + 8)

    def add(self, feature: Array, label: int, entropy: float) -> bool:
        """Store a feature (D,) of a predicted class if it is certain enough; return whether it was stored."""
        place = int(self.count[label])
        if place == self.entropy.shape[1]:
            place = int(np.argmax(self.entropy[label]))
            if not entropy < self.entropy[label, place]:
                return False
        else:
            self.count[label] += 1
        self.features[label, place] = feature
        self.entropy[label, place] = entropy
        return True

    def means(self) -> Array:
        """Return the mean feature of each class, (K, D); zeros for a class without supports."""
        total: Array = self.features.sum(axis=1)  # unused places are zero
        held: Array = np.maximum(self.count, 1)[:, None].astype(total.dtype)
        return total / held

    def directions(self) -> Array:
        """Return the unit vector of the sum of unit features of each class, (K, D); zeros without supports."""
        return unit(unit(self.features).sum(axis=1))


class FeatureQueue(Memory):
    """The latest `capacity` features with their probabilities and labels."""

    def __init__(self, capacity: int, dims: int, classes: int, dtype: Any = "float32") -> None:
        self.features = np.zeros((capacity, dims), dtype)
        self.probabilities = np.zeros((capacity, classes), dtype)
        self.labels = np.full(capacity, -1, np.int64)
        self.seen = np.zeros((), np.int64)

    @property
    def size(self) -> int:
        """Number of stored features, which come first in the arrays."""
        return min(int(self.seen), len(self.labels))

    def add(self, features: Array, probabilities: Array, labels: Array) -> None:
        """Store features (B, D), probabilities (B, K) and labels (B,) in place of the oldest."""
        for feature, row, label in zip(features, probabilities, labels, strict=True):
            place = int(self.seen) % len(self.labels)
            self.features[place], self.probabilities[place], self.labels[place] = feature, row, label
            self.seen += 1
