"""OATTA: order-aware test-time adaptation, a Bayes filter that learns its transitions online."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sight.base import Needs, OutputAdapter
from sight.methods.ops import relax
from sight.params import GapHalfLife, Positive, UnitInterval
from sight.types import Array

#: Added to every transition count, so that every class stays reachable.
FLOOR = 1e-6


@dataclass(kw_only=True)
class OATTA(OutputAdapter):
    """Filters predictions with transitions learned from the stream; returns the source's where order does not help.

    Parameters
    ----------
    s
        Stickiness of the initial transitions, ``s I + (1 - s) / K``; 0 starts with uniform ones.
    c0
        Weight of the initial transitions, in windows per row.
    e
        Rate at which transition counts move towards the latest transition; 0 keeps the initial transitions.
    g
        Decay of the average evidence that opens the gate.
    th
        Evidence, in nats per window, above which the filter's posterior is returned instead of the source's
        probabilities.
    carry
        Start of the next window's prior: the filter's "posterior", or the "output", the returned probabilities.
    counts
        Evidence for a transition: "two-slice" posterior of both windows, or "outer" product of both predictions.
    gap_half_life_s
        Half-life of the belief over a gap; None keeps it.

    Notes
    -----
    Assumes that activities follow each other by a Markov chain and that errors are independent given the activity. On
    correlated streams errors last as long as segments: the filter then learns them as transitions, and the gate opens
    for them, since it only tests whether order predicts the *source's* predictions. On a shuffled stream every row
    approaches the class frequencies, so that the method reduces to a correction of the class prior.

    The authors' code is not public; this implementation completes the paper. The paper gives the recursion (prior from
    the transitions, likelihood proportional to the source's probabilities over a uniform class prior, posterior as
    their product), states that transitions are learned online, and that a log-likelihood-ratio gate falls back to the
    source. Inferred are the learning rule and its rate, the initial transitions, the statistic of the gate (an
    exponential average of the log ratio of evidence under the learned and under a uniform prior), its threshold, and
    that the filter continues while the gate is closed. Relaxing the belief over a gap is ours.

    Examples
    --------
    >>> import numpy as np, sight
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> sight.refine(np.ones((2, 3)), p, np.eye(2, 3), method="oatta", s=0.9).round(3).tolist()
    [[0.9, 0.1], [0.4, 0.6]]
    >>> sight.refine(np.ones((2, 3)), p, np.eye(2, 3), method="oatta", s=0.9, th=-1).round(3).tolist()
    [[0.9, 0.1], [0.804, 0.196]]

    References
    ----------
    Y. K. Kim, O. Schlesinger, Q. Wu, J. M. Di Martino, G. Sapiro: Order-Aware Test-Time Adaptation: Leveraging
    Temporal Dynamics for Robust Streaming Inference. 2026. arXiv:2601.21012.
    """

    name: ClassVar[str] = "oatta"
    needs: ClassVar[Needs] = Needs(features="no", gap="belief relaxes", completed=True)
    s: UnitInterval = 0.0
    c0: Positive = 1.0
    e: UnitInterval = 0.02
    g: UnitInterval = 0.95
    th: float = 0.0
    carry: Literal["posterior", "output"] = "posterior"
    counts: Literal["two-slice", "outer"] = "two-slice"
    gap_half_life_s: GapHalfLife = 30.0

    def transitions(self) -> Array:
        """Return the learned transitions, (K, K); row i holds the probabilities of the class after class i."""
        counts: Array = self.counts_ + FLOOR
        total: Array = counts.sum(axis=1, keepdims=True)
        return counts / total

    def _reset(self) -> None:
        classes = self.n_classes
        first = self.s * np.eye(classes) + (1 - self.s) / classes
        self.counts_ = (self.c0 * first).astype(self.source.weight.dtype)
        self.belief_ = np.full(classes, 1 / classes, self.source.weight.dtype)
        self.evidence_ = 0.0
        self.count_ = 0

    def _max_state_bytes(self, head: Array) -> int:
        return 8 * (len(head) ** 2 + len(head) + 2)

    def _refine_one(self, z: Array, p: Array) -> Array:  # noqa: ARG002 - features are not used
        self.count_ += 1
        if self.count_ == 1:
            self.belief_ = p.copy()
            return p
        transitions = self.transitions()
        joint = self.belief_[:, None] * transitions * p  # (K, K), previous class by present class
        total = joint.sum()
        posterior = joint.sum(axis=0) / total
        ratio = float(np.log(self.n_classes * total / p.sum()))
        self.evidence_ = self.g * self.evidence_ + (1 - self.g) * ratio
        q = posterior if self.evidence_ > self.th else p
        transition = joint / total if self.counts == "two-slice" else np.outer(self.belief_, q)
        self.counts_ = (1 - self.e) * self.counts_ + self.e * transition
        self.belief_ = (posterior if self.carry == "posterior" else q).copy()
        return q

    def _note(self) -> dict[str, float]:
        return {"evidence": self.evidence_, "gate": float(self.count_ > 1 and self.evidence_ > self.th)}

    def _gap(self, seconds: float) -> None:
        if self.count_:
            self.belief_ = relax(self.belief_, seconds, self.gap_half_life_s)
