"""Memories of fixed capacity for raw windows: the latest, balanced over classes, and balanced with timeliness.

If the shape (C, T) of a window is not known in advance, a memory takes it from the first window.
"""

import numpy as np

from sight.methods.feature_memory import Memory
from sight.types import Array


class WindowMemory(Memory):
    """Base class of memories for a fixed number of windows."""

    def __init__(self, capacity: int, shape: tuple[int, int] | None) -> None:
        self.windows = np.zeros((capacity, *(shape or (0, 0))), np.float32)

    def _put(self, place: int, x: Array) -> None:
        if not self.windows.size:
            self.windows = np.zeros((len(self.windows), *x.shape), np.float32)
        if x.shape != self.windows.shape[1:]:
            raise ValueError(f"Expected a window of shape {self.windows.shape[1:]} as before, got {x.shape}.")
        self.windows[place] = x

    def _fits(self, name: str, value: Array, current: Array) -> bool:
        # Before the first window the shape of windows may be unknown, on either side.
        unknown = name == "windows" and value.ndim == 3 and len(value) == len(current)
        return super()._fits(name, value, current) or (unknown and not (value.size and current.size))


class Fifo(WindowMemory):
    """The latest `capacity` windows."""

    def __init__(self, capacity: int, shape: tuple[int, int] | None = None) -> None:
        super().__init__(capacity, shape)
        self.seen = np.zeros((), np.int64)

    @property
    def size(self) -> int:
        return min(int(self.seen), len(self.windows))

    def add(self, x: Array) -> None:
        """Store a window (C, T), in place of the oldest if the memory is full."""
        self._put(int(self.seen) % len(self.windows), x)
        self.seen += 1

    def latest(self, count: int) -> Array:
        """Return the last `count` windows in time order, or all if there are fewer."""
        last = np.arange(int(self.seen) - min(count, self.size), int(self.seen))
        return self.windows[last % len(self.windows)]


class LabelledMemory(WindowMemory):
    """Base class of memories for windows of K predicted classes."""

    def __init__(self, capacity: int, shape: tuple[int, int] | None, classes: int) -> None:
        super().__init__(capacity, shape)
        self.labels = np.full(capacity, -1, np.int64)
        self._classes = classes

    @property
    def size(self) -> int:
        return int((self.labels >= 0).sum())

    @property
    def held(self) -> Array:
        """Number of stored windows of each class, (K,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self._classes)


class BalancedReservoir(LabelledMemory):
    """Windows balanced over predicted classes, and within a class a uniform sample over time.

    Prediction-balanced reservoir sampling of NOTE. In a full memory, a window of a class that is not among the largest
    replaces a random window of one of those; a window of a largest class replaces one of its own with probability
    held / seen, so that the stored windows of a class are a uniform sample of all its windows.
    """

    def __init__(self, capacity: int, shape: tuple[int, int] | None, classes: int) -> None:
        super().__init__(capacity, shape, classes)
        self.seen = np.zeros(classes, np.int64)

    def add(self, x: Array, label: int, rng: np.random.Generator) -> bool:
        """Store a window (C, T) of a predicted class if the rule keeps it; return whether it was stored."""
        self.seen[label] += 1
        place = self._place(label, rng)
        if place is None:
            return False
        self._put(place, x)
        self.labels[place] = label
        return True

    def _place(self, label: int, rng: np.random.Generator) -> int | None:
        if self.size < len(self.labels):
            return self.size
        held = self.held
        largest = np.flatnonzero(held == held.max())
        if label not in largest:
            return int(rng.choice(np.flatnonzero(self.labels == rng.choice(largest))))
        if rng.random() < held[label] / self.seen[label]:
            return int(rng.choice(np.flatnonzero(self.labels == label)))
        return None


class TimelyMemory(LabelledMemory):
    """At most N windows, balanced over K predicted classes; of a class the recent and certain ones stay.

    Category-balanced sampling with timeliness and uncertainty of RoTTA: the score of age a and entropy u is
    ``time_weight / (1 + exp(-a / N)) + uncertainty_weight * u / ln K``. If a class has its share N / K, or the memory
    is full, the candidate with the highest score is replaced, provided that it is above the score of the new window.
    """

    def __init__(
        self,
        capacity: int,
        shape: tuple[int, int] | None,
        classes: int,
        time_weight: float = 1.0,
        uncertainty_weight: float = 1.0,
    ) -> None:
        super().__init__(capacity, shape, classes)
        self.uncertainty = np.zeros(capacity, np.float64)
        self.age = np.zeros(capacity, np.int64)
        self._weights = (time_weight, uncertainty_weight)

    def score(self, age: Array, uncertainty: Array) -> Array:
        time_weight, uncertainty_weight = self._weights
        timeliness = time_weight / (1 + np.exp(-age / len(self.labels)))
        return np.asarray(timeliness + uncertainty_weight * uncertainty / np.log(self._classes))

    def add(self, x: Array, label: int, uncertainty: float) -> bool:
        """Store a window (C, T) if the rule keeps it, and increase all ages; return whether it was stored."""
        place = self._place(label, uncertainty)
        if place is not None:
            self._put(place, x)
            self.labels[place] = label
            self.uncertainty[place], self.age[place] = uncertainty, 0
        self.age[self.labels >= 0] += 1
        return place is not None

    def _place(self, label: int, uncertainty: float) -> int | None:
        held = self.held
        if held[label] >= len(self.labels) / self._classes:
            candidates = np.flatnonzero(self.labels == label)
        elif self.size < len(self.labels):
            return self.size
        else:
            candidates = np.flatnonzero(np.isin(self.labels, np.flatnonzero(held == held.max())))
        scores = self.score(self.age[candidates], self.uncertainty[candidates])
        worst = int(np.argmax(scores))
        new = self.score(np.zeros(()), np.asarray(uncertainty))
        return int(candidates[worst]) if scores[worst] > new else None
