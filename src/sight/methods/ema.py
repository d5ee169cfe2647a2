"""Exponential moving average of the probabilities."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from sight.base import Needs, OutputAdapter
from sight.methods.ops import relax
from sight.params import GapHalfLife, Range
from sight.types import Array


@dataclass(kw_only=True)
class EMA(OutputAdapter):
    """Averages the probabilities of each window with the previous average.

    Parameters
    ----------
    a
        Weight of the previous average, from 0 (source only) to below 1.
    gap_half_life_s
        Half-life of the average over a gap; None keeps it.

    Notes
    -----
    Assumes that errors are independent from window to window and that activities last. Follows each change late, by
    about ``1 / (1 - a)`` windows, and cannot correct an error that lasts a whole segment.

    Examples
    --------
    >>> import numpy as np, sight
    >>> p = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> sight.refine(np.ones((2, 3)), p, np.eye(2, 3), method="ema", a=0.75).tolist()
    [[1.0, 0.0], [0.75, 0.25]]
    """

    name: ClassVar[str] = "ema"
    needs: ClassVar[Needs] = Needs(features="no", gap="belief relaxes")
    a: Annotated[float, Range(at_least=0, below=1)] = 0.8
    gap_half_life_s: GapHalfLife = 30.0

    def _reset(self) -> None:
        self.belief_ = np.full(self.n_classes, 1 / self.n_classes, self.source.weight.dtype)
        self.count_ = 0

    def _max_state_bytes(self, head: Array) -> int:
        return 8 * (len(head) + 1)

    def _refine_one(self, z: Array, p: Array) -> Array:  # noqa: ARG002 - features are not used
        self.belief_ = p.copy() if self.count_ == 0 else self.a * self.belief_ + (1 - self.a) * p
        self.count_ += 1
        return self.belief_

    def _gap(self, seconds: float) -> None:
        self.belief_ = relax(self.belief_, seconds, self.gap_half_life_s)
