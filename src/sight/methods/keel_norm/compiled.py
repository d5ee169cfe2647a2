"""The updates of `reference` compiled by numba; the same operations in the same order, so that no bit differs."""

import numpy as np

from sight.methods.compiled.numba import exact
from sight.methods.keel_norm.reference import NormTerms
from sight.types import Array


@exact
def _move(moments, mean, var, floor, reach, largest, part, statistics):
    one = np.float32(1)
    least = one / largest
    for c in range(len(mean)):
        shift = min(max(moments[0, c] - mean[c], -reach[c]), reach[c])
        ratio = max(moments[1, c] - moments[0, c] * moments[0, c], floor[c]) / var[c]
        ratio = min(max(ratio, least), largest)
        statistics[0, c] = mean[c] + part * shift
        statistics[1, c] = var[c] * (one + part * (ratio - one))


@exact
def _learn(seen, lowest, highest, weight, moments):
    for m in range(2):
        for c in range(moments.shape[1]):
            bounded = min(max(seen[m, c], lowest[m, c]), highest[m, c])
            moments[m, c] += (bounded - moments[m, c]) / weight


def move(moments: Array, terms: NormTerms, share: float, statistics: Array) -> None:
    _move(moments, terms.mean, terms.var, terms.floor, terms.reach, terms.ratio, np.float32(share), statistics)


def learn(seen: Array, terms: NormTerms, weight: float, moments: Array) -> None:
    _learn(seen, terms.lowest, terms.highest, np.float32(weight), moments)
