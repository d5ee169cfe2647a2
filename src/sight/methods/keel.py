"""Keel: rights a classifier that leans to one side for this wearer, and steadies it between changes of activity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sight.base import Needs, OutputAdapter
from sight.kernels import Fleet, KeelFleet, KeelRules, KeelSource, KeelState, backend
from sight.kernels.keel_reference import HIGHEST, LOWEST, TRACE, strength
from sight.ops import relaxed, unit, wrong_half_life
from sight.types import Array

#: Least share of a class that the source never saw.
RAREST = 1e-6


@dataclass(kw_only=True)
class Keel(OutputAdapter):
    """Takes the lasting part of the deviation for the wearer's shift, the sudden part for a change of activity.

    Parameters
    ----------
    prototypes
        Share of the second opinion, by the direction of the source's class means, in the evidence; 0 is the head alone.
    align
        Share of the lasting deviation of the mean evidence from the source's that is taken away; 0 is off.
    debias
        Strength of the correction that brings the shares of answered classes towards the source's; 0 is off.
    guard
        Whether `align` and `debias` are scaled by how many of the classes this life has covered so far.
    doubt
        Mean doubt of the source (1 less its highest probability) from which on `align` and `debias` have their full
        strength; a source that is surer than that is corrected less. 0 is off.
    surprise
        Sharpness of the Bayes factor for a change, from the step between neighbouring windows; 0 is off.
    temper
        Least weight of a window's evidence, where activities last and neighbours repeat each other; 1 is off.
    hazard
        Probability of a change from one window to the next to start from; evidence has full weight at or above it.
    rate
        Least rate at which the hazard is learned; 0 keeps the first.
    patience
        Windows that the source's shares and mean count for against the wearer's own.
    gap_half_life_s
        Half-life of the belief over a gap; None keeps it. The first window after a gap has no neighbour.

    Notes
    -----
    It works on K numbers a window, the centred logarithms of the answer. With `SourceStats` a cosine to each class
    mean, scaled to the head's own margin, is mixed in; without, `prototypes` and `align` are off and the source's
    shares are taken to be equal.

    It believes that errors of one wearer lean the same way all day, that a life which covers all classes has them in
    shares not far from the source's, and that neighbouring windows of one activity lie closer together than windows
    far apart. Where a life lacks most classes the guard holds it back; where a life has them all, but in very other
    shares, and the source is in doubt, it raises the rare ones too far. An error that keeps the shares right, such as
    two classes exchanged, is not seen; nor is one that the source is sure of throughout.

    The step between neighbours is measured on its own scale: ``delta`` is the distance of far windows over that of
    near ones, in standard deviations of the latter's logarithm, and a step ``u`` deviations above the mean multiplies
    the odds of a change by ``exp(surprise * delta * (u - delta / 2))``. In a shuffled stream delta is 0. The hazard
    is learned from changes that the shares of the classes do not explain. Time and memory are O(K D). The step itself
    is in `sight.kernels.keel_reference`, and compiled beside it. Of the trace, ``surprise`` is the probability of a
    change before the window, ``hazard`` the one learned so far, ``strength`` how far the lean was corrected; with
    `prototypes`, ``agreement`` is the share of 1 that both opinions have in common: where it is low, the window may be
    of no class at all.

    Examples
    --------
    >>> import numpy as np, sight
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> sight.refine(np.ones((2, 3)), p, np.eye(2, 3), method="keel").round(3).tolist()
    [[0.9, 0.1], [0.799, 0.201]]

    References
    ----------
    Ours; see docs/keel.md for where it comes from and what each part earns.
    """

    name: ClassVar[str] = "keel"
    needs: ClassVar[Needs] = Needs(source_stats="optional", gap="belief relaxes")
    prototypes: float = 0.3
    align: float = 0.6
    debias: float = 2.5
    guard: bool = True
    doubt: float = 0.05
    surprise: float = 1.5
    temper: float = 0.3
    hazard: float = 0.1
    rate: float = 0.005
    patience: float = 50.0
    gap_half_life_s: float | None = 30.0

    def __post_init__(self) -> None:
        shares = ("prototypes", "align", "doubt", "temper", "rate")
        wrong = [f"0 <= {key} <= 1, got {getattr(self, key)}" for key in shares if not 0 <= getattr(self, key) <= 1]
        amounts = ("debias", "surprise")
        wrong += [f"{key} >= 0, got {getattr(self, key)}" for key in amounts if not getattr(self, key) >= 0]
        if not LOWEST <= self.hazard <= HIGHEST:
            wrong.append(f"{LOWEST} <= hazard <= {HIGHEST}, got {self.hazard}")
        if not self.patience > 0:
            wrong.append(f"patience > 0, got {self.patience}")
        wrong += wrong_half_life(self.gap_half_life_s)
        if wrong:
            raise ValueError(f"keel: expected {'; '.join(wrong)}.")

    # --- the source -----------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        self._of_source = self.of_source()
        self._rules = self.rules()
        self._backend = backend(self.source.weight.dtype, "keel")

    def rules(self) -> KeelRules:
        """Return the fields as the kernels take them; without source statistics there is nothing to align to."""
        values = {name: getattr(self, name) for name in KeelRules._fields}
        return KeelRules(**values | {"align": 0.0 if self.source.stats is None else self.align})

    def of_source(self) -> KeelSource:
        """Return what the kernels take from the bound source: shares, expected evidence, class directions."""
        stats, classes = self.source.stats, self.n_classes
        if stats is None:
            return KeelSource(np.full(classes, 1 / classes), np.zeros(classes), 0.0, 0.0, np.empty(0), np.empty((0, 0)))
        prior = np.maximum(stats.prior.astype(np.float64), RAREST)
        prior = prior / prior.sum()
        weight, bias = self.source.weight.astype(np.float64), np.asarray(self.source.bias, np.float64)
        means, origin = stats.class_means.astype(np.float64), stats.feature_mean.astype(np.float64)
        directions = unit(means - origin)  # (K, D)
        seen = stats.prior > 0
        heads, cosines = means @ weight.T + bias, directions @ directions.T  # (K, K)
        wide, narrow = _margin(heads, seen), _margin(cosines, seen)
        share = self.prototypes if wide > 0 and narrow > 0 else 0.0
        scale = wide / narrow if share else 0.0
        expected = (1 - share) * _centred(weight @ origin + bias) + share * scale * _centred(prior @ cosines)
        return KeelSource(prior, expected, share, scale, origin, directions)

    # --- the stream -----------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        classes = self.n_classes
        self.belief_ = np.full(classes, 1 / classes)
        self.life_ = np.zeros(classes)  # sum of beliefs
        self.total_ = np.zeros(classes)  # sum of evidence
        self.previous_ = np.zeros(classes)  # evidence of the window before
        self.doubts_ = 0.0  # sum of doubts
        self.hazard_ = float(self.hazard)
        self.near_ = self.spread_ = self.far_ = 0.0  # mean and sum of squares of near steps, mean of far ones
        self.pairs_ = self.count_ = self.linked_ = 0

    def _refine(self, z: Array, p: Array) -> Array:
        state = self._packed()
        q, trace = self._backend.replay(z, p, state, self._of_source, self._rules)
        self.belief_, self.life_, self.total_, self.previous_ = state.vectors
        self.doubts_, self.hazard_, self.near_, self.spread_, self.far_, *counts = state.numbers.tolist()
        self.pairs_, self.count_, self.linked_ = map(int, counts)
        told = TRACE if self._of_source.share else TRACE[:-1]
        self._trace = dict(zip(told, trace.T, strict=False))
        return q

    def _packed(self) -> KeelState:
        """Copy the state into the arrays that the kernels take."""
        vectors = (self.belief_, self.life_, self.total_, self.previous_)
        steps, counts = (self.near_, self.spread_, self.far_), (self.pairs_, self.count_, self.linked_)
        return KeelState(np.array(vectors), np.array((self.doubts_, self.hazard_, *steps, *counts), np.float64))

    def _checked(self, z: Array, p: Array) -> tuple[Array, Array]:
        # The compiled check is ten times faster; the base's explains what is wrong.
        return (z, p) if self._backend.takes(z, p, self.source.weight) else super()._checked(z, p)

    def strength(self) -> float:
        """How far the lean is corrected, 0 to 1: the classes this life has covered, times the doubt of the source."""
        return strength(self._packed(), self._rules)

    def fleet(self, wearers: int) -> Fleet:
        """Make room for many wearers of the bound source, each answered as a clone of this adapter would."""
        head = np.asarray(self.source.weight)
        return KeelFleet(head, self._of_source, self._rules, wearers, self.clone().state(), self.gap_half_life_s)

    def _gap(self, seconds: float) -> None:
        self.belief_ = relaxed(self.belief_, seconds, self.gap_half_life_s)
        self.linked_ = 0 if seconds > 0 else self.linked_


def _centred(values: Array) -> Array:
    centred: Array = values - values.mean()
    return centred


def _margin(scores: Array, seen: Array) -> float:
    """Mean lead of its own score over the best other one, over class means (K, K) that were seen."""
    own = np.diag(scores)
    best = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores).max(axis=1)
    return float((own - best)[seen].mean()) if seen.any() else 0.0
