"""The two updates of a window in numpy: statistics from moments, and moments from a window."""

from typing import NamedTuple

import numpy as np

from sight.types import Array


class NormTerms(NamedTuple):
    """Values derived from source and tolerance, float32; C channels of the layers that move."""

    start: Array  # (2, K, C) mean and mean square of each class
    prior: Array  # (K,)
    mean: Array  # (C,) mean of the mixture of classes
    var: Array  # (C,) variance of the mixture
    floor: Array  # (C,) least variance
    spared: Array  # (2, C) displacement that is left alone: of the mean, and of the variance as a logarithm
    lowest: Array  # (2, 1, C) bounds of the moments of a window
    highest: Array
    trained: Array  # (2, C) mean and variance that the network was trained with


def move(mixed: Array, terms: NormTerms, statistics: Array, share: float | None) -> None:
    """Set `statistics`, of the first C channels, to the trained ones, moved by what exceeds the tolerance.

    `mixed` (2, C) is mean and mean square of the mixture of the wearer's classes; `share` of the displacement is
    applied, all of it if None.
    """
    mean, square = mixed
    var = np.maximum(square - mean * mean, terms.floor)
    displaced = np.array((mean - terms.mean, np.log(var / terms.var)))
    shift, change = displaced - np.minimum(np.maximum(displaced, -terms.spared), terms.spared)
    ratio = np.exp(change)
    if share is not None:
        shift, ratio = np.float32(share) * shift, 1 + np.float32(share) * (ratio - 1)
    statistics[0, : len(shift)] = terms.trained[0] + shift
    statistics[1, : len(ratio)] = terms.trained[1] * ratio


def learn(q: Array, seen: Array, terms: NormTerms, anchor: float, weights: Array, moments: Array) -> None:
    """Add the moments of a window, (2, C) or wider, to those of its classes, (2, K, C), in place.

    `q` (K,) are its refined probabilities and `weights` (K,) their sums so far; the source's moments count for
    `anchor` windows.
    """
    seen = np.minimum(np.maximum(seen[:, None, : moments.shape[2]], terms.lowest), terms.highest)
    weights += q
    rate = (q / (anchor + weights)).astype(np.float32)
    moments += rate[:, None] * (seen - moments)
