"""Keel's step compiled: the reference's function without temporary arrays.

As in `sight.kernels.compiled`, one entry serves a window, a recording and a fleet, only sums may be reordered, and a
loop adds up or writes, never both. All arithmetic is in float64, whatever the type of the features.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sight.kernels.compiled import ONE, _exact, _sums, plain, sound
from sight.kernels.keel_reference import (
    BELIEF,
    CERTAIN,
    COUNT,
    DOUBTS,
    FAR,
    FIRST_PAIRS,
    FIRST_VARIANCE,
    FIRST_WINDOWS,
    HAZARD,
    HIGHEST,
    LIFE,
    LINKED,
    LOWEST,
    NEAR,
    PAIRS,
    PREVIOUS,
    SPREAD,
    STILL,
    TINY,
    TOTAL,
    TRACE,
    KeelRules,
    KeelSource,
)
from sight.kernels.states import KeelState
from sight.types import Array

__all__ = ["many", "replay", "sound"]

NORM_FLOOR = 1e-8  # of `sight.ops.unit`


@lru_cache
def encode(rules: KeelRules, share: float, scale: float) -> Array:
    """Write rules and scalars as one vector: an array crosses into compiled code faster than a tuple."""
    return np.array([*rules, share, scale], np.float64)


@_exact
def _away(z, origin, away):
    for i in range(len(z)):
        away[i] = np.float64(z[i]) - origin[i]


@_sums
def _product(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@_exact
def _centre(values):
    total = 0.0
    for value in values:
        total += value
    mean = total / len(values)
    for k in range(len(values)):
        values[k] -= mean


@_exact
def _softmax(values):
    """Turn logits into probabilities, in place."""
    top, total = values.max(), 0.0
    for k in range(len(values)):
        values[k] = np.exp(values[k] - top)
        total += values[k]
    for k in range(len(values)):
        values[k] /= total


@_exact
def _evidence(z, p, origin, directions, share, scale, away, x, opinion):
    """Fill x with the centred logarithms of the answer and the second opinion; return what both share of 1."""
    for k in range(len(x)):
        x[k] = np.log(max(np.float64(p[k]), TINY))
    _centre(x)
    if share == 0:
        return np.nan
    _away(z, origin, away)
    length = max(np.sqrt(_product(away, away)), NORM_FLOOR)
    for k in range(len(x)):
        opinion[k] = scale * _product(directions[k], away) / length
    _centre(opinion)
    for k in range(len(x)):
        x[k] = (1 - share) * x[k] + share * opinion[k]
    _softmax(opinion)
    both = 0.0
    for k in range(len(x)):
        both += min(np.float64(p[k]), opinion[k])
    return both


@_exact
def _strength(life, numbers, rules):
    covered, doubtful = 1.0, 1.0
    if rules.guard:
        spread, count = 0.0, max(numbers[COUNT], 1.0)
        for value in life:
            if value > 0:
                spread -= value / count * np.log(value / count)
        covered = max(np.exp(spread) - 1, 0.0) / (len(life) - 1)
    if rules.doubt:
        doubtful = (numbers[DOUBTS] / rules.doubt + rules.patience) / (numbers[COUNT] + 1 + rules.patience)
    return covered * min(doubtful, 1.0)


@_exact
def _righted(x, vectors, numbers, prior, expected, rules, shares, likelihood):
    """Fill the shares of the classes and the likelihood without the wearer's lean; return how far it was corrected."""
    whole, used = numbers[COUNT] + rules.patience, _strength(vectors[LIFE], numbers, rules)
    for k in range(len(x)):
        shares[k] = (vectors[LIFE, k] + rules.patience * prior[k]) / whole
        drift = (vectors[TOTAL, k] - numbers[COUNT] * expected[k]) / whole
        likelihood[k] = x[k] - used * (rules.align * drift + rules.debias * np.log(shares[k] / prior[k]))
    _softmax(likelihood)
    return used


@_exact
def _change(x, vectors, numbers, rules):
    """Probability of a change before this window, from the step to it; then learn how long steps are."""
    hazard = numbers[HAZARD]
    if not (rules.surprise and numbers[LINKED]):
        return hazard
    here, there = 0.0, 0.0
    for k in range(len(x)):
        here += (x[k] - vectors[PREVIOUS, k]) ** 2
        there += 2 * (x[k] - vectors[TOTAL, k] / numbers[COUNT]) ** 2
    step, far, near, change = 0.5 * np.log(here + STILL), 0.5 * np.log(there + STILL), numbers[NEAR], hazard
    if numbers[PAIRS] >= FIRST_PAIRS:
        deviation = np.sqrt((numbers[SPREAD] + FIRST_PAIRS * FIRST_VARIANCE) / (numbers[PAIRS] + FIRST_PAIRS))
        delta = max((numbers[FAR] - near) / deviation, 0.0)
        factor = rules.surprise * delta * ((step - near) / deviation - delta / 2)
        odds = hazard / (1 - hazard) * np.exp(min(max(factor, -CERTAIN), CERTAIN))
        change = odds / (1 + odds)
    numbers[PAIRS] += 1
    numbers[NEAR] += (step - near) / numbers[PAIRS]
    numbers[SPREAD] += (step - near) * (step - numbers[NEAR])
    numbers[FAR] += (far - numbers[FAR]) / numbers[PAIRS]
    return change


@_exact
def _filter(likelihood, shares, change, belief, numbers, rules):
    """One step of the hidden Markov model, and of its hazard; the likelihood is tempered in place."""
    hazard, classes = numbers[HAZARD], len(belief)
    weight = rules.temper + (1 - rules.temper) * min(1.0, hazard / rules.hazard)
    total = drawn = stayed = 0.0
    for k in range(classes):
        likelihood[k] = likelihood[k] ** weight
        stay = (1 - change) * belief[k] * likelihood[k]
        belief[k] = stay + change / classes * likelihood[k]
        total += belief[k]
        stayed += stay
        drawn += shares[k] * likelihood[k]
    for k in range(classes):
        belief[k] = likelihood[k] if total < 1e-30 else belief[k] / total
    if rules.rate:
        drawn *= change
        target = drawn / max(drawn + stayed, TINY)
        rate = max(rules.rate, 1 / (FIRST_WINDOWS + numbers[COUNT]))
        numbers[HAZARD] = min(max(hazard + rate * (target - hazard), LOWEST), HIGHEST)


@_exact
def _window(x, vectors, numbers, prior, expected, rules, shares, likelihood):
    """Take the evidence x in; return the probability of a change before it and the strength used."""
    likelihood[:] = x
    _softmax(likelihood)
    numbers[DOUBTS] += 1 - likelihood.max()
    used, change = _righted(x, vectors, numbers, prior, expected, rules, shares, likelihood), 0.0
    if numbers[COUNT] == 0:
        vectors[BELIEF] = likelihood
    else:
        change = _change(x, vectors, numbers, rules)
        _filter(likelihood, shares, change, vectors[BELIEF], numbers, rules)
    for k in range(len(x)):
        vectors[LIFE, k] += vectors[BELIEF, k]
        vectors[TOTAL, k] += x[k]
        vectors[PREVIOUS, k] = x[k]
    numbers[COUNT] += 1
    numbers[LINKED] = 1
    return change, used


@_exact
def _advance(z, p, vectors, numbers, rows, prior, expected, origin, directions, v, q, trace):
    """Advance each wearer of `rows` over its windows in time order; z, p, q hold one wearer's after the other's."""
    classes = p.shape[1]
    rules = KeelRules(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8])
    x, opinion, shares, likelihood = np.empty(classes), np.empty(classes), np.empty(classes), np.empty(classes)
    away = np.empty(len(origin))
    span = len(p) // max(len(rows), 1)
    for n in range(len(p)):
        r = rows[n // span]
        trace[n, 3] = _evidence(z[n], p[n], origin, directions, v[9], v[10], away, x, opinion)
        trace[n, 0], trace[n, 2] = _window(x, vectors[r], numbers[r], prior, expected, rules, shares, likelihood)
        trace[n, 1] = numbers[r, HAZARD]
        q[n] = vectors[r, BELIEF]


def replay(z: Array, p: Array, state: KeelState, source: KeelSource, rules: KeelRules) -> tuple[Array, Array]:
    """Advance one wearer over windows in time order; see `sight.kernels.keel_reference.replay`."""
    return many(z, p, KeelState(state.vectors[None], state.numbers[None]), ONE, source, rules)


def many(
    z: Array, p: Array, states: KeelState, rows: Array, source: KeelSource, rules: KeelRules
) -> tuple[Array, Array]:
    """Advance each wearer of `rows` by one window; see `sight.kernels.keel_reference.many`."""
    prior, expected, share, scale, origin, directions = source
    q, trace = np.empty(p.shape, p.dtype), np.empty((len(p), len(TRACE)))
    codes = encode(rules, share, scale)
    _advance(plain(z), plain(p), *states, rows, prior, expected, origin, directions, codes, q, trace)
    return q, trace
