"""Source model for callers that have features already: a linear head without an encoder."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from sight.card import ModelCard
from sight.ops import softmax
from sight.types import Array, SourceStats


class FeatureSource:
    """Linear head without an encoder; its windows are feature vectors (B, D, 1).

    Examples
    --------
    >>> source = FeatureSource(np.eye(2, 3))
    >>> z, p = source.encode(np.zeros((4, 3, 1)))
    >>> z.shape, p[0].tolist()
    ((4, 3), [0.5, 0.5])
    """

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        classes: tuple[str, ...] | None = None,
        stats: SourceStats | None = None,
    ) -> None:
        weight = np.asarray(weight)
        if weight.ndim != 2 or weight.dtype.kind not in "fiu":
            raise ValueError(f"Expected head weights (K, D) of numbers, got {weight.dtype} of shape {weight.shape}.")
        self.weight: Array = weight if weight.dtype in (np.float32, np.float64) else weight.astype(np.float64)
        self.bias: Array = np.zeros(len(weight), self.weight.dtype) if bias is None else np.asarray(bias)
        self.classes = classes or tuple(f"class {k}" for k in range(len(weight)))
        self.stats = stats
        self.card: ModelCard | None = None
        if self.bias.shape != (len(weight),) or len(self.classes) != len(weight):
            raise ValueError(
                f"Expected {len(weight)} biases and class names for weights {weight.shape}, "
                f"got {self.bias.shape} and {len(self.classes)}."
            )

    def encode(self, x: Array) -> tuple[Array, Array]:
        """Return feature vectors (B, D, 1) as (B, D), and their probabilities (B, K)."""
        if x.ndim != 3 or x.shape[1:] != (self.weight.shape[1], 1):
            raise ValueError(f"Expected feature vectors (B, {self.weight.shape[1]}, 1), got {x.shape}.")
        z = x[:, :, 0].astype(self.weight.dtype, copy=False)
        return z, softmax(z @ self.weight.T + self.bias)

    def module(self) -> NoReturn:
        """Raise TypeError: there is no network to adapt."""
        raise TypeError("A feature source has no network to adapt; use a torch source (sight.load or sight.wrap).")
