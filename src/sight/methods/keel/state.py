"""State, step parameters and constants of Keel."""

from typing import NamedTuple

import numpy as np

from sight.methods.compiled import StateLayout
from sight.types import Array

LAYOUT = StateLayout(
    entries={
        "belief": "K",
        "frequencies": "K",  # sum of predictions
        "evidence": "K",  # sum of evidence
        "previous": "K",  # evidence of the previous window
        "hazard": "float",  # learned probability of a change
        "near": "float",  # mean log distance of neighbouring windows
        "spread": "float",  # sum of squared deviations from that mean
        "far": "float",  # mean log distance of windows far apart
        "pairs": "int",  # neighbours seen
        "count": "int",  # windows seen
        "linked": "int",  # 1 if the previous window is a neighbour
    },
    dtype=np.float64,
    means={"frequencies": "count", "evidence": "count", "spread": "pairs"},
    gap_clears=("linked",),
    frequencies="frequencies",
    version=3,
)
#: Places of the entries in the arrays of the state.
BELIEF, FREQUENCIES, EVIDENCE, PREVIOUS = range(4)
HAZARD, NEAR, SPREAD, FAR, PAIRS, COUNT, LINKED = range(7)

#: Diagnostics of a window: probability of a change before it, hazard after it, share of the bias correction that was
#: applied, and overlap of the head's and the class means' predictions (NaN without class means).
TRACE = ("surprise", "hazard", "strength", "agreement")

#: Floor of probabilities under a logarithm, and of squared distances.
TINY, STILL = 1e-30, 1e-6
#: Bounds of the learned hazard, so that the filter can neither freeze nor stop filtering.
LOWEST, HIGHEST = 0.01, 0.95
#: Most that a correction raises the evidence of a rare class, in nats.
HIGHEST_RAISE = 4.0
#: Coverage of the classes up to which nothing is corrected.
LEAST_COVERAGE = 0.1
#: Strength of the correction from which whole recordings are refined without a veto of raw predictions.
BROAD = 0.5
#: Windows that the initial hazard counts for; pairs and variance that the spread starts from.
FIRST_WINDOWS, FIRST_PAIRS, FIRST_VARIANCE = 20, 5, 0.25
#: Bound of the logarithm of the Bayes factor: one distance changes the odds of a change at most 7.4 times.
CERTAIN = 2.0


class KeelParams(NamedTuple):
    """The hyper-parameters of `Keel` as the steps take them."""

    align: float  # this and the next two scaled by the number of source subjects; 0 without source statistics
    debias: float
    penalty: float
    surprise: float
    temper: float
    hazard: float
    rate: float
    patience: float


class SourceTerms(NamedTuple):
    """Values that Keel derives from the source, all float64."""

    prior: Array  # (K,) class prior, nowhere 0
    expected: Array  # (K,) mean evidence on the training data
    share: float  # weight of the class means in the evidence; without source statistics 0, and the rest is not read
    scale: float  # from cosines to the head's margin
    origin: Array  # (D,) mean feature
    directions: Array  # (K, D) from the mean feature to each class mean, of length 1
