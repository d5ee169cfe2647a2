"""T3A: test-time classifier adjustment, the head's rows give way to the wearer's own most certain features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sight.base import Needs, OutputAdapter, Source
from sight.methods._memory import Remembers, Supports
from sight.ops import entropy, softmax, unit
from sight.types import Array


@dataclass(kw_only=True)
class T3A(Remembers, OutputAdapter):
    """Answers by the direction of the features each class has been most certainly predicted for.

    Parameters
    ----------
    M
        Supports kept for each predicted class, those of lowest entropy.

    Notes
    -----
    It believes that the most certain predictions are right and that a class is one direction. On correlated streams
    neighbouring windows are near copies: a class fills its room with one segment, and a segment the source gets
    wrong with certainty turns the direction of that class for good. Nothing is forgotten with time.

    Supports start as the head's rows, each under the class the head itself gives it, so a class whose row the head
    takes for another has none until it is predicted; its score is then 0. A window votes for itself: it becomes
    a support before it is answered.

    Differs from the authors' code in two points. Windows are taken one by one, so that no window votes on an
    earlier one; their code takes a batch whole, and equals this one at batch 1. ``M = -1``, which there is meant to
    keep all and drops the least certain of each class, is refused: the state has a fixed size.

    Answers are the softmax of ``z . w_k``, the scores of the method; they order classes, they are not calibrated.

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
    M: int = 100

    def __post_init__(self) -> None:
        if self.M < 1:
            raise ValueError(f"t3a: expected M >= 1 supports per class, got {self.M}; choose a large M to keep all.")

    def _reset(self) -> None:
        self.supports_ = head_supports(self.source, self.M)
        self.directions_ = self.supports_.directions()  # (K, D)

    def _refine_one(self, z: Array, p: Array) -> Array:
        label = int(p.argmax())
        if self.supports_.add(z, label, float(entropy(p))):
            self.directions_[label] = unit(unit(self.supports_.features[label]).sum(axis=0))
        return softmax(self.directions_ @ z)

    def state_bytes(self) -> dict[str, int]:
        """Count bytes by kind, with every place for a support taken."""
        supports = self.supports_
        return {
            "prototypes": self.directions_.nbytes,
            "features": supports.features.nbytes,
            "statistics": supports.entropy.nbytes + supports.count.nbytes,
        }


def head_supports(source: Source, per_class: int) -> Supports:
    """Start supports from the head's rows, each under the class and with the entropy the head gives it."""
    weight = np.asarray(source.weight)
    supports = Supports(len(weight), per_class, weight.shape[1], weight.dtype)
    answers = softmax(weight @ weight.T + source.bias)  # (K, K)
    for row, answer in zip(weight, answers, strict=True):
        supports.add(row, int(answer.argmax()), float(entropy(answer)))
    return supports
