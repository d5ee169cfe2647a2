"""The Keel method."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from sight.base import Needs
from sight.methods.compiled import CompiledAdapter, StateArrays, StateLayout
from sight.methods.keel.reference import centred, coverage
from sight.methods.keel.state import (
    BROAD,
    COUNT,
    FREQUENCIES,
    HIGHEST,
    LAYOUT,
    LOWEST,
    TRACE,
    KeelParams,
    SourceTerms,
)
from sight.methods.ops import unit
from sight.params import GapHalfLife, NonNegative, Positive, Range, UnitInterval
from sight.types import Array

#: Least prior of a class that is missing in the training data.
RAREST = 1e-6


@dataclass(kw_only=True)
class Keel(CompiledAdapter):
    """Removes the wearer's persistent bias from the evidence, then filters it with a hidden Markov model.

    Parameters
    ----------
    prototypes
        Weight, in the evidence, of the directions to the source's class means; 0 uses the head alone.
    align
        Share of the persistent deviation of the mean evidence from the source's that is removed; 0 turns it off.
    debias
        Strength of the correction that moves the frequencies of predicted classes towards the source's prior; 0 turns
        it off.
    penalty
        Most that `debias` lowers the evidence of a frequent class, in nats. It raises rare classes by up to 4: a
        class that fills the day is plausible, a class that never comes is less so.
    pooled
        Share of the correction (`align`, `debias`, `penalty`) that is applied to a source trained on many subjects,
        which is less biased for a new wearer. With n subjects the share is ``pooled + (1 - pooled) / n``, so that a
        source of a single subject is corrected in full; an unknown number counts as many. 1 turns the scaling off.
    surprise
        Sharpness of the Bayes factor for a change, computed from the distance between neighbouring windows; 0 turns it
        off.
    temper
        Least weight of a window's evidence, reached where activities last and neighbours repeat each other; 1 turns
        tempering off.
    hazard
        Initial probability of a change from one window to the next; evidence has full weight at or above it.
    rate
        Least rate at which the hazard is learned; 0 keeps the initial one.
    patience
        Number of windows that the source's prior and mean count for against the wearer's own.
    veto
        On whole recordings only: number of raw predictions of the refined class that a bout needs for each raw
        prediction of the class that is replaced, divided by the number of source subjects; otherwise the bout keeps the
        raw ones. It applies if the recording has few classes (strength below one half); an unknown number of subjects
        counts as many. 0 turns it off.
    gap_half_life_s
        Half-life of the belief over a gap; None keeps it. The first window after a gap has no neighbour.

    Notes
    -----
    The evidence of a window is K numbers, the centred logarithms of its probabilities. With `SourceStats`, the cosines
    to the class means, scaled to the head's margin, are mixed in. Without, `prototypes` and `align` have no effect and
    the prior is uniform.

    Assumes that the errors for one wearer are biased in the same way all day, that a wearer whose day covers all
    classes has them with frequencies not far from the source's prior, and that neighbouring windows of one activity are
    closer together than windows far apart. If a day lacks most classes, coverage limits the correction. If a day has
    all classes with very different frequencies and the source is uncertain, rare classes are raised too far. Errors
    that keep the frequencies, such as two exchanged classes, are not noticed; nor are errors of which the source is
    certain throughout.

    The distance between neighbours is measured on its own scale: ``delta`` is the distance of far windows over that of
    near ones, in standard deviations of the latter's logarithm. A distance ``u`` deviations above the mean multiplies
    the odds of a change by ``exp(surprise * delta * (u - delta / 2))``. In a shuffled stream delta is 0. The hazard is
    learned from how often the class changes; repeats that the class frequencies explain do not lower it. Time and
    memory are O(K D). The step is in `sight.methods.keel.reference`.

    In the trace, ``surprise`` is the probability of a change before the window, ``hazard`` the learned one,
    ``strength`` the share of the bias correction that was applied. With `prototypes`, ``agreement`` is the overlap of
    the predictions by head and by class means: where it is low, the window may belong to no class.

    Examples
    --------
    >>> import numpy as np, sight
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> sight.refine(np.ones((2, 3)), p, np.eye(2, 3), method="keel").round(3).tolist()
    [[0.9, 0.1], [0.749, 0.251]]

    References
    ----------
    Ours; see docs/keel.md for its derivation and the effect of each part.
    """

    name: ClassVar[str] = "keel"
    needs: ClassVar[Needs] = Needs(source_stats="optional", features="optional", gap="belief relaxes")
    change_trace: ClassVar[str | None] = "surprise"
    layout: ClassVar[StateLayout] = LAYOUT
    trace_names: ClassVar[tuple[str, ...]] = TRACE
    numpy_step: ClassVar[str] = "sight.methods.keel.reference:step"
    numba_step: ClassVar[str] = "sight.methods.keel.compiled:advance"
    fused_step: ClassVar[str | None] = "sight.methods.keel.fused:KeelStep"
    prototypes: UnitInterval = 0.3
    align: UnitInterval = 0.2
    debias: NonNegative = 4.0
    penalty: NonNegative = 0.5
    pooled: UnitInterval = 0.5
    surprise: NonNegative = 1.5
    temper: UnitInterval = 0.5
    hazard: Annotated[float, Range(at_least=LOWEST, at_most=HIGHEST)] = 0.2
    rate: UnitInterval = 0.005
    patience: Positive = 50.0
    veto: NonNegative = 3.0
    gap_half_life_s: GapHalfLife = 30.0

    def strength(self) -> float:
        """Return the share, 0 to 1, of the bias correction that is applied at present."""
        state = StateArrays(*(array[0] for array in self.states.arrays))
        return coverage(state.vectors[FREQUENCIES] / max(state.numbers[COUNT], 1))

    def settle(self, p: Array, q: Array) -> Array:
        """Return `q` (N, K) of a whole recording, except for raw predictions that `veto` keeps."""
        stats = self.source.stats
        ratio = self.veto / stats.subjects if stats and stats.subjects else 0.0
        if not (ratio and len(q)) or coverage(q.mean(axis=0, dtype=np.float64)) >= BROAD:
            return q
        return np.where(vetoed(p.argmax(axis=1), q.argmax(axis=1), ratio, self.n_classes)[:, None], p, q)

    def correction(self, subjects: int) -> dict[str, float]:
        """Return `align`, `debias` and `penalty` for a source trained on this many subjects; 0 if unknown."""
        share = self.pooled + (1 - self.pooled) / subjects if subjects else self.pooled
        return {"align": share * self.align, "debias": share * self.debias, "penalty": share * self.penalty}

    def _constants(self) -> tuple[Any, ...]:
        values, stats = self.params(), self.source.stats
        values |= self.correction(stats.subjects if stats else 0)
        if stats is None:
            values["align"] = 0.0  # there is nothing to align to
        return self._terms(), KeelParams(**{name: values[name] for name in KeelParams._fields})

    def _terms(self) -> SourceTerms:
        stats, classes = self.source.stats, self.n_classes
        if stats is None:
            uniform = np.full(classes, 1 / classes)
            return SourceTerms(uniform, np.zeros(classes), 0.0, 0.0, np.empty(0), np.empty((0, 0)))
        prior = np.maximum(stats.prior.astype(np.float64), RAREST)
        prior = prior / prior.sum()
        weight, bias = self.source.weight.astype(np.float64), np.asarray(self.source.bias, np.float64)
        means, origin = stats.class_means.astype(np.float64), stats.feature_mean.astype(np.float64)
        directions = unit(means - origin)  # (K, D)
        present = stats.prior > 0
        heads, cosines = means @ weight.T + bias, directions @ directions.T  # (K, K)
        wide, narrow = _margin(heads, present), _margin(cosines, present)
        share = self.prototypes if wide > 0 and narrow > 0 else 0.0
        scale = wide / narrow if share else 0.0
        expected = (1 - share) * centred(weight @ origin + bias) + share * scale * centred(prior @ cosines)
        return SourceTerms(prior, expected, share, scale, origin, directions)

    def _initial(self) -> dict[str, Any]:
        return {"belief": 1 / self.n_classes, "hazard": self.hazard}

    def name_trace(self, trace: Array) -> dict[str, Array]:
        named = super().name_trace(trace)
        if not self.constants[0].share:
            del named["agreement"]
        return named


def vetoed(raw: Array, refined: Array, ratio: float, classes: int) -> Array:
    """Return (N,) whether the raw class of a window is too frequent, in its bout of a refined class, to be replaced.

    The refined class must have `ratio` times as many raw predictions in the bout.
    """
    bout = np.cumsum(np.r_[False, refined[1:] != refined[:-1]])
    votes = np.bincount(bout * classes + raw, minlength=(bout[-1] + 1) * classes).reshape(-1, classes)
    vetoed: Array = (raw != refined) & (votes[bout, refined] < ratio * votes[bout, raw])
    return vetoed


def _margin(scores: Array, present: Array) -> float:
    """Return the mean lead of the own score over the best other one, over present classes; scores are (K, K)."""
    own = np.diag(scores)
    best = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores).max(axis=1)
    return float((own - best)[present].mean()) if present.any() else 0.0
