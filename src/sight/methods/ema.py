"""Exponential moving average of the probabilities: the simplest smoother anybody would try first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sight.base import Needs, OutputAdapter
from sight.ops import relaxed, wrong_half_life
from sight.types import Array


@dataclass(kw_only=True)
class EMA(OutputAdapter):
    """Averages each answer with the ones before it.

    Parameters
    ----------
    a
        Weight of the past, 0 (source-only) to below 1.
    gap_half_life_s
        Half-life of the average over a gap; None keeps it.

    Notes
    -----
    It believes that errors are independent from window to window and that activities last. It answers late
    at every change, by about ``1 / (1 - a)`` windows, and cannot mend an error that lasts a whole segment.

    Examples
    --------
    >>> import numpy as np, sight
    >>> p = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> sight.refine(np.ones((2, 3)), p, np.eye(2, 3), method="ema", a=0.75).tolist()
    [[1.0, 0.0], [0.75, 0.25]]
    """

    name: ClassVar[str] = "ema"
    needs: ClassVar[Needs] = Needs(gap="belief relaxes")
    a: float = 0.8
    gap_half_life_s: float | None = 30.0

    def __post_init__(self) -> None:
        wrong = [] if 0 <= self.a < 1 else [f"0 <= a < 1, got {self.a}"]
        wrong += wrong_half_life(self.gap_half_life_s)
        if wrong:
            raise ValueError(f"ema: expected {'; '.join(wrong)}.")

    def _reset(self) -> None:
        self.belief_ = np.full(self.n_classes, 1 / self.n_classes, self.source.weight.dtype)
        self.count_ = 0

    def _refine_one(self, z: Array, p: Array) -> Array:  # noqa: ARG002 - features do not matter here
        self.belief_ = p.copy() if self.count_ == 0 else self.a * self.belief_ + (1 - self.a) * p
        self.count_ += 1
        return self.belief_

    def _gap(self, seconds: float) -> None:
        self.belief_ = relaxed(self.belief_, seconds, self.gap_half_life_s)
