"""LAME: Laplacian adjusted maximum-likelihood estimation, neighbours in feature space agree on a class."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sight.base import Needs, OutputAdapter, Presets
from sight.methods.ops import softmax, unit
from sight.params import NonNegative, PositiveInt
from sight.types import Array

#: Floor of probabilities under the logarithm, and of the kernel's width.
TINY = 1e-10


@dataclass(kw_only=True)
class LAME(OutputAdapter):
    """Makes windows of a chunk with similar features agree on a class.

    Parameters
    ----------
    rule
        "chunk": the windows of a batch are predicted together; "stream": each window with those before it.
    batch
        Windows of a chunk, or of the sliding buffer.
    kernel
        Similarity of two features: "rbf" (width: mean distance to the last of `neighbours`), "knn" (1 for the nearest
        `neighbours` others) or "linear" (cosine).
    neighbours
        Number of neighbours of the kernel; for "rbf" a window is its own first neighbour.
    iterations
        Largest number of updates of a chunk.
    tolerance
        Relative change of the energy at which the updates stop.

    Notes
    -----
    Assumes that similar features mean the same class, and that the source is right about most windows of a chunk. It
    suits correlated streams: the windows of a chunk inside one segment agree on one class. For the same reason it
    extends a segment over its end, and a segment that the source mostly predicts wrongly becomes entirely wrong.
    Nothing is learned from one chunk to the next.

    Predictions minimise ``sum_i KL(y_i | p_i) - 1/2 sum_ij k_ij y_i . y_j`` by the concave-convex procedure. The
    authors stop by a sum that counts pairs without the half; here it is the sum that the update decreases. The kernel
    "knn" is not symmetric, so that its energy may increase. Features are unit vectors, as in the authors' code.
    "stream" uses the same formula on a sliding buffer and returns its newest row; a gap empties the buffer.

    The width of "rbf" is 0 for a single window and for a chunk of equal features, where the authors' code divides 0 by
    0 and returns NaN. Here equal windows have the similarity 1 at any width: a single window keeps its class and
    becomes more certain. It keeps its probabilities with "knn", as in their code, because it has no neighbours.

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
    presets: ClassVar[Presets] = {"sight-paper": {"batch": 32}}
    rule: Literal["chunk", "stream"] = "chunk"
    batch: PositiveInt = 16
    kernel: Literal["rbf", "knn", "linear"] = "rbf"
    neighbours: PositiveInt = 5
    iterations: PositiveInt = 100
    tolerance: NonNegative = 1e-8

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

    def _max_state_bytes(self, head: Array) -> int:
        kept = self.batch * sum(head.shape) * head.itemsize + 8 if self.rule == "stream" else 0
        return kept + 8 * self.batch**2  # the similarity of all windows of a chunk

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
        if self.rule == "chunk":
            return {"features": 0}
        return {"features": self.features_.nbytes + self.probabilities_.nbytes}

    def _agreed(self, z: Array, p: Array) -> Array:
        similarity = affinity(unit(z.astype(np.float64)), self.kernel, self.neighbours)
        return agree(p.astype(np.float64), similarity, self.iterations, self.tolerance)


def affinity(features: Array, kernel: str, neighbours: int) -> Array:
    """Return the similarity of unit features (B, D) to each other, (B, B)."""
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


def agree(p: Array, similarity: Array, iterations: int = 100, tolerance: float = 1e-8) -> Array:
    """Iterate ``y_i <- softmax(log p_i + sum_j k_ij y_j)`` until the energy is constant, (B, K) to (B, K)."""
    unary = np.log(p + TINY)
    y: Array = p
    previous = np.inf
    for _ in range(iterations):
        y = softmax(unary + similarity @ y)
        current = energy(y, p, similarity)
        if abs(previous - current) <= tolerance * abs(current):
            break
        previous = current
    return y


def energy(y: Array, p: Array, similarity: Array) -> float:
    """Return what `agree` minimises: divergence from the source's probabilities minus the agreement of neighbours."""
    divergence = y * (np.log(np.maximum(y, 1e-300)) - np.log(p + TINY))
    return float(divergence.sum() - 0.5 * (y * (similarity @ y)).sum())
