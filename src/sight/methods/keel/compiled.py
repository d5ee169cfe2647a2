"""Keel's step compiled by numba: `reference` without temporary arrays, in float64 for features of any type."""

from functools import lru_cache

import numpy as np

from sight.methods.compiled import StateArrays
from sight.methods.compiled.numba import contiguous, exact, sums
from sight.methods.keel import state as s
from sight.methods.keel.state import KeelParams, SourceTerms
from sight.types import Array

NORM_FLOOR = 1e-8  # of `sight.methods.ops.unit`


@lru_cache
def encode(params: KeelParams, share: float, scale: float) -> Array:
    """Return parameters and scalars as one vector, which is passed to compiled code faster than a tuple."""
    return np.array([*params, share, scale], np.float64)


@exact
def _away(z, origin, away):
    for i in range(len(z)):
        away[i] = np.float64(z[i]) - origin[i]


@sums
def _product(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@exact
def _centre(values):
    total = 0.0
    for value in values:
        total += value
    mean = total / len(values)
    for k in range(len(values)):
        values[k] -= mean


@exact
def _softmax(values):
    top, total = values.max(), 0.0
    for k in range(len(values)):
        values[k] = np.exp(values[k] - top)
        total += values[k]
    for k in range(len(values)):
        values[k] /= total


@exact
def _evidence(z, p, origin, directions, share, scale, away, x, second):
    for k in range(len(x)):
        x[k] = np.log(max(np.float64(p[k]), s.TINY))
    _centre(x)
    if share == 0:
        return np.nan
    _away(z, origin, away)
    length = max(np.sqrt(_product(away, away)), NORM_FLOOR)
    for k in range(len(x)):
        second[k] = scale * _product(directions[k], away) / length
    _centre(second)
    for k in range(len(x)):
        x[k] = (1 - share) * x[k] + share * second[k]
    _softmax(second)
    both = 0.0
    for k in range(len(x)):
        both += min(np.float64(p[k]), second[k])
    return both


@exact
def _coverage(frequencies, numbers):
    spread, count = 0.0, max(numbers[s.COUNT], 1.0)
    for value in frequencies:
        if value > 0:
            spread -= value / count * np.log(value / count)
    covered = max(np.exp(spread) - 1, 0.0) / (len(frequencies) - 1)
    return max(covered - s.LEAST_COVERAGE, 0.0) / (1 - s.LEAST_COVERAGE)


@exact
def _corrected(x, vectors, numbers, prior, expected, params, shares, likelihood):
    whole, applied = numbers[s.COUNT] + params.patience, _coverage(vectors[s.FREQUENCIES], numbers)
    for k in range(len(x)):
        shares[k] = (vectors[s.FREQUENCIES, k] + params.patience * prior[k]) / whole
        drift = (vectors[s.EVIDENCE, k] - numbers[s.COUNT] * expected[k]) / whole
        excess = max(min(params.debias * np.log(shares[k] / prior[k]), params.penalty), -s.HIGHEST_RAISE)
        likelihood[k] = x[k] - applied * (params.align * drift + excess)
    _softmax(likelihood)
    return applied


@exact
def _change(x, vectors, numbers, params):
    hazard = numbers[s.HAZARD]
    if not (params.surprise and numbers[s.LINKED]):
        return hazard
    here, there = 0.0, 0.0
    for k in range(len(x)):
        here += (x[k] - vectors[s.PREVIOUS, k]) ** 2
        there += 2 * (x[k] - vectors[s.EVIDENCE, k] / numbers[s.COUNT]) ** 2
    distance, far, near, change = 0.5 * np.log(here + s.STILL), 0.5 * np.log(there + s.STILL), numbers[s.NEAR], hazard
    if numbers[s.PAIRS] >= s.FIRST_PAIRS:
        deviation = np.sqrt((numbers[s.SPREAD] + s.FIRST_PAIRS * s.FIRST_VARIANCE) / (numbers[s.PAIRS] + s.FIRST_PAIRS))
        delta = max((numbers[s.FAR] - near) / deviation, 0.0)
        factor = params.surprise * delta * ((distance - near) / deviation - delta / 2)
        odds = hazard / (1 - hazard) * np.exp(min(max(factor, -s.CERTAIN), s.CERTAIN))
        change = odds / (1 + odds)
    numbers[s.PAIRS] += 1
    numbers[s.NEAR] += (distance - near) / numbers[s.PAIRS]
    numbers[s.SPREAD] += (distance - near) * (distance - numbers[s.NEAR])
    numbers[s.FAR] += (far - numbers[s.FAR]) / numbers[s.PAIRS]
    return change


@exact
def _filter(likelihood, shares, change, belief, numbers, params):
    hazard, classes = numbers[s.HAZARD], len(belief)
    weight = params.temper + (1 - params.temper) * min(1.0, hazard / params.hazard)
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
    if params.rate:
        drawn *= change
        target = drawn / max(drawn + stayed, s.TINY)
        rate = max(params.rate, 1 / (s.FIRST_WINDOWS + numbers[s.COUNT]))
        numbers[s.HAZARD] = min(max(hazard + rate * (target - hazard), s.LOWEST), s.HIGHEST)


@exact
def _window(x, vectors, numbers, prior, expected, params, shares, likelihood):
    applied, change = _corrected(x, vectors, numbers, prior, expected, params, shares, likelihood), 0.0
    if numbers[s.COUNT] == 0:
        vectors[s.BELIEF] = likelihood
    else:
        change = _change(x, vectors, numbers, params)
        _filter(likelihood, shares, change, vectors[s.BELIEF], numbers, params)
    for k in range(len(x)):
        vectors[s.FREQUENCIES, k] += vectors[s.BELIEF, k]
        vectors[s.EVIDENCE, k] += x[k]
        vectors[s.PREVIOUS, k] = x[k]
    numbers[s.COUNT] += 1
    numbers[s.LINKED] = 1
    return change, applied


@exact
def _advance(z, p, vectors, numbers, rows, prior, expected, origin, directions, v, q, trace):
    classes = p.shape[1]
    params = KeelParams(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7])
    x, second, shares, likelihood = np.empty(classes), np.empty(classes), np.empty(classes), np.empty(classes)
    away = np.empty(len(origin))
    span = len(p) // max(len(rows), 1)
    for n in range(len(p)):
        r = rows[n // span]
        trace[n, 3] = _evidence(z[n], p[n], origin, directions, v[8], v[9], away, x, second)
        trace[n, 0], trace[n, 2] = _window(x, vectors[r], numbers[r], prior, expected, params, shares, likelihood)
        trace[n, 1] = numbers[r, s.HAZARD]
        q[n] = vectors[r, s.BELIEF]


def advance(
    z: Array, p: Array, arrays: StateArrays, rows: Array, terms: SourceTerms, params: KeelParams
) -> tuple[Array, Array]:
    prior, expected, share, scale, origin, directions = terms
    q, trace = np.empty(p.shape, p.dtype), np.empty((len(p), len(s.TRACE)))
    codes, z, p = encode(params, share, scale), contiguous(z), contiguous(p)
    _advance(z, p, arrays.vectors, arrays.numbers, rows, prior, expected, origin, directions, codes, q, trace)
    return q, trace
