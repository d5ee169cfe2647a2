"""Tests of paired differences over subjects, and their correction for several tests.

Every test starts from one number per subject: the mean, over source models, of a method's difference on that target.
"""

import itertools
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from sight.results.score_statistics import MIN_SUBJECTS
from sight.types import Array

#: Level of the tests behind "better" and "worse".
LEVEL = 0.05
#: Largest number of subjects for which all sign patterns are enumerated.
EXACT = 12


def signed_rank(differences: Array) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test; zero differences are excluded.

    Exact for up to twelve subjects, and for up to fifty if no two differences have the same size; normal approximation
    otherwise. 1 if all differences are zero. With five subjects or fewer the p-value is never below 0.05.
    """
    from scipy.stats import wilcoxon

    nonzero = np.asarray(differences, dtype=np.float64)
    nonzero = nonzero[nonzero != 0]
    if not len(nonzero):
        return 1.0
    if len(nonzero) <= EXACT:
        ranks = _signed_ranks(nonzero)
        sums = np.abs(_signs(len(nonzero)) @ np.abs(ranks))
        return float((sums >= abs(ranks.sum())).mean())
    distinct = len(np.unique(np.abs(nonzero))) == len(nonzero)
    return float(wilcoxon(nonzero, method="exact" if distinct and len(nonzero) <= 50 else "approx").pvalue)


def _signed_ranks(differences: Array) -> Array:
    """Return the ranks of the sizes of nonzero differences, with the sign of each difference."""
    from scipy.stats import rankdata

    nonzero = np.asarray(differences, dtype=np.float64)
    nonzero = nonzero[nonzero != 0]
    ranks: Array = np.sign(nonzero) * rankdata(np.abs(nonzero))
    return ranks


@lru_cache(maxsize=EXACT)
def _signs(subjects: int) -> Array:
    """Return all sign patterns, (2^subjects, subjects)."""
    return np.array(list(itertools.product((-1.0, 1.0), repeat=subjects)))


def holm(p: Sequence[float] | Array) -> Array:
    """Return p-values adjusted by Holm's step-down procedure; NaN is ignored."""
    values = np.asarray(p, dtype=np.float64)
    adjusted = np.full(len(values), np.nan)
    finite = np.flatnonzero(~np.isnan(values))
    order = finite[np.argsort(values[finite], kind="stable")]
    steps = values[order] * (len(order) - np.arange(len(order)))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return adjusted


def verdicts(differences: Sequence[Array]) -> list[str]:
    """Return whether a method is "better" or "worse" on each setting, given its difference for each subject there.

    Wilcoxon's signed-rank test over subjects, with Holm's correction over the settings, at 5 %: "open" if no difference
    is shown, or if mean and ranks have opposite signs; "unknown" with fewer than five subjects.
    """
    enough = [len(own) >= MIN_SUBJECTS for own in differences]
    tests = [signed_rank(own) if tested else np.nan for own, tested in zip(differences, enough, strict=True)]
    found = []
    for own, p in zip(differences, holm(tests), strict=True):
        sign = np.sign(np.mean(own)) if len(own) else 0
        shown = p < LEVEL and sign == np.sign(_signed_ranks(own).sum())
        found.append("unknown" if np.isnan(p) else "open" if not shown else "better" if sign > 0 else "worse")
    return found
