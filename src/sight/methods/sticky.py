"""The sticky filter: a hidden Markov model with one parameter, the probability that the activity stays."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from sight.base import Needs, OutputAdapter
from sight.methods.ops import normalise, relax
from sight.params import GapHalfLife, Range, UnitInterval
from sight.types import Array

#: Bounds of the learned probability, so that the filter can neither stop filtering nor freeze.
LEAST_STAY, MOST_STAY = 0.5, 0.998


@dataclass(kw_only=True)
class Sticky(OutputAdapter):
    """Multiplies the probabilities of each window with a prior that the activity stayed the same.

    Parameters
    ----------
    s
        Weight of the previous belief in the prior ``s q + (1 - s) / K``; 0 is the source alone.
    gap_half_life_s
        Half-life of the belief over a gap; None keeps it.

    Notes
    -----
    Assumes that errors are independent given the activity. It counts overlapping windows as independent evidence, so
    that it becomes too certain on them. With one source subject, where whole segments are wrong, it makes more windows
    wrong.

    Examples
    --------
    >>> import numpy as np, sight
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> sight.refine(np.ones((2, 3)), p, np.eye(2, 3), method="sticky").round(3).tolist()
    [[0.9, 0.1], [0.804, 0.196]]
    """

    name: ClassVar[str] = "sticky"
    needs: ClassVar[Needs] = Needs(features="no", gap="belief relaxes")
    s: Annotated[float, Range(at_least=0, below=1)] = 0.9
    gap_half_life_s: GapHalfLife = 30.0

    def _reset(self) -> None:
        self.belief_ = np.full(self.n_classes, 1 / self.n_classes, self.source.weight.dtype)
        self.count_ = 0

    def _max_state_bytes(self, head: Array) -> int:
        return 8 * (len(head) + 2)

    def _refine_one(self, z: Array, p: Array) -> Array:  # noqa: ARG002 - features are not used
        self.belief_ = p.copy() if self.count_ == 0 else self._filter(p, self.s)
        self.count_ += 1
        return self.belief_

    def _filter(self, p: Array, stay: float) -> Array:
        prior = stay * self.belief_ + (1 - stay) / self.n_classes
        return normalise(p * prior, fallback=p)

    def _gap(self, seconds: float) -> None:
        self.belief_ = relax(self.belief_, seconds, self.gap_half_life_s)


@dataclass(kw_only=True)
class StickyLearned(Sticky):
    """Sticky filter that learns how long the wearer's activities last.

    Parameters
    ----------
    s
        Initial probability that the activity stays.
    rate
        Rate at which it moves, at each window, towards the posterior probability that the activity stayed.

    Notes
    -----
    The posterior is that of "stayed" against "drawn anew" under the same two-part prior. The learned value stays in
    [0.5, 0.998], so that the filter can neither freeze nor stop filtering.
    """

    name: ClassVar[str] = "sticky-learned"
    rate: UnitInterval = 0.02

    def _reset(self) -> None:
        super()._reset()
        self.stay_ = float(np.clip(self.s, LEAST_STAY, MOST_STAY))

    def _filter(self, p: Array, stay: float) -> Array:  # noqa: ARG002 - the learned value is used
        stayed = self.stay_ * float(p @ self.belief_)
        fresh = (1 - self.stay_) * float(p.mean())
        belief = super()._filter(p, self.stay_)
        if stayed + fresh > 0:
            target = stayed / (stayed + fresh)
            self.stay_ = float(np.clip(self.stay_ + self.rate * (target - self.stay_), LEAST_STAY, MOST_STAY))
        return belief

    def _note(self) -> dict[str, float]:
        return {"stay": self.stay_}
