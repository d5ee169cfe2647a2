"""Confusion to every metric; beside it calibration, time use and how long a change takes to be noticed.

Windows without a label (-1) count for nothing anywhere. A figure that has no meaning, such as the accuracy of no
windows, is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from sight.segments import labelled_stretches, run_starts, segment_errors
from sight.types import UNLABELLED, Array, Result

#: Smallest probability that the log-likelihood believes; a class answered with 0 costs 27.6 nats.
SMALLEST = 1e-12
MINUTES_A_DAY = 24 * 60
Scores: TypeAlias = dict[str, Any]  # name to float, or to a list with one entry a class


def score(
    truth: Array,
    q: Array,
    *,
    classes: Sequence[str],
    time_s: Array,
    stride_s: float,
    gap_before_s: Array | None = None,
    wait_s: float = 0.0,
) -> Scores:
    """Compute every metric of one stream.

    Parameters
    ----------
    truth
        Class indices, (N,), -1 where there is none.
    q
        Probabilities (N, K), or class indices (N,); then the metrics of probability are NaN.
    classes
        Names of the K classes.
    time_s, gap_before_s
        Start of each window, and seconds missing before it.
    stride_s
        Distance between two windows; it turns counts into hours.
    wait_s
        Seconds that every answer waited for windows after its own; they are part of the delays.

    Notes
    -----
    Three readings of macro-F1 are given because they differ on wearers who never do some activity:
    ``macro_f1_union`` averages over classes in truth or answer (scikit-learn without ``labels=``), so one spurious
    answer adds a zero; ``macro_f1_truth`` over classes in truth; ``macro_f1_all`` over all K.

    Examples
    --------
    >>> q = np.array([[0.9, 0.1, 0.0], [0.6, 0.4, 0.0], [0.2, 0.8, 0.0], [0.1, 0.9, 0.0]])
    >>> found = score(np.array([0, 1, 1, 1]), q, classes=("sit", "walk", "run"), time_s=np.arange(4), stride_s=1)
    >>> found["accuracy"], round(found["macro_f1_all"], 3), found["delay_median_s"]
    (0.75, 0.489, 1.0)
    """
    truth, q = _checked(truth, q, len(classes))
    answer = q.argmax(axis=1) if q.ndim == 2 else q
    table = confusion(truth, answer, len(classes))
    minutes = time_use_error(table)
    found: Scores = {
        "windows": int(table.sum()),
        "hours": float(table.sum() * stride_s / 3600),
        "accuracy": accuracy(table),
        "balanced_accuracy": balanced_accuracy(table),
        "macro_f1_union": macro_f1_union(table),
        "macro_f1_truth": macro_f1_truth(table),
        "macro_f1_all": macro_f1_all(table),
        "kappa": kappa(table),
        "nll": nll(truth, q) if q.ndim == 2 else np.nan,
        "brier": brier(truth, q) if q.ndim == 2 else np.nan,
        "ece": ece(truth, q) if q.ndim == 2 else np.nan,
        "time_use_error_min": minutes.tolist(),
        "time_use_mae_min": float(np.abs(minutes).mean()),
        "f1": f1(table).tolist(),
        "precision": precision(table).tolist(),
        "recall": recall(table).tolist(),
        "support": table.sum(axis=1).tolist(),
        "confusion": table.tolist(),
    }
    found |= delay_summary(transition_delays(truth, answer, time_s, gap_before_s), wait_s)
    return found | segment_errors(truth, answer, len(classes), gap_before_s).summary()


def score_result(result: Result) -> dict[str, Scores]:
    """Score what the source alone answered ("raw") and what the method made of it ("refined")."""
    windows = result.windows

    def scored(q: Array, lag: float = 0.0) -> Scores:
        return score(
            windows.label,
            q,
            classes=result.classes,
            time_s=windows.time_s,
            stride_s=windows.stride_s,
            gap_before_s=windows.gap_before_s,
            wait_s=lag * windows.stride_s,
        )

    return {"raw": scored(result.p), "refined": scored(result.q, result.lag)}


# --- from the confusion matrix: rows are truth, columns are answers ------------------------------------------------


def confusion(truth: Array, answer: Array, n_classes: int) -> Array:
    """Count windows by true and answered class, (K, K).

    Examples
    --------
    >>> confusion(np.array([0, 1, -1, 1]), np.array([0, 0, 0, 1]), 2).tolist()
    [[1, 0], [1, 1]]
    """
    kept = truth != UNLABELLED
    cells = truth[kept].astype(np.int64) * n_classes + answer[kept]
    return np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes)


def precision(table: Array) -> Array:
    """Share of a class's answers that are right, (K,); 0 for a class never answered."""
    return _over(np.diag(table), table.sum(axis=0))


def recall(table: Array) -> Array:
    """Share of a class's windows that are found, (K,); 0 for a class that never occurs."""
    return _over(np.diag(table), table.sum(axis=1))


def f1(table: Array) -> Array:
    """Harmonic mean of precision and recall, (K,); 0 for a class in neither truth nor answers."""
    return _over(2 * np.diag(table), table.sum(axis=0) + table.sum(axis=1))


def macro_f1_union(table: Array) -> float:
    """Mean F1 over the classes that occur in truth or answers."""
    return _mean(f1(table)[(table.sum(axis=0) + table.sum(axis=1)) > 0])


def macro_f1_truth(table: Array) -> float:
    """Mean F1 over the classes that occur in truth."""
    return _mean(f1(table)[table.sum(axis=1) > 0])


def macro_f1_all(table: Array) -> float:
    """Mean F1 over all K classes, 0 for those that occur nowhere."""
    return _mean(f1(table)) if table.any() else float("nan")


def accuracy(table: Array) -> float:
    """Share of right windows."""
    return float(np.trace(table) / table.sum()) if table.any() else float("nan")


def balanced_accuracy(table: Array) -> float:
    """Mean recall over the classes that occur in truth."""
    return _mean(recall(table)[table.sum(axis=1) > 0])


def kappa(table: Array) -> float:
    """Cohen's kappa: agreement beyond chance; NaN where chance alone agrees fully."""
    total = table.sum()
    chance = float(table.sum(axis=0) @ table.sum(axis=1)) / max(total, 1) ** 2
    return (accuracy(table) - chance) / (1 - chance) if total and chance < 1 else float("nan")


def time_use_error(table: Array) -> Array:
    """Answered minus true minutes of each class in 24 hours, (K,).

    Examples
    --------
    >>> time_use_error(np.array([[3, 1], [0, 4]])).tolist()
    [-180.0, 180.0]
    """
    if not table.any():
        return np.full(len(table), np.nan)
    minutes: Array = (table.sum(axis=0) - table.sum(axis=1)) / table.sum() * MINUTES_A_DAY
    return minutes


# --- from probabilities ------------------------------------------------------------------------------------------


def nll(truth: Array, q: Array) -> float:
    """Mean negative log-likelihood in nats; probabilities below 1e-12 are taken for 1e-12."""
    kept = truth != UNLABELLED
    likelihood = q[kept, truth[kept]].astype(np.float64)
    return _mean(-np.log(np.maximum(likelihood, SMALLEST)))


def brier(truth: Array, q: Array) -> float:
    """Mean squared distance between the answer and the truth as one-hot, between 0 and 2."""
    kept = truth != UNLABELLED
    miss = q[kept].astype(np.float64)
    miss[np.arange(len(miss)), truth[kept]] -= 1
    return _mean((miss * miss).sum(axis=1))


def ece(truth: Array, q: Array, bins: int = 15) -> float:
    """Measure the expected calibration error: confidence against accuracy over equal bins of the top probability.

    Notes
    -----
    Bins are closed on the right; each weighs by its windows.

    Examples
    --------
    >>> round(ece(np.array([0, 1]), np.array([[0.9, 0.1], [0.9, 0.1]])), 6)
    0.4
    """
    kept = truth != UNLABELLED
    if not kept.any():
        return float("nan")
    confidence = q[kept].max(axis=1).astype(np.float64)
    right = q[kept].argmax(axis=1) == truth[kept]
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    excess = np.bincount(place, weights=confidence - right, minlength=bins)
    return float(np.abs(excess).sum() / len(right))


# --- from the order of time ----------------------------------------------------------------------------------------


def transition_delays(truth: Array, answer: Array, time_s: Array, gap_before_s: Array | None = None) -> Array:
    """Seconds from each true change to the first window that answers the new class; NaN where none does.

    Notes
    -----
    A change is seen between two neighbouring labelled windows without a gap between them; it must be noticed before
    the new activity ends. An answer that was there before the change counts as 0.

    Examples
    --------
    >>> truth, answer = np.array([0, 0, 1, 1, 0, 2, 2]), np.array([0, 0, 0, 1, 1, 2, 2])
    >>> transition_delays(truth, answer, np.arange(7.0)).tolist()
    [1.0, nan, 0.0]
    """
    kept, stretch = labelled_stretches(truth, gap_before_s)
    truth, hit, time_s = truth[kept], truth[kept] == answer[kept], np.asarray(time_s, dtype=np.float64)[kept]
    starts = run_starts(truth, stretch)
    if len(starts) == 0:
        return np.zeros(0)
    first_hit = np.minimum.reduceat(np.where(hit, time_s, np.inf), starts)
    delay: Array = np.where(np.isfinite(first_hit), first_hit - time_s[starts], np.nan)
    follows = np.diff(stretch[starts], prepend=stretch[0] - 1) == 0
    return np.asarray(delay[follows])


def delay_summary(delays: Array, wait_s: float = 0.0) -> dict[str, float]:
    """Mean, median and 90th percentile over the changes that were noticed, and how many were not.

    Notes
    -----
    Answers that waited come so much later; those that saw the whole recording come when it is over, which is no delay
    of a change: their delays are NaN.
    """
    noticed = delays[~np.isnan(delays)]
    wait_s = wait_s if np.isfinite(wait_s) else np.nan
    middle, late = np.percentile(noticed, [50, 90]) if len(noticed) else (np.nan, np.nan)
    return {
        "changes": float(len(delays)),
        "changes_missed": float(len(delays) - len(noticed)),
        "delay_mean_s": _mean(noticed) + wait_s,
        "delay_median_s": float(middle) + wait_s,
        "delay_p90_s": float(late) + wait_s,
    }


# --- small helpers -------------------------------------------------------------------------------------------------


def _over(part: Array, whole: Array) -> Array:
    share: Array = part / np.maximum(whole, 1)
    return share


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _checked(truth: Array, q: Array, n_classes: int) -> tuple[Array, Array]:
    truth, q = np.asarray(truth), np.asarray(q)
    if truth.ndim != 1 or q.shape not in {(len(truth),), (len(truth), n_classes)}:
        raise ValueError(
            f"Expected truth (N,) and answers (N, {n_classes}) or (N,), got {truth.shape} and {q.shape}; "
            f"give one row for each window."
        )
    indices = {"truth": truth} if q.ndim == 2 else {"truth": truth, "answers": q}
    for name, values in indices.items():
        lowest = UNLABELLED if name == "truth" else 0
        if len(values) and not (
            np.issubdtype(values.dtype, np.integer) and lowest <= values.min() <= values.max() < n_classes
        ):
            raise ValueError(
                f"Expected {name} as whole numbers from {lowest} to {n_classes - 1}, got {values.dtype} "
                f"from {values.min()} to {values.max()}; map labels to indices of the classes first."
            )
    if q.ndim == 2 and not np.isfinite(q).all():
        raise ValueError(f"Expected finite probabilities, got {int((~np.isfinite(q)).sum())} that are not.")
    return truth, q
