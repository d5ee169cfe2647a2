"""Whether a difference is more than luck: paired over people, for they are what varies.

Every figure here starts from one number a person: the mean, over seeds and sources, of a method's score on that target.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sight.types import Array

DRAWS = 10_000
#: Fewer people than this tell nothing about the next one.
FEWEST = 5
#: Differences smaller than this many points are ties.
TIE = 0.005
#: Up to so many people every pattern of signs is counted.
COUNTED = 12


class Apart(NamedTuple):
    """A mean difference in points, and its 95 % interval over people."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """What the interval shows, as `verdict` says it."""
        return verdict(self.low, self.high)


class Record(NamedTuple):
    """How often one method was better, level and worse than another."""

    wins: int
    ties: int
    losses: int


def bootstrap_interval(differences: Array, draws: int = DRAWS) -> tuple[float, float]:
    """Bracket the mean difference by percentiles over people drawn with replacement; NaN with fewer than five.

    Parameters
    ----------
    differences
        One for each person, (n,).
    draws
        How many; 95 % of them lie inside.

    Examples
    --------
    >>> bootstrap_interval(np.array([1.0, 2.0, 3.0, 2.0, 2.0]))
    (1.4, 2.6)
    """
    differences = np.asarray(differences, dtype=np.float64)
    if len(differences) < FEWEST:
        return float("nan"), float("nan")
    return _middle(differences[_drawn(len(differences), draws)].mean(axis=1))


def shared_interval(differences: Sequence[Array], people: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Bracket the mean over settings of mean differences, where settings share people.

    Parameters
    ----------
    differences, people
        One of each for every setting: a difference for each person, (n,), and who they are. A person who is drawn
        twice counts twice in every setting that has them. NaN where a setting has fewer than five.

    Examples
    --------
    >>> one = np.array([1.0, 2.0, 3.0, 2.0, 2.0])
    >>> shared_interval([one, one], ["abcde", "abcde"]) == bootstrap_interval(one)
    True
    """
    if not differences or min(map(len, differences)) < FEWEST:
        return float("nan"), float("nan")
    everybody = list(dict.fromkeys(person for group in people for person in group))
    place = {person: at for at, person in enumerate(everybody)}
    counts = _counted(len(everybody), DRAWS)
    means = []
    for own, group in zip(differences, people, strict=True):
        weight = counts[:, [place[person] for person in group]]
        total = weight.sum(axis=1)
        means.append(np.where(total > 0, weight @ np.asarray(own, dtype=np.float64), np.nan) / np.maximum(total, 1))
    return _middle(np.nanmean(means, axis=0))


def verdict(low: float, high: float) -> str:
    """Say what an interval of differences shows: "better", "worse", "open", or "unknown" where there is none.

    Examples
    --------
    >>> verdict(0.2, 1.0), verdict(-2.0, -0.1), verdict(-1.0, 1.0)
    ('better', 'worse', 'open')
    """
    if not np.isfinite(low):
        return "unknown"
    return "better" if low > 0 else "worse" if high < 0 else "open"


def _middle(means: Array) -> tuple[float, float]:
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


@lru_cache(maxsize=16)
def _drawn(people: int, draws: int) -> Array:
    """Draw places of people with replacement, the same each time, (draws, people)."""
    return np.random.default_rng(0).integers(people, size=(draws, people))


@lru_cache(maxsize=16)
def _counted(people: int, draws: int) -> Array:
    """Count how often each person is in a draw, (draws, people)."""
    cells = _drawn(people, draws) + people * np.arange(draws)[:, None]
    return np.bincount(cells.ravel(), minlength=draws * people).reshape(draws, people).astype(np.float64)


def signed_rank(differences: Array) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test; people without a difference are left out.

    Notes
    -----
    Exact with up to twelve people, and with up to fifty where no two differences have the same size; normal
    approximation otherwise. Without any difference p is 1. With five people or fewer no result is below 0.05.

    Examples
    --------
    >>> signed_rank(np.ones(5))
    0.0625
    """
    from scipy.stats import rankdata, wilcoxon

    moved = np.asarray(differences, dtype=np.float64)
    moved = moved[moved != 0]
    if not len(moved):
        return 1.0
    if len(moved) <= COUNTED:
        ranks = rankdata(np.abs(moved))
        sums = np.abs(_signs(len(moved)) @ ranks)
        return float((sums >= abs(np.sign(moved) @ ranks)).mean())
    distinct = len(np.unique(np.abs(moved))) == len(moved)
    return float(wilcoxon(moved, method="exact" if distinct and len(moved) <= 50 else "approx").pvalue)


@lru_cache(maxsize=COUNTED)
def _signs(people: int) -> Array:
    """Write every pattern of signs, (2^people, people)."""
    return np.array(list(itertools.product((-1.0, 1.0), repeat=people)))


def holm(p: Sequence[float] | Array) -> Array:
    """Adjust p-values for their number by Holm's step-down; NaN stays NaN and counts for nothing.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    steps = values[order] * (len(order) - np.arange(len(order)))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return adjusted


def record(differences: Array, tie: float = TIE) -> Record:
    """Count wins, ties and losses.

    Examples
    --------
    >>> record(np.array([1.0, -0.5, 0.001, 2.0]))
    Record(wins=2, ties=1, losses=1)
    """
    differences = np.asarray(differences)
    wins, losses = int((differences > tie).sum()), int((differences < -tie).sum())
    return Record(wins, int(np.isfinite(differences).sum()) - wins - losses, losses)


def average_ranks(scores: Array) -> Array:
    """Average the rank of each method over people, 1 for the best; equals share their ranks.

    Parameters
    ----------
    scores
        People by methods, (n, m), more is better; people with a method missing (NaN) are left out.

    Examples
    --------
    >>> average_ranks(np.array([[0.9, 0.5, 0.5], [0.2, 0.4, 0.6]])).tolist()
    [2.0, 2.25, 1.75]
    """
    whole = scores[~np.isnan(scores).any(axis=1)]
    if not len(whole):
        return np.full(scores.shape[1], np.nan)
    above = (whole[:, None, :] > whole[:, :, None]).sum(axis=2)
    level = (whole[:, None, :] == whole[:, :, None]).sum(axis=2)
    ranks: Array = (above + (level + 1) / 2).mean(axis=0)
    return ranks
