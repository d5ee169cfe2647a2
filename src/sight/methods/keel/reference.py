"""Keel's step in numpy; the other implementations are tested against it."""

import numpy as np

from sight.methods.compiled import StateArrays
from sight.methods.keel import state as s
from sight.methods.keel.state import KeelParams, SourceTerms
from sight.methods.ops import entropy, normalise, softmax, unit
from sight.types import Array


def step(
    z: Array, p: Array, arrays: StateArrays, terms: SourceTerms, params: KeelParams
) -> tuple[Array, tuple[float, ...]]:
    """Refine a window, feature z (D,) and probabilities p (K,), and update the state of one wearer in place.

    Returns refined probabilities (K,) and the diagnostics of `TRACE`.
    """
    vectors, numbers = arrays.vectors, arrays.numbers
    x, agreement = evidence(z, p, terms)
    frequencies = (vectors[s.FREQUENCIES] + params.patience * terms.prior) / (numbers[s.COUNT] + params.patience)
    applied = coverage(vectors[s.FREQUENCIES] / max(numbers[s.COUNT], 1))
    drift = (vectors[s.EVIDENCE] - numbers[s.COUNT] * terms.expected) / (numbers[s.COUNT] + params.patience)
    excess = np.clip(params.debias * np.log(frequencies / terms.prior), -s.HIGHEST_RAISE, params.penalty)
    bias = params.align * drift + excess
    likelihood = softmax(x - applied * bias)
    change = 0.0
    if numbers[s.COUNT] == 0:
        vectors[s.BELIEF] = likelihood
    else:
        change = _change(x, arrays, params)
        _filter(likelihood, frequencies, change, arrays, params)
    vectors[s.FREQUENCIES] += vectors[s.BELIEF]
    vectors[s.EVIDENCE] += x
    vectors[s.PREVIOUS] = x
    numbers[s.COUNT] += 1
    numbers[s.LINKED] = 1
    return vectors[s.BELIEF], (change, numbers[s.HAZARD], applied, agreement)


def evidence(z: Array, p: Array, terms: SourceTerms) -> tuple[Array, float]:
    """Return the evidence (K,), centred log-probabilities of head and class means, and the overlap of the two."""
    logits = centred(np.log(np.maximum(p.astype(np.float64), s.TINY)))
    if not terms.share:
        return logits, np.nan
    second = terms.scale * (terms.directions @ unit(z - terms.origin))
    mixed: Array = (1 - terms.share) * logits + terms.share * centred(second)
    return mixed, float(np.minimum(p, softmax(second)).sum())


def coverage(frequencies: Array) -> float:
    """Return the share, 0 to 1, of the bias correction to apply, by the frequencies of predicted classes (K,)."""
    covered = max(float(np.exp(entropy(frequencies))) - 1, 0.0) / (len(frequencies) - 1)
    return max(covered - s.LEAST_COVERAGE, 0.0) / (1 - s.LEAST_COVERAGE)


def _change(x: Array, arrays: StateArrays, params: KeelParams) -> float:
    """Return the probability of a change before this window, then update the statistics of distances."""
    vectors, numbers = arrays.vectors, arrays.numbers
    change = hazard = float(numbers[s.HAZARD])
    if not (params.surprise and numbers[s.LINKED]):
        return change
    distance, near = _log_length(x - vectors[s.PREVIOUS]), numbers[s.NEAR]
    if numbers[s.PAIRS] >= s.FIRST_PAIRS:
        deviation = np.sqrt((numbers[s.SPREAD] + s.FIRST_PAIRS * s.FIRST_VARIANCE) / (numbers[s.PAIRS] + s.FIRST_PAIRS))
        delta = max((numbers[s.FAR] - near) / deviation, 0.0)
        factor = params.surprise * delta * ((distance - near) / deviation - delta / 2)
        odds = hazard / (1 - hazard) * np.exp(np.clip(factor, -s.CERTAIN, s.CERTAIN))
        change = float(odds / (1 + odds))
    numbers[s.PAIRS] += 1
    numbers[s.NEAR] += (distance - near) / numbers[s.PAIRS]
    numbers[s.SPREAD] += (distance - near) * (distance - numbers[s.NEAR])
    # Two independent windows are sqrt(2) times as far apart as one is from their mean.
    far = _log_length(np.sqrt(2) * (x - vectors[s.EVIDENCE] / numbers[s.COUNT]))
    numbers[s.FAR] += (far - numbers[s.FAR]) / numbers[s.PAIRS]
    return change


def _filter(likelihood: Array, frequencies: Array, change: float, arrays: StateArrays, params: KeelParams) -> None:
    """Update the belief by one step of the hidden Markov model, and the hazard."""
    vectors, numbers = arrays.vectors, arrays.numbers
    hazard = float(numbers[s.HAZARD])
    likelihood = likelihood ** (params.temper + (1 - params.temper) * min(1.0, hazard / params.hazard))
    stayed = (1 - change) * vectors[s.BELIEF] * likelihood
    vectors[s.BELIEF] = normalise(stayed + change / len(stayed) * likelihood, fallback=likelihood)
    if params.rate:
        drawn = change * (frequencies @ likelihood)
        target = drawn / max(drawn + stayed.sum(), s.TINY)
        rate = max(params.rate, 1 / (s.FIRST_WINDOWS + numbers[s.COUNT]))
        numbers[s.HAZARD] = np.clip(hazard + rate * (target - hazard), s.LOWEST, s.HIGHEST)


def centred(values: Array) -> Array:
    difference: Array = values - values.mean()
    return difference


def _log_length(values: Array) -> float:
    return 0.5 * float(np.log(values @ values + s.STILL))
