"""Memories of raw windows for methods that learn from what they have seen: the latest, a balanced one, a timely one.

Where the shape (C, T) of a window is not known in advance, memories take it from the first one.
"""

from __future__ import annotations

import numpy as np

from sight.methods._memory import Arrays
from sight.types import Array


class Windows(Arrays):
    """Room for a fixed number of windows, of a shape that is given or taken from the first."""

    def __init__(self, capacity: int, shape: tuple[int, int] | None) -> None:
        self.windows = np.zeros((capacity, *(shape or (0, 0))), np.float32)

    def _put(self, place: int, x: Array) -> None:
        if not self.windows.size:
            self.windows = np.zeros((len(self.windows), *x.shape), np.float32)
        if x.shape != self.windows.shape[1:]:
            raise ValueError(f"Expected a window of shape {self.windows.shape[1:]} as those before, got {x.shape}.")
        self.windows[place] = x


class Fifo(Windows):
    """The latest windows.

    Parameters
    ----------
    capacity, shape
        How many windows, and the shape (C, T) of one.

    Examples
    --------
    >>> fifo = Fifo(capacity=2, shape=(1, 1))
    >>> for value in (1, 2, 3):
    ...     fifo.add(np.full((1, 1), value))
    >>> fifo.latest(2).ravel().tolist(), fifo.size
    ([2.0, 3.0], 2)
    """

    def __init__(self, capacity: int, shape: tuple[int, int] | None = None) -> None:
        super().__init__(capacity, shape)
        self.seen = np.zeros((), np.int64)

    @property
    def size(self) -> int:
        """Windows held."""
        return min(int(self.seen), len(self.windows))

    def add(self, x: Array) -> None:
        """Take a window (C, T), in place of the oldest where there is no room."""
        self._put(int(self.seen) % len(self.windows), x)
        self.seen += 1

    def latest(self, count: int) -> Array:
        """Return the last windows in time order, at most so many as are held."""
        last = np.arange(int(self.seen) - min(count, self.size), int(self.seen))
        return self.windows[last % len(self.windows)]


class BalancedReservoir(Windows):
    """Windows balanced over predicted classes, and within a class a uniform sample over time.

    Parameters
    ----------
    capacity, shape, classes
        How many windows, the shape (C, T) of one, and K.

    Notes
    -----
    Prediction-balanced reservoir sampling of NOTE. Once full, a class that is not among the largest pushes out a
    random window of one of those; a largest class replaces one of its own with probability held / seen, so that
    what it holds stays a uniform sample of all it has shown.
    """

    def __init__(self, capacity: int, shape: tuple[int, int] | None, classes: int) -> None:
        super().__init__(capacity, shape)
        self.labels = np.full(capacity, -1, np.int64)
        self.seen = np.zeros(classes, np.int64)

    @property
    def size(self) -> int:
        """Windows held."""
        return int((self.labels >= 0).sum())

    @property
    def held(self) -> Array:
        """Windows held of each class, (K,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=len(self.seen))

    def add(self, x: Array, label: int, rng: np.random.Generator) -> bool:
        """Offer a window (C, T) with its predicted class; answer whether it was kept."""
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


class TimelyMemory(Windows):
    """Windows balanced over predicted classes; of a class the young and certain ones stay.

    Parameters
    ----------
    capacity, shape, classes
        N, the shape (C, T) of a window, and K.
    time_weight, uncertainty_weight
        How much age and entropy count against a window.

    Notes
    -----
    Category-balanced sampling with timeliness and uncertainty of RoTTA: the score of age a and entropy u is
    ``time_weight / (1 + exp(-a / N)) + uncertainty_weight * u / ln K``. Where a class has its share N / K, or the
    memory is full, the highest score among the candidates leaves, if it is above the newcomer's.
    """

    def __init__(
        self,
        capacity: int,
        shape: tuple[int, int] | None,
        classes: int,
        time_weight: float = 1.0,
        uncertainty_weight: float = 1.0,
    ) -> None:
        super().__init__(capacity, shape)
        self.labels = np.full(capacity, -1, np.int64)
        self.uncertainty = np.zeros(capacity, np.float64)
        self.age = np.zeros(capacity, np.int64)
        self._classes = classes
        self._weights = (time_weight, uncertainty_weight)

    @property
    def size(self) -> int:
        """Windows held."""
        return int((self.labels >= 0).sum())

    def score(self, age: Array, uncertainty: Array) -> Array:
        """Return how ready items of such age and entropy are to leave."""
        time_weight, uncertainty_weight = self._weights
        timeliness = time_weight / (1 + np.exp(-age / len(self.labels)))
        return np.asarray(timeliness + uncertainty_weight * uncertainty / np.log(self._classes))

    def add(self, x: Array, label: int, uncertainty: float) -> bool:
        """Offer a window (C, T) with its predicted class and entropy; answer whether it was kept. All grow older."""
        place = self._place(label, uncertainty)
        if place is not None:
            self._put(place, x)
            self.labels[place] = label
            self.uncertainty[place], self.age[place] = uncertainty, 0
        self.age[self.labels >= 0] += 1
        return place is not None

    def _place(self, label: int, uncertainty: float) -> int | None:
        held = np.bincount(self.labels[self.labels >= 0], minlength=self._classes)
        if held[label] >= len(self.labels) / self._classes:
            candidates = np.flatnonzero(self.labels == label)
        elif self.size < len(self.labels):
            return self.size
        else:
            candidates = np.flatnonzero(np.isin(self.labels, np.flatnonzero(held == held.max())))
        scores = self.score(self.age[candidates], self.uncertainty[candidates])
        worst = int(np.argmax(scores))
        newcomer = self.score(np.zeros(()), np.asarray(uncertainty))
        return int(candidates[worst]) if scores[worst] > newcomer else None
