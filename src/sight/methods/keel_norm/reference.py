"""The two updates of a window in numpy: statistics from moments, and moments from a window."""

from typing import NamedTuple

import numpy as np

from sight.types import Array


class NormTerms(NamedTuple):
    """Values derived from the trained statistics, float32; C channels of all layers."""

    mean: Array  # (C,)
    var: Array  # (C,)
    floor: Array  # (C,) least variance
    reach: Array  # (C,) largest displacement of a mean
    ratio: np.float32  # largest ratio of a variance to the trained one; its inverse is the least
    lowest: Array  # (2, C) bounds of the moments of a window
    highest: Array


def move(moments: Array, terms: NormTerms, share: float, statistics: Array) -> None:
    """Set `statistics` to the trained ones, moved by a share of the bounded displacement of the wearer's moments."""
    part, one = np.float32(share), np.float32(1)
    mean, square = moments
    shift = np.minimum(np.maximum(mean - terms.mean, -terms.reach), terms.reach)
    ratio = np.maximum(square - mean * mean, terms.floor) / terms.var
    ratio = np.minimum(np.maximum(ratio, one / terms.ratio), terms.ratio)
    statistics[0] = terms.mean + part * shift
    statistics[1] = terms.var * (one + part * (ratio - one))


def learn(seen: Array, terms: NormTerms, weight: float, moments: Array) -> None:
    """Add the moments (2, C) of a window, in place, to a mean that has `weight` windows with it."""
    seen = np.minimum(np.maximum(seen, terms.lowest), terms.highest)
    moments += (seen - moments) / np.float32(weight)
