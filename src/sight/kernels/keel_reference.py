"""Keel's step in numpy, written for readers; every other implementation is checked against it.

State (`sight.kernels.states.KeelState`): the belief, the sum of beliefs (life), the sum of evidence (total), the
evidence of the window before (previous); the sum of doubts, the hazard, mean and sum of squares of near steps, mean of
far ones, how many pairs and windows there were, and whether the window before is a neighbour (linked).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sight.kernels.reference import sound
from sight.kernels.states import KeelState
from sight.ops import entropy, normalised, softmax, unit
from sight.types import Array

__all__ = ["KeelRules", "KeelSource", "many", "replay", "sound", "strength"]

BELIEF, LIFE, TOTAL, PREVIOUS = range(4)
DOUBTS, HAZARD, NEAR, SPREAD, FAR, PAIRS, COUNT, LINKED = range(8)
#: What is told of each window: the probability of a change before it, the hazard after it, how far its lean was
#: corrected, and how far the two opinions agree on it (NaN where there is one).
TRACE = ("surprise", "hazard", "strength", "agreement")

#: Floor of probabilities under a logarithm, and of squared distances.
TINY, STILL = 1e-30, 1e-6
#: The learned hazard stays between these, so that neither inertia nor forgetting can lock itself in.
LOWEST, HIGHEST = 0.01, 0.95
#: Windows that the first hazard counts for; pairs and variance that the spread of near steps starts from.
FIRST_WINDOWS, FIRST_PAIRS, FIRST_VARIANCE = 20, 5, 0.25
#: Bound of the logarithm of the Bayes factor.
CERTAIN = 50.0


class KeelRules(NamedTuple):
    """The fields of Keel as plain values; see `sight.methods.keel.Keel` for their meaning."""

    align: float  # 0 without source statistics
    debias: float
    guard: bool
    doubt: float
    surprise: float
    temper: float
    hazard: float
    rate: float
    patience: float


class KeelSource(NamedTuple):
    """What Keel takes from the source, all float64."""

    prior: Array  # (K,) shares of the classes, none of them 0
    expected: Array  # (K,) mean evidence
    share: float  # of the second opinion; 0 without source statistics, and what follows is then not read
    scale: float  # from cosines to the head's margin
    origin: Array  # (D,) mean feature
    directions: Array  # (K, D) from the mean feature to each class's, of length 1


def replay(z: Array, p: Array, state: KeelState, source: KeelSource, rules: KeelRules) -> tuple[Array, Array]:
    """Advance one wearer over windows in time order.

    Parameters
    ----------
    z, p
        Features (B, D) and raw probabilities (B, K).
    state
        Changed in place.

    Returns
    -------
    Refined probabilities (B, K), and `TRACE` of each window (B, 4).
    """
    q, trace = np.empty_like(p), np.empty((len(p), len(TRACE)))
    for t in range(len(p)):
        x, agreement = evidence(z[t], p[t], source)
        change, used = advance(x, state, source, rules)
        q[t] = state.vectors[BELIEF]
        trace[t] = change, state.numbers[HAZARD], used, agreement
    return q, trace


def many(
    z: Array, p: Array, states: KeelState, rows: Array, source: KeelSource, rules: KeelRules
) -> tuple[Array, Array]:
    """Advance each wearer of `rows` by one window of features (W, D) and raw probabilities (W, K).

    Parameters
    ----------
    states
        Of all wearers, stacked along a first axis; changed in place.
    rows
        Which wearer each window belongs to, (W,), nobody twice.
    """
    q, trace = np.empty_like(p), np.empty((len(p), len(TRACE)))
    for w, row in enumerate(rows):
        state = KeelState(states.vectors[row], states.numbers[row])
        now = slice(w, w + 1)
        q[now], trace[now] = replay(z[now], p[now], state, source, rules)
    return q, trace


def evidence(z: Array, p: Array, source: KeelSource) -> tuple[Array, float]:
    """Centred logarithms of the answer with the second opinion of the class means, (K,), and what both share of 1."""
    logits = _centred(np.log(np.maximum(p.astype(np.float64), TINY)))
    if not source.share:
        return logits, np.nan
    second = source.scale * (source.directions @ unit(z - source.origin))
    mixed = (1 - source.share) * logits + source.share * _centred(second)
    return mixed, float(np.minimum(p, softmax(second)).sum())


def advance(x: Array, state: KeelState, source: KeelSource, rules: KeelRules) -> tuple[float, float]:
    """Take the evidence of a window in; return the probability of a change before it and the strength used."""
    vectors, numbers = state
    numbers[DOUBTS] += 1 - softmax(x).max()
    shares = (vectors[LIFE] + rules.patience * source.prior) / (numbers[COUNT] + rules.patience)
    used = strength(state, rules)
    drift = (vectors[TOTAL] - numbers[COUNT] * source.expected) / (numbers[COUNT] + rules.patience)
    lean = rules.align * drift + rules.debias * np.log(shares / source.prior)
    likelihood = softmax(x - used * lean)
    change = 0.0
    if numbers[COUNT] == 0:
        vectors[BELIEF] = likelihood
    else:
        change = _change(x, state, rules)
        _filter(likelihood, shares, change, state, rules)
    vectors[LIFE] += vectors[BELIEF]
    vectors[TOTAL] += x
    vectors[PREVIOUS] = x
    numbers[COUNT] += 1
    numbers[LINKED] = 1
    return change, used


def strength(state: KeelState, rules: KeelRules) -> float:
    """How far the lean is corrected, 0 to 1: the classes this life has covered, times the doubt of the source."""
    vectors, numbers = state
    covered, doubtful = 1.0, 1.0
    if rules.guard:
        life = vectors[LIFE] / max(numbers[COUNT], 1)
        covered = max(float(np.exp(entropy(life))) - 1, 0.0) / (len(life) - 1)
    if rules.doubt:
        doubtful = (numbers[DOUBTS] / rules.doubt + rules.patience) / (numbers[COUNT] + 1 + rules.patience)
    return covered * min(float(doubtful), 1.0)


def _change(x: Array, state: KeelState, rules: KeelRules) -> float:
    """Probability of a change before this window, from the step to it; then learn how long steps are."""
    vectors, numbers = state
    change = hazard = float(numbers[HAZARD])
    if not (rules.surprise and numbers[LINKED]):
        return change
    step, near = _log_length(x - vectors[PREVIOUS]), numbers[NEAR]
    if numbers[PAIRS] >= FIRST_PAIRS:
        deviation = np.sqrt((numbers[SPREAD] + FIRST_PAIRS * FIRST_VARIANCE) / (numbers[PAIRS] + FIRST_PAIRS))
        delta = max((numbers[FAR] - near) / deviation, 0.0)
        factor = rules.surprise * delta * ((step - near) / deviation - delta / 2)
        odds = hazard / (1 - hazard) * np.exp(np.clip(factor, -CERTAIN, CERTAIN))
        change = float(odds / (1 + odds))
    numbers[PAIRS] += 1
    numbers[NEAR] += (step - near) / numbers[PAIRS]
    numbers[SPREAD] += (step - near) * (step - numbers[NEAR])
    # Two independent windows lie sqrt(2) times as far apart as one lies from their mean.
    far = _log_length(np.sqrt(2) * (x - vectors[TOTAL] / numbers[COUNT]))
    numbers[FAR] += (far - numbers[FAR]) / numbers[PAIRS]
    return change


def _filter(likelihood: Array, shares: Array, change: float, state: KeelState, rules: KeelRules) -> None:
    """One step of the hidden Markov model, and of its hazard."""
    vectors, numbers = state
    hazard = float(numbers[HAZARD])
    likelihood = likelihood ** (rules.temper + (1 - rules.temper) * min(1.0, hazard / rules.hazard))
    stayed = (1 - change) * vectors[BELIEF] * likelihood
    vectors[BELIEF] = normalised(stayed + change / len(stayed) * likelihood, fallback=likelihood)
    if rules.rate:
        drawn = change * (shares @ likelihood)
        target = drawn / max(drawn + stayed.sum(), TINY)
        rate = max(rules.rate, 1 / (FIRST_WINDOWS + numbers[COUNT]))
        numbers[HAZARD] = np.clip(hazard + rate * (target - hazard), LOWEST, HIGHEST)


def _centred(values: Array) -> Array:
    return values - values.mean()


def _log_length(values: Array) -> float:
    return 0.5 * float(np.log(values @ values + STILL))
