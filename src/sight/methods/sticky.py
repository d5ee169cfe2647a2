"""The sticky filter: a hidden Markov model with one number, how likely an activity is to last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sight.base import Needs, OutputAdapter
from sight.ops import normalised, relaxed, wrong_half_life
from sight.types import Array


@dataclass(kw_only=True)
class Sticky(OutputAdapter):
    """Multiplies each answer with a prior that the activity stayed.

    Parameters
    ----------
    s
        Weight of the previous belief in the prior ``s q + (1 - s) / K``; 0 is source-only.
    gap_half_life_s
        Half-life of the belief over a gap; None keeps it.

    Notes
    -----
    It believes that errors are independent given the activity. It treats overlapping windows as fresh
    evidence each, so it grows too sure on them, and with one source subject, where whole segments are wrong,
    it makes them more wrong.

    Examples
    --------
    >>> import numpy as np, sight
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> sight.refine(np.ones((2, 3)), p, np.eye(2, 3), method="sticky").round(3).tolist()
    [[0.9, 0.1], [0.804, 0.196]]
    """

    name: ClassVar[str] = "sticky"
    needs: ClassVar[Needs] = Needs(gap="belief relaxes")
    s: float = 0.9
    gap_half_life_s: float | None = 30.0

    def __post_init__(self) -> None:
        wrong = [] if 0 <= self.s < 1 else [f"0 <= s < 1, got {self.s}"]
        wrong += wrong_half_life(self.gap_half_life_s)
        if wrong:
            raise ValueError(f"{self.name}: expected {'; '.join(wrong)}.")

    def _reset(self) -> None:
        self.belief_ = np.full(self.n_classes, 1 / self.n_classes, self.source.weight.dtype)
        self.count_ = 0

    def _refine_one(self, z: Array, p: Array) -> Array:  # noqa: ARG002 - features do not matter here
        if self.count_ == 0:
            self.belief_ = p.copy()
        else:
            prior = self.s * self.belief_ + (1 - self.s) / self.n_classes
            self.belief_ = normalised(p * prior, fallback=p)
        self.count_ += 1
        return self.belief_

    def _gap(self, seconds: float) -> None:
        self.belief_ = relaxed(self.belief_, seconds, self.gap_half_life_s)


@dataclass(kw_only=True)
class StickyLearned(Sticky):
    """The sticky filter that learns how long this wearer's activities last.

    Parameters
    ----------
    s
        Stickiness to start from.
    rate
        How far the stickiness moves, at each window, towards the posterior probability of having stayed.

    Notes
    -----
    The posterior of "stayed" against "drawn afresh" under the same two-part prior; the learned value is kept
    in [0.5, 0.998] so that neither inertia nor forgetting can lock itself in.
    """

    name: ClassVar[str] = "sticky-learned"
    rate: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rate <= 1:
            raise ValueError(f"{self.name}: expected 0 <= rate <= 1, got {self.rate}.")

    def _reset(self) -> None:
        super()._reset()
        self.stay_ = float(np.clip(self.s, 0.5, 0.998))

    def _refine_one(self, z: Array, p: Array) -> Array:  # noqa: ARG002 - features do not matter here
        if self.count_ == 0:
            self.belief_ = p.copy()
        else:
            stayed = self.stay_ * float(p @ self.belief_)
            fresh = (1 - self.stay_) * float(p.mean())
            prior = self.stay_ * self.belief_ + (1 - self.stay_) / self.n_classes
            self.belief_ = normalised(p * prior, fallback=p)
            if stayed + fresh > 0:
                target = stayed / (stayed + fresh)
                self.stay_ = float(np.clip(self.stay_ + self.rate * (target - self.stay_), 0.5, 0.998))
        self.count_ += 1
        return self.belief_

    def _note(self) -> dict[str, float]:
        return {"stay": self.stay_}
