"""OATTA: order-aware test-time adaptation, a Bayes filter whose transitions are learned on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sight.base import Needs, OutputAdapter
from sight.ops import relaxed, wrong_half_life
from sight.types import Array

#: Added to every transition count, so that no class becomes unreachable.
FLOOR = 1e-6


@dataclass(kw_only=True)
class OATTA(OutputAdapter):
    """Filters the answers through transitions learned from the stream, and steps aside where order tells nothing.

    Parameters
    ----------
    s
        Stickiness of the transitions to start from, ``s I + (1 - s) / K``; 0 starts without opinion.
    c0
        Weight of those first transitions, in windows per row.
    e
        Rate at which transition counts move towards what was just seen; 0 keeps the first transitions.
    g
        Memory of the evidence the gate listens to.
    th
        Evidence, in nats per window, above which the filter answers instead of the source.
    carry
        What the next window's prior starts from: the filter's "posterior", or the "answer" the gate let through.
    counts
        Evidence for a transition: "two-slice" posterior of both windows, or "outer" product of two answers.
    gap_half_life_s
        Half-life of the belief over a gap; None keeps it.

    Notes
    -----
    It believes that activities follow each other by a Markov chain and that errors are independent given the
    activity. On correlated streams errors last as long as segments do: the filter then learns them as
    transitions and the gate, which asks only whether order predicts the *source's* answers, opens for them. On a
    shuffled stream every row tends to the class shares, so what is left is a correction of the class prior.

    The authors' code is not public; this completes the paper. Known are the recursion (prior from the transitions,
    likelihood proportional to the source's answer over a uniform class prior, posterior as their product), that
    transitions are learned online, and that a log-likelihood-ratio gate falls back to the source. Inferred are the
    learning rule and its rate, the transitions to start from, the gate's statistic (an exponential average of the
    log ratio of evidence under the learned and under a uniform prior), its threshold, and that the filter goes on
    behind a shut gate. Relaxing the belief over a gap is ours.

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
    needs: ClassVar[Needs] = Needs(gap="belief relaxes", completed=True)
    s: float = 0.0
    c0: float = 1.0
    e: float = 0.02
    g: float = 0.95
    th: float = 0.0
    carry: Literal["posterior", "answer"] = "posterior"
    counts: Literal["two-slice", "outer"] = "two-slice"
    gap_half_life_s: float | None = 30.0

    def __post_init__(self) -> None:
        shares = {key: getattr(self, key) for key in ("s", "e", "g")}
        wrong = [f"0 <= {key} <= 1, got {value}" for key, value in shares.items() if not 0 <= value <= 1]
        if not self.c0 > 0:
            wrong.append(f"c0 > 0, got {self.c0}")
        if self.carry not in ("posterior", "answer"):
            wrong.append(f"carry 'posterior' or 'answer', got {self.carry!r}")
        if self.counts not in ("two-slice", "outer"):
            wrong.append(f"counts 'two-slice' or 'outer', got {self.counts!r}")
        wrong += wrong_half_life(self.gap_half_life_s)
        if wrong:
            raise ValueError(f"oatta: expected {'; '.join(wrong)}.")

    def transitions(self) -> Array:
        """Return the transitions learned so far, (K, K); row i holds the probabilities of what follows class i."""
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

    def _refine_one(self, z: Array, p: Array) -> Array:  # noqa: ARG002 - features do not matter here
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
        answer = posterior if self.evidence_ > self.th else p
        seen = joint / total if self.counts == "two-slice" else np.outer(self.belief_, answer)
        self.counts_ = (1 - self.e) * self.counts_ + self.e * seen
        self.belief_ = (posterior if self.carry == "posterior" else answer).copy()
        return answer

    def _note(self) -> dict[str, float]:
        return {"evidence": self.evidence_, "gate": float(self.count_ > 1 and self.evidence_ > self.th)}

    def _gap(self, seconds: float) -> None:
        if self.count_:
            self.belief_ = relaxed(self.belief_, seconds, self.gap_half_life_s)
