"""Means of paired differences over subjects, with intervals, records and ranks.

Intervals start from one number per subject and source model, and draw both. Records and ranks start from one number per
subject: the mean, over source models, of a method's score on that target.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sight.types import Array

DRAWS = 10_000
#: Smallest number of subjects for which intervals and tests are computed.
MIN_SUBJECTS = 5
#: Differences smaller than this many points are ties.
TIE = 0.005


class Difference(NamedTuple):
    """A mean difference in points, and its 95 % bootstrap interval."""

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


class SettingRuns(NamedTuple):
    """Differences of two methods on one setting, and who is behind them.

    Attributes
    ----------
    differences
        One row per target subject, one column per source model (source subjects and seed); NaN where not run.
    targets, models
        Names of rows and columns.
    dataset
        Settings of one dataset share subjects.
    weight
        Weight of the setting in a mean over settings.
    """

    differences: Array
    targets: Sequence[Hashable]
    models: Sequence[Hashable]
    dataset: str = ""
    weight: float = 1.0


def mean_difference(differences: Array) -> Difference:
    """Return the mean over subjects of differences (n,) or (n, source models), with its bootstrap interval."""
    by_subject = _by_model(differences)
    means = np.nanmean(by_subject, axis=1) if by_subject.size else np.empty(0)
    mean = float(np.mean(means)) if len(means) else float("nan")
    return Difference(mean, *bootstrap_interval(by_subject))


def bootstrap_interval(differences: Array, draws: int = DRAWS) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean, over subjects and source models drawn with replacement.

    `differences` has one row per subject and one column per source model, NaN where not run; or one number per subject
    (n,), which counts as one source model. See `two_way_interval`.
    """
    runs = _by_model(differences)
    return two_way_interval([SettingRuns(runs, range(runs.shape[0]), range(runs.shape[1]))], draws)


def two_way_interval(settings: Sequence[SettingRuns], draws: int = DRAWS) -> tuple[float, float]:
    """Return the 95 % percentile interval of the weighted mean over settings of mean differences.

    The mean of a setting is over target subjects of the mean over their source models. Each draw takes as many target
    subjects as a dataset has, and as many source models as a setting has, both with replacement. A subject drawn twice
    counts twice in every setting of the dataset. Settings of a dataset with the same source models, by name, share the
    draw of models. A subject without any of the models drawn is not part of that draw.

    NaN if a setting has fewer than five target subjects. With one source model only subjects are drawn, and the
    interval does not cover other models. With two to four models it is too narrow, as with every bootstrap of so few.
    """
    if not settings or min(len(own.targets) for own in settings) < MIN_SUBJECTS:
        return float("nan"), float("nan")
    subjects: dict[str, dict[Hashable, int]] = {}
    for own in settings:
        pool = subjects.setdefault(own.dataset, {})
        for target in own.targets:
            pool.setdefault(target, len(pool))
    pools = list(subjects)
    groups = list(dict.fromkeys((own.dataset, frozenset(own.models)) for own in settings))
    total, weight = np.zeros(draws), np.zeros(draws)
    for own in settings:
        pool = subjects[own.dataset]
        chosen = _draw_counts(len(pool), draws, 2 * pools.index(own.dataset))[:, [pool[name] for name in own.targets]]
        stream = 2 * groups.index((own.dataset, frozenset(own.models))) + 1
        columns = np.argsort([str(name) for name in own.models])  # the same order in all settings of a group
        means = _drawn_means(own.differences[:, columns], chosen, _draw_counts(len(own.models), draws, stream))
        drawn = np.isfinite(means)
        total += own.weight * np.where(drawn, means, 0)
        weight += own.weight * drawn
    return _percentiles(total[weight > 0] / weight[weight > 0])


def _by_model(differences: Array) -> Array:
    """Return differences as (subjects, source models)."""
    values = np.asarray(differences, dtype=np.float64)
    return values[:, None] if values.ndim == 1 else values


def _drawn_means(differences: Array, subjects: Array, models: Array) -> Array:
    """Return the mean of each draw, given how often it has each subject (draws, n) and each model (draws, m)."""
    run = np.isfinite(differences)
    count = models @ run.T  # (draws, n)
    means = models @ np.where(run, differences, 0).T / np.maximum(count, 1)
    weight = subjects * (count > 0)
    total = weight.sum(axis=1)
    return np.where(total > 0, (weight * means).sum(axis=1) / np.maximum(total, 1), np.nan)


def _percentiles(means: Array) -> tuple[float, float]:
    low, high = np.quantile(means, [0.025, 0.975]).round(9)
    return float(low), float(high)


@lru_cache(maxsize=64)
def _draw_counts(members: int, draws: int, stream: int) -> Array:
    """Return how often each member is in a draw of as many with replacement, (draws, members); the same each time."""
    drawn = np.random.default_rng(stream).integers(members, size=(draws, members))
    cells = drawn + members * np.arange(draws)[:, None]
    return np.bincount(cells.ravel(), minlength=draws * members).reshape(draws, members).astype(np.float64)


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
