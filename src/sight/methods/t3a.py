"""T3A: test-time classifier adjustment, a head made of the wearer's most certain features."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sight.base import Needs, OutputAdapter, Source
from sight.methods.feature_memory import Supports
from sight.methods.ops import entropy, softmax, unit
from sight.params import PositiveInt
from sight.types import Array


@dataclass(kw_only=True)
class T3A(OutputAdapter):
    """Classifies by the mean direction of the most certain features of each predicted class.

    Parameters
    ----------
    M
        Supports stored for each predicted class, those of lowest entropy.

    Notes
    -----
    Assumes that the most certain predictions are correct and that a class is one direction. On correlated streams
    neighbouring windows are nearly equal: one segment fills the supports of a class, and a segment that the source
    predicts wrongly with certainty changes the direction of that class permanently. Nothing is forgotten with time.

    The first supports are the head's rows, each under the class that the head predicts for it. A class whose row is
    predicted as another class has no support, and score 0, until it is predicted. A window becomes a support before its
    own prediction.

    Differs from the authors' code in two points. Windows are processed one by one, so that no window influences an
    earlier one; their code processes a batch at once, and is equal at batch 1. ``M = -1``, in their code meant to keep
    all supports although it drops the least certain of each class, is refused: the state has a fixed size. The default
    of `M`, 100, is the largest value of their grid (1, 5, 20, 50, 100, all); they choose a value on validation data.

    Probabilities are the softmax of ``z . w_k``, the scores of the method; they rank classes but are not calibrated.

    Examples
    --------
    >>> import numpy as np, sight
    >>> z = np.array([[0.6, 0.8], [0.6, 0.8], [0.75, 0.66]])
    >>> p = np.array([[0.1, 0.9], [0.1, 0.9], [0.55, 0.45]])
    >>> sight.refine(z, p, np.eye(2), method="t3a", M=2).argmax(axis=1).tolist()
    [1, 1, 1]

    References
    ----------
    Y. Iwasawa, Y. Matsuo: Test-Time Classifier Adjustment Module for Model-Agnostic Domain Generalization. NeurIPS
    2021. https://openreview.net/forum?id=e_yvNqkJKAW.
    """

    name: ClassVar[str] = "t3a"
    needs: ClassVar[Needs] = Needs(gap="ignored")
    M: PositiveInt = 100

    def _reset(self) -> None:
        self.supports_ = head_supports(self.source, self.M)
        self.directions_ = self.supports_.directions()  # (K, D)

    def _max_state_bytes(self, head: Array) -> int:
        return Supports.nbytes(len(head), head.shape[1], self.M, head.itemsize) + head.nbytes

    def _refine_one(self, z: Array, p: Array) -> Array:
        label = int(p.argmax())
        if self.supports_.add(z, label, float(entropy(p))):
            self.directions_[label] = unit(unit(self.supports_.features[label]).sum(axis=0))
        return softmax(self.directions_ @ z)

    def state_bytes(self) -> dict[str, int]:
        supports = self.supports_
        return {
            "prototypes": self.directions_.nbytes,
            "features": supports.features.nbytes,
            "statistics": supports.entropy.nbytes + supports.count.nbytes,
        }


def head_supports(source: Source, per_class: int) -> Supports:
    """Return supports with the head's rows, each with the class and the entropy that the head predicts for it."""
    weight = np.asarray(source.weight)
    supports = Supports(len(weight), per_class, weight.shape[1], weight.dtype)
    probabilities = softmax(weight @ weight.T + source.bias)  # (K, K)
    for row, p in zip(weight, probabilities, strict=True):
        supports.add(row, int(p.argmax()), float(entropy(p)))
    return supports
