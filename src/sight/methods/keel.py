"""Keel: rights a classifier that leans to one side for this wearer, and steadies it between changes of activity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sight.base import Needs, OutputAdapter
from sight.ops import entropy, normalised, relaxed, softmax, unit
from sight.types import Array

#: Floor of probabilities under a logarithm, and of squared distances.
TINY, STILL = 1e-30, 1e-6
#: The learned hazard stays between these, so that neither inertia nor forgetting can lock itself in.
LOWEST, HIGHEST = 0.01, 0.95
#: Windows that the first hazard counts for; pairs and variance that the spread of near steps starts from.
FIRST_WINDOWS, FIRST_PAIRS, FIRST_VARIANCE = 20, 5, 0.25


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
    is learned from changes that the shares of the classes do not explain. Time and memory are O(K D).

    Examples
    --------
    >>> import numpy as np, sight
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> sight.refine(np.ones((2, 3)), p, np.eye(2, 3), method="keel").round(3).tolist()
    [[0.9, 0.1], [0.799, 0.201]]

    References
    ----------
    Ours; see docs/beyond.md for where it comes from and what each part earns.
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
        wrong += [f"{key} >= 0, got {getattr(self, key)}" for key in ("debias", "surprise") if getattr(self, key) < 0]
        if not LOWEST <= self.hazard <= HIGHEST:
            wrong.append(f"{LOWEST} <= hazard <= {HIGHEST}, got {self.hazard}")
        if not self.patience > 0:
            wrong.append(f"patience > 0, got {self.patience}")
        if wrong:
            raise ValueError(f"keel: expected {'; '.join(wrong)}.")

    # --- the source -----------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        stats, classes = self.source.stats, self.n_classes
        self._prior = np.full(classes, 1 / classes)
        self._expected = np.zeros(classes)
        self._align, self._share = 0.0, 0.0
        if stats is None:
            return
        prior = np.maximum(stats.prior.astype(np.float64), STILL)
        self._prior = prior / prior.sum()
        weight, bias = self.source.weight.astype(np.float64), np.asarray(self.source.bias, np.float64)
        means, self._origin = stats.class_means.astype(np.float64), stats.feature_mean.astype(np.float64)
        self._directions = unit(means - self._origin)  # (K, D)
        seen = stats.prior > 0
        heads, cosines = means @ weight.T + bias, self._directions @ self._directions.T  # (K, K)
        wide, narrow = _margin(heads, seen), _margin(cosines, seen)
        self._align = self.align
        self._share = self.prototypes if wide > 0 and narrow > 0 else 0.0
        self._scale = wide / narrow if self._share else 0.0
        mean_logits = _centred(weight @ self._origin + bias)
        self._expected = (1 - self._share) * mean_logits
        self._expected += self._share * self._scale * _centred(self._prior @ cosines)

    def _evidence(self, z: Array, p: Array) -> Array:
        """Centred logarithms of the answer, with the second opinion of the class means, (K,)."""
        logits = _centred(np.log(np.maximum(p.astype(np.float64), TINY)))
        if not self._share:
            return logits
        cosines = self._directions @ unit(z - self._origin)
        return (1 - self._share) * logits + self._share * self._scale * _centred(cosines)

    # --- the stream -----------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        classes = self.n_classes
        self.belief_ = np.full(classes, 1 / classes)
        self.life_ = np.zeros(classes)  # sum of beliefs
        self.total_ = np.zeros(classes)  # sum of evidence
        self.doubts_ = 0.0  # sum of doubts
        self.previous_ = np.zeros(classes)
        self.hazard_ = float(self.hazard)
        self.near_ = self.spread_ = self.far_ = 0.0  # mean and sum of squares of near steps, mean of far ones
        self.pairs_ = self.count_ = self.linked_ = 0

    def _refine_one(self, z: Array, p: Array) -> Array:
        evidence = self._evidence(z, p)
        self.doubts_ += 1 - float(softmax(evidence).max())
        shares = (self.life_ + self.patience * self._prior) / (self.count_ + self.patience)
        likelihood = softmax(self._righted(evidence, shares))
        self._surprise = 0.0
        if self.count_ == 0:
            self.belief_ = likelihood
        else:
            self._surprise = self._change(evidence)
            self._filter(likelihood, shares, self._surprise)
        self.life_ = self.life_ + self.belief_
        self.total_ = self.total_ + evidence
        self.previous_ = evidence
        self.count_ += 1
        self.linked_ = 1
        return self.belief_

    def _righted(self, evidence: Array, shares: Array) -> Array:
        """Take the wearer's lasting lean away, as far as this life tells it from the life itself."""
        drift = (self.total_ - self.count_ * self._expected) / (self.count_ + self.patience)
        lean = self._align * drift + self.debias * np.log(shares / self._prior)
        righted: Array = evidence - self.strength() * lean
        return righted

    def strength(self) -> float:
        """How far the lean is corrected, 0 to 1: the classes this life has covered, times the doubt of the source."""
        covered, doubtful = 1.0, 1.0
        if self.guard:
            share = self.life_ / max(self.count_, 1)
            covered = max(float(np.exp(entropy(share))) - 1, 0.0) / (self.n_classes - 1)
        if self.doubt:
            doubtful = (self.doubts_ / self.doubt + self.patience) / (self.count_ + 1 + self.patience)
        return covered * min(doubtful, 1.0)

    def _change(self, evidence: Array) -> float:
        """Probability of a change before this window, from the step to it; then learn how long steps are."""
        if not (self.surprise and self.linked_):
            return self.hazard_
        step = _log_length(evidence - self.previous_)
        change = self.hazard_
        if self.pairs_ >= FIRST_PAIRS:
            deviation = np.sqrt((self.spread_ + FIRST_PAIRS * FIRST_VARIANCE) / (self.pairs_ + FIRST_PAIRS))
            delta = max((self.far_ - self.near_) / deviation, 0.0)
            surprise = self.surprise * delta * ((step - self.near_) / deviation - delta / 2)
            odds = self.hazard_ / (1 - self.hazard_) * np.exp(np.clip(surprise, -50, 50))
            change = float(odds / (1 + odds))
        self.pairs_ += 1
        before, self.near_ = self.near_, self.near_ + (step - self.near_) / self.pairs_
        self.spread_ += (step - before) * (step - self.near_)
        # Two independent windows lie sqrt(2) times as far apart as one lies from their mean.
        far = _log_length(np.sqrt(2) * (evidence - self.total_ / self.count_))
        self.far_ += (far - self.far_) / self.pairs_
        return change

    def _filter(self, likelihood: Array, shares: Array, change: float) -> None:
        """One step of the hidden Markov model, and of its hazard."""
        weight = self.temper + (1 - self.temper) * min(1.0, self.hazard_ / self.hazard)
        likelihood = likelihood**weight
        stayed = (1 - change) * self.belief_ * likelihood
        self.belief_ = normalised(stayed + change / self.n_classes * likelihood, fallback=likelihood)
        if self.rate:
            drawn = change * float(shares @ likelihood)
            target = drawn / max(drawn + float(stayed.sum()), TINY)
            step = max(self.rate, 1 / (FIRST_WINDOWS + self.count_))
            self.hazard_ = float(np.clip(self.hazard_ + step * (target - self.hazard_), LOWEST, HIGHEST))

    def _note(self) -> dict[str, float]:
        return {"surprise": self._surprise, "hazard": self.hazard_, "strength": self.strength()}

    def _gap(self, seconds: float) -> None:
        self.belief_ = relaxed(self.belief_, seconds, self.gap_half_life_s)
        self.linked_ = 0 if seconds > 0 else self.linked_


def _centred(values: Array) -> Array:
    centred: Array = values - values.mean()
    return centred


def _log_length(values: Array) -> float:
    return 0.5 * float(np.log(values @ values + STILL))


def _margin(scores: Array, seen: Array) -> float:
    """Mean lead of its own score over the best other one, over class means (K, K) that were seen."""
    own = np.diag(scores)
    best = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores).max(axis=1)
    return float((own - best)[seen].mean()) if seen.any() else 0.0
