"""`compare`: the difference of two methods, models or settings over subjects, with an interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sight.results.metrics import score_predictions
from sight.results.score_statistics import MIN_SUBJECTS, Difference, Record, mean_difference, record
from sight.types import Array, Result


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Paired difference of scores, a minus b, over subjects.

    Parameters
    ----------
    differences
        Difference of each subject, (n,).
    mean, low, high
        Mean difference, and its 95 % bootstrap interval over subjects; NaN with fewer than five subjects.
    record
        Number of subjects for which a is better, equal and worse.
    metric
        Name of the metric.
    """

    differences: Array
    mean: float
    low: float
    high: float
    record: Record
    metric: str

    @property
    def verdict(self) -> str:
        """Whether a is "better" or "worse" than b; "open" if the interval includes zero, "unknown" without one."""
        return Difference(self.mean, self.low, self.high).verdict

    @property
    def subjects_needed(self) -> int:
        """Number of subjects for an interval that excludes zero, if mean and spread stay as they are; at least five."""
        if len(self.differences) < 2 or self.mean == 0:
            return MIN_SUBJECTS
        return max(MIN_SUBJECTS, int(np.ceil((1.96 * np.std(self.differences, ddof=1) / self.mean) ** 2)))

    def __str__(self) -> str:
        n, text = len(self.differences), f"{self.metric} {self.mean:+.3f}"
        if self.verdict == "unknown":
            return f"{text}, {n} subjects: too few for an interval, which needs {MIN_SUBJECTS}"
        text += f" (95 % interval {self.low:+.3f} to {self.high:+.3f}, {n} subjects): {self.verdict}"
        return f"{text}, about {self.subjects_needed} subjects needed" if self.verdict == "open" else text


def compare(a: Any, b: Any = None, *, metric: str = "macro_f1_union") -> Comparison:
    """Return the paired difference of two methods over subjects, with its bootstrap interval.

    Parameters
    ----------
    a, b
        One entry per subject, in the same order, or mappings from subjects: results of `sight.run` on labelled windows,
        or scores. If `b` is None, the results of `a` are compared with their source model alone.
    metric
        Key of `sight.results.metrics.score` to compute from results; a higher value is better.

    Raises
    ------
    ValueError
        If the two do not have the same subjects, or a score is not a finite number.

    Notes
    -----
    The interval covers other subjects, not other trainings of the source model; average the scores of several seeds for
    each subject first.

    Examples
    --------
    >>> print(compare([0.71, 0.80, 0.65, 0.77, 0.90], [0.70, 0.74, 0.66, 0.70, 0.85], metric="accuracy"))
    accuracy +0.036 (95 % interval +0.008 to +0.062, 5 subjects): better
    >>> print(compare([0.71, 0.80], [0.70, 0.74]))
    macro_f1_union +0.035, 2 subjects: too few for an interval, which needs 5
    """
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            single = ", ".join(sorted(map(str, set(a) ^ set(b))))
            raise ValueError(f"Expected the same subjects in both, got {single} in one only; drop them.")
        b = [b[subject] for subject in a]
    entries = list(a.values()) if isinstance(a, Mapping) else list(a)
    others = entries if b is None else list(b)
    if len(entries) != len(others) or not entries:
        raise ValueError(f"Expected one entry per subject in both, got {len(entries)} and {len(others)}.")
    differences = _scores(entries, metric) - _scores(others, metric, raw=b is None)
    found = mean_difference(differences)
    return Comparison(differences=differences, **found._asdict(), record=record(differences, tie=0.0), metric=metric)


def _scores(entries: Sequence[Any], metric: str, *, raw: bool = False) -> Array:
    values = np.array([_score(entry, metric, raw=raw) for entry in entries], np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(
            f"Expected finite scores, got {values[bad[0]]} for subject {bad[0]}; leave out subjects without labelled "
            f"windows."
        )
    return values


def _score(entry: Any, metric: str, *, raw: bool) -> float:
    """Return a score, or that of a result; `raw` is that of its source model alone."""
    if not isinstance(entry, Result):
        if raw:
            raise ValueError(
                f"Expected results of sight.run to compare with their source model, got {entry!r}; pass b too."
            )
        return float(entry)
    scores = score_predictions(entry, entry.p) if raw else score_predictions(entry, entry.q, entry.lag)
    if not isinstance(scores.get(metric), float):
        numbers = [name for name, value in scores.items() if isinstance(value, float)]
        raise ValueError(f"There is no metric {metric!r}; choose from {', '.join(numbers)}.")
    return float(scores[metric])
