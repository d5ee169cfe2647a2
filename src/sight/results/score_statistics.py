"""Statistics of paired differences over subjects.

Every function starts from one number per subject: the mean, over seeds and sources, of a method's score on that target.
"""

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sight.types import Array

DRAWS = 10_000
#: Smallest number of subjects for which intervals and tests are computed.
MIN_SUBJECTS = 5
#: Differences smaller than this many points are ties.
TIE = 0.005
#: Largest number of subjects for which all sign patterns are enumerated.
EXACT = 12


class Difference(NamedTuple):
    """A mean difference in points, and its 95 % interval over subjects."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Return "better" or "worse" if the interval excludes zero, "open" if not, "unknown" if there is none."""
        if not np.isfinite(self.low):
            return "unknown"
        return "better" if self.low > 0 else "worse" if self.high < 0 else "open"


class Record(NamedTuple):
    """Number of subjects on which one method is better than, equal to, and worse than another."""

    wins: int
    ties: int
    losses: int


def mean_difference(differences: Array) -> Difference:
    """Return the mean of differences (n,), one per subject, with its bootstrap interval."""
    mean = float(np.mean(differences)) if len(differences) else float("nan")
    return Difference(mean, *bootstrap_interval(differences))


def bootstrap_interval(differences: Array, draws: int = DRAWS) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean over subjects drawn with replacement.

    `differences` has one number per subject, (n,); fewer than five give NaN.
    """
    differences = np.asarray(differences, dtype=np.float64)
    if len(differences) < MIN_SUBJECTS:
        return float("nan"), float("nan")
    return _percentiles(differences[_draws(len(differences), draws)].mean(axis=1))


def shared_interval(differences: Sequence[Array], subjects: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Return the 95 % interval of the mean over settings of mean differences, where settings share subjects.

    For each setting: one difference per subject (n,) and the subjects. A subject drawn twice counts twice in every
    setting that includes them. NaN if a setting has fewer than five subjects.
    """
    if not differences or min(map(len, differences)) < MIN_SUBJECTS:
        return float("nan"), float("nan")
    unique = list(dict.fromkeys(subject for group in subjects for subject in group))
    column = {subject: index for index, subject in enumerate(unique)}
    counts = _draw_counts(len(unique), DRAWS)
    means = []
    for values, group in zip(differences, subjects, strict=True):
        weight = counts[:, [column[subject] for subject in group]]
        total = weight.sum(axis=1)
        means.append(np.where(total > 0, weight @ np.asarray(values, dtype=np.float64), np.nan) / np.maximum(total, 1))
    return _percentiles(np.nanmean(means, axis=0))


def _percentiles(means: Array) -> tuple[float, float]:
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


@lru_cache(maxsize=16)
def _draws(subjects: int, draws: int) -> Array:
    """Return indices of subjects drawn with replacement, (draws, subjects), always the same."""
    return np.random.default_rng(0).integers(subjects, size=(draws, subjects))


@lru_cache(maxsize=16)
def _draw_counts(subjects: int, draws: int) -> Array:
    """Return how often each subject is in a draw, (draws, subjects)."""
    cells = _draws(subjects, draws) + subjects * np.arange(draws)[:, None]
    return np.bincount(cells.ravel(), minlength=draws * subjects).reshape(draws, subjects).astype(np.float64)


def signed_rank(differences: Array) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test; zero differences are excluded.

    Exact for up to twelve subjects, and for up to fifty if no two differences have the same size; normal approximation
    otherwise. 1 if all differences are zero. With five subjects or fewer the p-value is never below 0.05.
    """
    from scipy.stats import rankdata, wilcoxon

    nonzero = np.asarray(differences, dtype=np.float64)
    nonzero = nonzero[nonzero != 0]
    if not len(nonzero):
        return 1.0
    if len(nonzero) <= EXACT:
        ranks = rankdata(np.abs(nonzero))
        sums = np.abs(_signs(len(nonzero)) @ ranks)
        return float((sums >= abs(np.sign(nonzero) @ ranks)).mean())
    distinct = len(np.unique(np.abs(nonzero))) == len(nonzero)
    return float(wilcoxon(nonzero, method="exact" if distinct and len(nonzero) <= 50 else "approx").pvalue)


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


def record(differences: Array, tie: float = TIE) -> Record:
    differences = np.asarray(differences)
    wins, losses = int((differences > tie).sum()), int((differences < -tie).sum())
    return Record(wins, int(np.isfinite(differences).sum()) - wins - losses, losses)


def average_ranks(scores: Array) -> Array:
    """Return the mean rank of each method over subjects, 1 for the best; ties share their ranks.

    `scores` are (subjects, methods), higher is better; subjects with a missing method (NaN) are excluded.
    """
    complete = scores[~np.isnan(scores).any(axis=1)]
    if not len(complete):
        return np.full(scores.shape[1], np.nan)
    above = (complete[:, None, :] > complete[:, :, None]).sum(axis=2)
    level = (complete[:, None, :] == complete[:, :, None]).sum(axis=2)
    ranks: Array = (above + (level + 1) / 2).mean(axis=0)
    return ranks
