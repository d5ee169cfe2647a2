"""Keel's step in numpy; the other implementations are tested against it."""

from __future__ import annotations

import numpy as np

from sight.methods._layout import StateArrays
from sight.methods.keel.state import (
    BELIEF,
    CERTAIN,
    COUNT,
    DOUBT,
    EVIDENCE,
    FAR,
    FIRST_PAIRS,
    FIRST_VARIANCE,
    FIRST_WINDOWS,
    FREQUENCIES,
    HAZARD,
    HIGHEST,
    LINKED,
    LOWEST,
    NEAR,
    PAIRS,
    PREVIOUS,
    SPREAD,
    STILL,
    TINY,
    KeelParams,
    SourceTerms,
)
from sight.ops import entropy, normalise, softmax, unit
from sight.types import Array


def step(
    z: Array, p: Array, arrays: StateArrays, terms: SourceTerms, params: KeelParams
) -> tuple[Array, tuple[float, ...]]:
    """Refine one window and update the state of one wearer.

    Parameters
    ----------
    z, p
        Feature (D,) and raw probabilities (K,).
    arrays
        State, updated in place.
    terms, params
        Values derived from the source, and hyper-parameters.

    Returns
    -------
    Refined probabilities (K,) and the diagnostics of `TRACE`.
    """
    vectors, numbers = arrays.vectors, arrays.numbers
    x, agreement = evidence(z, p, terms)
    numbers[DOUBT] += 1 - softmax(x).max()
    frequencies = (vectors[FREQUENCIES] + params.patience * terms.prior) / (numbers[COUNT] + params.patience)
    applied = strength(arrays, params)
    drift = (vectors[EVIDENCE] - numbers[COUNT] * terms.expected) / (numbers[COUNT] + params.patience)
    bias = params.align * drift + params.debias * np.log(frequencies / terms.prior)
    likelihood = softmax(x - applied * bias)
    change = 0.0
    if numbers[COUNT] == 0:
        vectors[BELIEF] = likelihood
    else:
        change = _change(x, arrays, params)
        _filter(likelihood, frequencies, change, arrays, params)
    vectors[FREQUENCIES] += vectors[BELIEF]
    vectors[EVIDENCE] += x
    vectors[PREVIOUS] = x
    numbers[COUNT] += 1
    numbers[LINKED] = 1
    return vectors[BELIEF], (change, numbers[HAZARD], applied, agreement)


def evidence(z: Array, p: Array, terms: SourceTerms) -> tuple[Array, float]:
    """Return the evidence (K,), centred log-probabilities of head and class means, and the overlap of the two."""
    logits = centred(np.log(np.maximum(p.astype(np.float64), TINY)))
    if not terms.share:
        return logits, np.nan
    second = terms.scale * (terms.directions @ unit(z - terms.origin))
    mixed = (1 - terms.share) * logits + terms.share * centred(second)
    return mixed, float(np.minimum(p, softmax(second)).sum())


def strength(arrays: StateArrays, params: KeelParams) -> float:
    """Return the share, 0 to 1, of the bias correction to apply: class coverage times doubt of the source."""
    vectors, numbers = arrays.vectors, arrays.numbers
    covered, doubtful = 1.0, 1.0
    if params.guard:
        frequencies = vectors[FREQUENCIES] / max(numbers[COUNT], 1)
        covered = max(float(np.exp(entropy(frequencies))) - 1, 0.0) / (len(frequencies) - 1)
    if params.doubt:
        doubtful = (numbers[DOUBT] / params.doubt + params.patience) / (numbers[COUNT] + 1 + params.patience)
    return covered * min(float(doubtful), 1.0)


def _change(x: Array, arrays: StateArrays, params: KeelParams) -> float:
    """Return the probability of a change before this window, then update the statistics of distances."""
    vectors, numbers = arrays.vectors, arrays.numbers
    change = hazard = float(numbers[HAZARD])
    if not (params.surprise and numbers[LINKED]):
        return change
    distance, near = _log_length(x - vectors[PREVIOUS]), numbers[NEAR]
    if numbers[PAIRS] >= FIRST_PAIRS:
        deviation = np.sqrt((numbers[SPREAD] + FIRST_PAIRS * FIRST_VARIANCE) / (numbers[PAIRS] + FIRST_PAIRS))
        delta = max((numbers[FAR] - near) / deviation, 0.0)
        factor = params.surprise * delta * ((distance - near) / deviation - delta / 2)
        odds = hazard / (1 - hazard) * np.exp(np.clip(factor, -CERTAIN, CERTAIN))
        change = float(odds / (1 + odds))
    numbers[PAIRS] += 1
    numbers[NEAR] += (distance - near) / numbers[PAIRS]
    numbers[SPREAD] += (distance - near) * (distance - numbers[NEAR])
    # Two independent windows are sqrt(2) times as far apart as one is from their mean.
    far = _log_length(np.sqrt(2) * (x - vectors[EVIDENCE] / numbers[COUNT]))
    numbers[FAR] += (far - numbers[FAR]) / numbers[PAIRS]
    return change


def _filter(likelihood: Array, frequencies: Array, change: float, arrays: StateArrays, params: KeelParams) -> None:
    """Update the belief by one step of the hidden Markov model, and the hazard."""
    vectors, numbers = arrays.vectors, arrays.numbers
    hazard = float(numbers[HAZARD])
    likelihood = likelihood ** (params.temper + (1 - params.temper) * min(1.0, hazard / params.hazard))
    stayed = (1 - change) * vectors[BELIEF] * likelihood
    vectors[BELIEF] = normalise(stayed + change / len(stayed) * likelihood, fallback=likelihood)
    if params.rate:
        drawn = change * (frequencies @ likelihood)
        target = drawn / max(drawn + stayed.sum(), TINY)
        rate = max(params.rate, 1 / (FIRST_WINDOWS + numbers[COUNT]))
        numbers[HAZARD] = np.clip(hazard + rate * (target - hazard), LOWEST, HIGHEST)


def centred(values: Array) -> Array:
    """Return the values minus their mean."""
    difference: Array = values - values.mean()
    return difference


def _log_length(values: Array) -> float:
    return 0.5 * float(np.log(values @ values + STILL))
