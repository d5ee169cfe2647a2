"""LAME: Laplacian adjusted maximum-likelihood estimation, neighbours in feature space agree on a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sight.base import Needs, OutputAdapter
from sight.ops import softmax, unit
from sight.types import Array

#: Floor of probabilities under the logarithm, and of the kernel's width.
TINY = 1e-10


@dataclass(kw_only=True)
class LAME(OutputAdapter):
    """Lets the windows of a chunk vote for each other by the likeness of their features.

    Parameters
    ----------
    rule
        "chunk": a batch is answered whole, each window by all; "stream": each window by itself and those before it.
    batch
        Windows of a chunk, or of the buffer that slides with the stream.
    kernel
        Likeness of two features: "rbf" (width: mean distance to the last of `neighbours`), "knn" (1 for the
        nearest `neighbours` others) or "linear" (cosine).
    neighbours
        How many neighbours the kernel looks at; for "rbf" a window counts as its own first.
    iterations
        Most updates of a chunk.
    tolerance
        Relative change of the energy at which it stops earlier.

    Notes
    -----
    It believes that likeness in feature space means the same class, and that the source is right about most
    windows of a chunk. It is at home on correlated streams: a chunk inside one segment agrees on one class. For
    the same reason it carries a segment over its end, and a segment the source mostly gets wrong becomes wholly
    wrong. Nothing is learned from one chunk to the next.

    Answers minimise ``sum_i KL(y_i | p_i) - 1/2 sum_ij k_ij y_i . y_j`` by its concave-convex procedure. The
    authors stop by a sum that counts pairs without the half; the one here is the one the update lowers. The
    kernel of "knn" is not symmetric, so there the energy may rise. Features are unit vectors, as in the authors'
    code. "stream" keeps the same formula on a sliding buffer and answers with its newest row; a gap empties it.

    Examples
    --------
    >>> import numpy as np, sight
    >>> z = np.array([[1.0, 0.0], [1.0, 0.1], [1.0, -0.1], [0.0, 1.0]])
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.2, 0.8]])
    >>> sight.refine(z, p, np.eye(2), method="lame", neighbours=2).argmax(axis=1).tolist()
    [0, 0, 0, 1]

    References
    ----------
    M. Boudiaf, R. Mueller, I. Ben Ayed, L. Bertinetto: Parameter-free Online Test-time Adaptation. CVPR 2022.
    doi:10.1109/CVPR52688.2022.00816, arXiv:2201.05718.
    """

    name: ClassVar[str] = "lame"
    needs: ClassVar[Needs] = Needs(batch=True, gap="buffer emptied")
    rule: Literal["chunk", "stream"] = "chunk"
    batch: int = 32
    kernel: Literal["rbf", "knn", "linear"] = "rbf"
    neighbours: int = 5
    iterations: int = 100
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        wrong = [
            f"{key} >= 1, got {getattr(self, key)}"
            for key in ("batch", "neighbours", "iterations")
            if getattr(self, key) < 1
        ]
        if self.rule not in ("chunk", "stream"):
            wrong.append(f"rule 'chunk' or 'stream', got {self.rule!r}")
        if self.kernel not in ("rbf", "knn", "linear"):
            wrong.append(f"kernel 'rbf', 'knn' or 'linear', got {self.kernel!r}")
        if not self.tolerance >= 0:
            wrong.append(f"tolerance >= 0, got {self.tolerance}")
        if wrong:
            raise ValueError(f"lame: expected {'; '.join(wrong)}.")

    @property
    def chunk(self) -> int | None:
        """Windows answered together; None where the buffer slides."""
        return self.batch if self.rule == "chunk" else None

    def _reset(self) -> None:
        if self.rule == "stream":
            classes, dims = self.source.weight.shape
            self.features_ = np.zeros((self.batch, dims), self.source.weight.dtype)
            self.probabilities_ = np.zeros((self.batch, classes), self.source.weight.dtype)
            self.count_ = 0

    def _refine(self, z: Array, p: Array) -> Array:
        if self.rule == "stream":
            return super()._refine(z, p)
        cuts = range(0, len(p), self.batch)
        return np.concatenate([p[:0], *(self._agreed(z[t : t + self.batch], p[t : t + self.batch]) for t in cuts)])

    def _refine_one(self, z: Array, p: Array) -> Array:
        for buffer, row in ((self.features_, z), (self.probabilities_, p)):
            buffer[:-1] = buffer[1:]
            buffer[-1] = row
        self.count_ = min(self.count_ + 1, self.batch)
        newest: Array = self._agreed(self.features_[-self.count_ :], self.probabilities_[-self.count_ :])[-1]
        return newest

    def _gap(self, seconds: float) -> None:
        if self.rule == "stream" and seconds > 0:
            self._reset()

    def state_bytes(self) -> dict[str, int]:
        """Count bytes by kind; in chunks nothing outlives a chunk."""
        if self.rule == "chunk":
            return {"features": 0}
        return {"features": self.features_.nbytes + self.probabilities_.nbytes}

    def _agreed(self, z: Array, p: Array) -> Array:
        """Answer a chunk whole."""
        likeness = affinity(unit(z.astype(np.float64)), self.kernel, self.neighbours)
        return agree(p.astype(np.float64), likeness, self.iterations, self.tolerance)


def affinity(features: Array, kernel: str, neighbours: int) -> Array:
    """Likeness of unit features (B, D) to each other, (B, B).

    Examples
    --------
    >>> affinity(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), "knn", 1).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    products: Array = features @ features.T
    if kernel == "linear":
        return products
    lengths = np.diag(products)
    squares = np.maximum(lengths[:, None] + lengths - 2 * products, 0)
    np.fill_diagonal(squares, 0)
    if kernel == "rbf":
        last = min(neighbours, len(squares)) - 1
        width = max(float(np.sqrt(np.sort(squares, axis=1)[:, last]).mean()), TINY)
        return np.asarray(np.exp(-squares / (2 * width**2)))
    np.fill_diagonal(squares, np.inf)
    nearest = np.argsort(squares, axis=1, kind="stable")[:, : min(neighbours, len(squares) - 1)]
    graph: Array = np.zeros_like(squares)
    np.put_along_axis(graph, nearest, 1, axis=1)
    return graph


def agree(p: Array, likeness: Array, iterations: int = 100, tolerance: float = 1e-8) -> Array:
    """Iterate ``y_i <- softmax(log p_i + sum_j k_ij y_j)`` until the energy rests, (B, K) to (B, K)."""
    unary = np.log(p + TINY)
    y: Array = p
    before = np.inf
    for _ in range(iterations):
        y = softmax(unary + likeness @ y)
        now = energy(y, p, likeness)
        if abs(before - now) <= tolerance * abs(now):
            break
        before = now
    return y


def energy(y: Array, p: Array, likeness: Array) -> float:
    """Measure what `agree` lowers: distance to the source's answers, less the agreement of neighbours."""
    divergence = y * (np.log(np.maximum(y, 1e-300)) - np.log(p + TINY))
    return float(divergence.sum() - 0.5 * (y * (likeness @ y)).sum())
