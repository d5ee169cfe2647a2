"""What a method remembers of a stream: banks of fixed capacity, so that state has one shape from start to end.

Each bank knows one rule of what stays and what goes. All are numpy. A method that keeps a bank (or a generator)
in an attribute whose name ends with an underscore inherits `Remembers`, and `state` carries it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sight.base import Adapter
from sight.ops import unit
from sight.types import Array


@runtime_checkable
class Bank(Protocol):
    """Whatever is stored as arrays of constant shape and comes back from them."""

    def arrays(self) -> dict[str, Array]:
        """Name to array."""

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take the values of stored arrays."""


class Remembers(Adapter):
    """Lets `state` and `restore` carry banks beside arrays and numbers."""

    def _banks(self) -> dict[str, Bank]:
        return {
            name[:-1]: value
            for name, value in sorted(vars(self).items())
            if name.endswith("_") and isinstance(value, Bank)
        }

    def _get_state(self) -> dict[str, Array]:
        banks = self._banks()
        plain = {
            name[:-1]: np.array(value)
            for name, value in vars(self).items()
            if name.endswith("_") and not name.startswith("_") and name[:-1] not in banks
        }
        stored = {f"{name}.{key}": np.array(a) for name, bank in banks.items() for key, a in bank.arrays().items()}
        return dict(sorted((plain | stored).items()))

    def _set_state(self, state: Mapping[str, Array]) -> None:
        banks = self._banks()
        super()._set_state({key: value for key, value in state.items() if key.partition(".")[0] not in banks})
        for name, bank in banks.items():
            bank.load({key: np.asarray(state[f"{name}.{key}"]) for key in bank.arrays()})

    def _fits(self, key: str, value: Array, now: Array) -> bool:
        # A memory that has not seen a window yet does not know how large windows are.
        unsized = key.endswith(".windows") and not (value.size and now.size)
        room = value.ndim == now.ndim and value.shape[:1] == now.shape[:1]
        return super()._fits(key, value, now) or (unsized and room)


class Dice:
    """A seeded generator that can be stored and brought back in the middle of its sequence."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.Generator(np.random.PCG64(seed))

    def arrays(self) -> dict[str, Array]:
        """Return the generator's state as six words."""
        state: dict[str, Any] = dict(self.generator.bit_generator.state)
        wide = (state["state"]["state"], state["state"]["inc"])
        words = [half for value in wide for half in (value >> 64, value & (2**64 - 1))]
        return {"words": np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Go on where the stored generator stood."""
        high, low, inc_high, inc_low, has_uint32, uinteger = (int(word) for word in arrays["words"])
        self.generator.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": (high << 64) | low, "inc": (inc_high << 64) | inc_low},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }


class Arrays:
    """A bank that stores its array attributes."""

    def arrays(self) -> dict[str, Array]:
        """Name to array, the live ones."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Put copies of stored arrays in the place of the live ones."""
        for name in self.arrays():
            setattr(self, name, np.array(arrays[name]))


class Supports(Arrays):
    """The most certain features of each predicted class: at most `per_class`, those of lowest entropy.

    Parameters
    ----------
    classes, per_class, dims
        K, M and D.
    dtype
        Float type of the features.

    Notes
    -----
    The first ``count[k]`` places of class k are taken. Of two equal entropies the older one stays.

    Examples
    --------
    >>> supports = Supports(classes=2, per_class=1, dims=3)
    >>> [supports.add(np.ones(3), label=0, entropy=h) for h in (0.5, 0.7, 0.2)]
    [True, False, True]
    >>> supports.count.tolist(), round(float(supports.entropy[0, 0]), 3)
    ([1, 0], 0.2)
    """

    def __init__(self, classes: int, per_class: int, dims: int, dtype: Any = "float32") -> None:
        if per_class < 1:
            raise ValueError(f"Expected room for at least 1 support per class, got {per_class}.")
        self.features = np.zeros((classes, per_class, dims), dtype)
        self.entropy = np.zeros((classes, per_class), dtype)
        self.count = np.zeros(classes, np.int64)

    def add(self, feature: Array, label: int, entropy: float) -> bool:
        """Offer a feature (D,) of a predicted class; answer whether it was kept."""
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
        """Mean feature of each class, (K, D); zeros for a class without supports."""
        total: Array = self.features.sum(axis=1)  # free places are zero
        held: Array = np.maximum(self.count, 1)[:, None].astype(total.dtype)
        return total / held

    def directions(self) -> Array:
        """Sum unit features of each class to a unit vector, (K, D); zeros for a class without supports."""
        return unit(unit(self.features).sum(axis=1))


class FeatureQueue(Arrays):
    """The latest features with their probabilities and labels.

    Parameters
    ----------
    capacity, dims, classes
        How many, D and K.
    dtype
        Float type of features and probabilities.
    """

    def __init__(self, capacity: int, dims: int, classes: int, dtype: Any = "float32") -> None:
        self.features = np.zeros((capacity, dims), dtype)
        self.probabilities = np.zeros((capacity, classes), dtype)
        self.labels = np.full(capacity, -1, np.int64)
        self.seen = np.zeros((), np.int64)

    @property
    def size(self) -> int:
        """Features held; they stand first."""
        return min(int(self.seen), len(self.labels))

    def add(self, features: Array, probabilities: Array, labels: Array) -> None:
        """Take features (B, D), probabilities (B, K) and labels (B,), in place of the oldest."""
        for feature, row, label in zip(features, probabilities, labels, strict=True):
            place = int(self.seen) % len(self.labels)
            self.features[place], self.probabilities[place], self.labels[place] = feature, row, label
            self.seen += 1
