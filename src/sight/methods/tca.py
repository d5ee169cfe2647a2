"""TCA: test-time correlation alignment, maps features so that they vary as the most certain ones do."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from sight.base import Needs, OutputAdapter, Presets
from sight.methods.feature_memory import Supports
from sight.methods.ops import entropy, softmax
from sight.params import Positive, PositiveInt, Range
from sight.types import Array

#: Replaces a probability of exactly 0 under the logarithm.
LEAST = 1e-45

#: Singular values of the head below this share of the largest count as 0.
RANK_TOLERANCE = 1e-6


@dataclass(kw_only=True)
class TCA(OutputAdapter):
    """Aligns mean and covariance of the wearer's features with those of the most certain windows.

    Parameters
    ----------
    M
        Windows stored for each predicted class, those of lowest entropy.
    dims
        Largest number of dimensions in which features are aligned; None for all, as published.
    every
        Windows between two fits of the map.
    fit
        "descent": a few Adam steps from the previous map; "closed": the map that whitens and recolours exactly.
    iterations, lr
        Number of Adam steps of a fit and their learning rate, for "descent".
    ridge
        Share of the mean variance added to each variance, for "closed".

    Notes
    -----
    Assumes that certain windows look like the source's data of all classes. On correlated streams they do not: until
    every activity has occurred, the bank holds other or fewer classes than the stream, and the map moves the present
    class onto the mean of the bank. Running means over all past windows reduce this problem but do not remove it.

    Differs from the authors' code, which makes one pass over the whole test set and chooses the size of the bank by its
    true labels. Here no label is used: each predicted class has the same number of places. Moments run over all past
    windows, the map is fitted after every `every` windows ("descent" continues from the previous map), and windows in
    between use the last map; the first `every` windows keep the source's probabilities. The online form and these
    choices are our inference.

    The authors align all D dimensions (``dims=None``, the preset "authors"). By default features are aligned in all
    dimensions only if these are at most `dims`, otherwise in the span of the head's rows (of its first `dims` singular
    vectors, if it has more classes), and other directions stay unchanged. This is another method, not only a faster
    one: an Adam step changes every entry of the map by up to `lr`, which adds up over D dimensions, so that 20 steps
    move the features far if D is 2,048 and hardly if it is the number of classes. In all dimensions, 20 steps are 60
    products of D x D matrices, 10^12 operations if D is 2,048, after every `every` windows, and the state has
    2 D^2 numbers (67 MB), more than the service permits. Logits change by the head's response to the change of the
    feature.

    Examples
    --------
    >>> import numpy as np, sight
    >>> rng = np.random.default_rng(0)
    >>> z, p = rng.normal(size=(9, 6)), rng.dirichlet(np.ones(3), size=9)
    >>> q = sight.refine(z, p, np.eye(3, 6), method="tca", M=1, every=4)
    >>> (q == p).all(axis=1).tolist()  # the first four windows come before the first fit
    [True, True, True, True, False, False, False, False, False]

    References
    ----------
    L. You, J. Lu, X. Huang: Test-time Correlation Alignment. ICML 2025, PMLR 267:72700-72729. arXiv:2505.00533.
    """

    name: ClassVar[str] = "tca"
    needs: ClassVar[Needs] = Needs(gap="ignored")
    presets: ClassVar[Presets] = {"authors": {"dims": None}}
    M: PositiveInt = 20
    dims: Annotated[int | None, Range(at_least=1)] = 64
    every: PositiveInt = 32
    fit: Literal["descent", "closed"] = "descent"
    iterations: PositiveInt = 20
    lr: Positive = 1e-3
    ridge: Positive = 1e-3

    def _bind(self) -> None:
        weight = np.asarray(self.source.weight, np.float64)
        self._basis = head_basis(weight, self.dims)  # (D, m)
        self._head = weight @ self._basis  # (K, m)

    def _reset(self) -> None:
        size = self._basis.shape[1]
        self.bank_ = Supports(self.n_classes, self.M, size, np.float64)
        self.mean_ = np.zeros(size)
        self.scatter_ = np.zeros((size, size))
        self.count_ = 0
        self.map_ = np.eye(size)
        self.from_ = np.zeros(size)
        self.to_ = np.zeros(size)

    def _max_state_bytes(self, head: Array) -> int:
        classes, dims = map(int, head.shape)
        size = min(self.dims or dims, dims)
        return Supports.nbytes(classes, size, self.M, 8) + 8 * (2 * size**2 + 3 * size + 1)

    def _refine_one(self, z: Array, p: Array) -> Array:
        feature = z.astype(np.float64) @ self._basis  # (m,)
        change = (feature - self.from_) @ self.map_ + self.to_ - feature
        fitted = self.count_ >= self.every
        q = softmax(np.log(np.maximum(p, LEAST, dtype=np.float64)) + self._head @ change) if fitted else p
        self.bank_.add(feature, int(p.argmax()), float(entropy(p)))
        self.count_ += 1
        before = feature - self.mean_
        self.mean_ = self.mean_ + before / self.count_
        self.scatter_ = self.scatter_ + np.outer(before, feature - self.mean_)
        if self.count_ % self.every == 0:
            self._fit()
        return q

    def _fit(self) -> None:
        certain = self.bank_.features[np.arange(self.M) < self.bank_.count[:, None]]  # (n, m)
        if len(certain) < 2:
            return
        wanted = np.atleast_2d(np.cov(certain, rowvar=False))
        found = self.scatter_ / (self.count_ - 1)
        if self.fit == "closed":
            self.map_ = recolour(found, wanted, self.ridge)
        else:
            self.map_ = descend(self.map_, found, wanted, self.iterations, self.lr)
        self.from_, self.to_ = self.mean_.copy(), certain.mean(axis=0)

    def state_bytes(self) -> dict[str, int]:
        moments = (self.mean_, self.scatter_, self.map_, self.from_, self.to_)
        return {
            "features": sum(array.nbytes for array in self.bank_.state().values()),
            "statistics": sum(array.nbytes for array in moments),
        }


def head_basis(weight: Array, dims: int | None) -> Array:
    """Return orthonormal directions (D, m), m <= `dims`, that span the rows of a head (K, D); all D if D is small."""
    if dims is None or weight.shape[1] <= dims:
        return np.eye(weight.shape[1])
    _, strength, directions = np.linalg.svd(weight, full_matrices=False)
    rank = int((strength > RANK_TOLERANCE * strength[0]).sum())
    return np.ascontiguousarray(directions[: min(rank, dims)].T)


def descend(start: Array, found: Array, wanted: Array, iterations: int, lr: float) -> Array:
    """Return a map after Adam steps on ``|W' found W - wanted|^2`` from `start`, all (m, m)."""
    linear, momentum, scale = start, np.zeros_like(start), np.zeros_like(start)
    for step in range(1, iterations + 1):
        pushed = found @ linear
        gradient = 4 * pushed @ (linear.T @ pushed - wanted)
        momentum = 0.9 * momentum + 0.1 * gradient
        scale = 0.999 * scale + 0.001 * gradient**2
        linear = linear - lr * (momentum / (1 - 0.9**step)) / (np.sqrt(scale / (1 - 0.999**step)) + 1e-8)
    return linear


def recolour(found: Array, wanted: Array, ridge: float) -> Array:
    """Return the map that whitens by one covariance and colours by another: ``found^-1/2 wanted^1/2``, all (m, m)."""
    return _power(found, -0.5, ridge) @ _power(wanted, 0.5, ridge)


def _power(covariance: Array, exponent: float, ridge: float) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0) + ridge * max(float(values.mean()), 0) + 1e-12
    return np.asarray((vectors * values**exponent) @ vectors.T)
