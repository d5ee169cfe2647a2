"""Source models without an encoder: a linear head for given features, and a classifier given by its probabilities."""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from sight._util.array_checks import check_probabilities
from sight.methods.ops import softmax
from sight.models.card import ModelCard
from sight.types import Array, NormLayers, SourceStats

#: Share of the probabilities of a window that is spread evenly over the classes.
FLOOR = 1e-3


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
        self.norm_layers: NormLayers | None = None
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
        raise TypeError("A feature source has no network to adapt; use a torch source (sight.load or sight.wrap).")


class ProbabilitySource(FeatureSource):
    """Classifier that is known by its probabilities only; its windows are probabilities (B, K, 1).

    Probabilities are raised to the power `sharpness`; a higher one trusts each window more. Averaged votes, as of a
    random forest, are too even for methods that add up evidence over time (docs/python.md). Features are the centred
    logarithms of the probabilities, with the identity as head. Each class gets a share of `FLOOR` before, because a
    zero in votes is no certainty, and has no logarithm.
    """

    def __init__(self, classes: Sequence[str], sharpness: float = 1.0) -> None:
        if not (np.isfinite(sharpness) and sharpness > 0):
            raise ValueError(f"Expected a sharpness above 0, got {sharpness}; 1 keeps the probabilities.")
        super().__init__(np.eye(len(classes)), classes=tuple(classes))
        self.sharpness = sharpness

    def encode(self, x: Array) -> tuple[Array, Array]:
        """Return the centred logarithms of probabilities (B, K, 1), and the sharpened probabilities, both (B, K)."""
        classes = len(self.classes)
        if x.ndim != 3 or x.shape[1:] != (classes, 1):
            raise ValueError(f"Expected probabilities (B, {classes}, 1), got {x.shape}.")
        given = x[:, :, 0].astype(np.float64)
        check_probabilities(given, "Expected", "pass the output of predict_proba or softmax, not scores.")
        logits = self.sharpness * np.log((given + FLOOR / classes) / (1 + FLOOR))
        return logits - logits.mean(axis=1, keepdims=True), softmax(logits)
