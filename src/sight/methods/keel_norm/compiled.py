"""The updates of `reference` compiled by numba; the same operations in the same order, so that no bit differs."""

import numpy as np

from sight.methods.compiled.numba import exact
from sight.methods.keel_norm import reference
from sight.methods.keel_norm.reference import NormTerms
from sight.types import Array

#: Relative distance from the bounds of the tolerance within which rounding could decide.
CLOSE = 1e-5


@exact
def _shift(mixed, mean, var, floor, spared, trained, statistics, ratios):
    """Write the moved means, and the ratios of variances; return whether any of them exceeds the tolerance."""
    low, high = np.exp(-spared[1, 0]) * (1 + CLOSE), np.exp(spared[1, 0]) * (1 - CLOSE)
    exceeds = False
    for c in range(len(mean)):
        ratios[c] = max(mixed[1, c] - mixed[0, c] * mixed[0, c], floor[c]) / var[c]
        exceeds |= not low < ratios[c] < high
        shift = mixed[0, c] - mean[c]
        statistics[0, c] = trained[0, c] + (shift - min(max(shift, -spared[0, c]), spared[0, c]))
    return exceeds


@exact
def _spare(change, limit):
    for c in range(len(change)):
        change[c] -= min(max(change[c], -limit), limit)


@exact
def _learn(q, seen, lowest, highest, anchor, weights, moments):
    for k in range(len(q)):
        weights[k] += q[k]
        rate = np.float32(q[k] / (anchor + weights[k]))
        for m in range(2):
            for c in range(moments.shape[2]):
                bounded = min(max(seen[m, c], lowest[m, 0, c]), highest[m, 0, c])
                moments[m, k, c] += rate * (bounded - moments[m, k, c])


def move(mixed: Array, terms: NormTerms, statistics: Array, share: float | None) -> None:
    if share is not None:
        return reference.move(mixed, terms, statistics, share)
    _, _, mean, var, floor, spared, _, _, trained = terms
    change, variances = np.empty_like(mean), statistics[1, : len(mean)]
    if _shift(mixed, mean, var, floor, spared, trained, statistics, change):
        np.log(change, out=change)  # by numpy: other logarithms differ in the last bits
        _spare(change, spared[1, 0])
        np.exp(change, out=change)
        np.multiply(trained[1], change, out=variances)
    else:
        variances[:] = trained[1]
    return None


def learn(q: Array, seen: Array, terms: NormTerms, anchor: float, weights: Array, moments: Array) -> None:
    _learn(q, seen, terms.lowest, terms.highest, anchor, weights, moments)
