"""Metrics of a stream: confusion matrix and scores derived from it, calibration, time use and detection delay.

Unlabelled windows (-1) are ignored by every metric. A metric without a value, such as the accuracy of no windows, is
NaN.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from sight._util.confusion import (
    accuracy,
    balanced_accuracy,
    confusion,
    f1,
    kappa,
    macro_f1_all,
    macro_f1_truth,
    macro_f1_union,
    mean_or_nan,
    precision,
    recall,
)
from sight.results.segments import labelled_stretches, run_starts, segment_errors
from sight.types import UNLABELLED, Array, Result

#: Lower limit of probabilities in the log-likelihood; a smaller one counts as 27.6 nats.
MIN_PROBABILITY = 1e-12
MINUTES_PER_DAY = 24 * 60
Scores: TypeAlias = dict[str, Any]  # name to float, or to a list with one entry per class


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
        Class indices, (N,), -1 for unlabelled windows.
    q
        Probabilities (N, K), or class indices (N,); for indices the probability metrics are NaN.
    classes
        Names of the K classes.
    time_s, gap_before_s
        Start of each window, and seconds of missing data before it.
    stride_s
        Distance between two window starts; converts counts to hours.
    wait_s
        Seconds that every prediction waited for later windows; added to the delays.

    Notes
    -----
    Macro-F1 is computed in three ways, which differ for wearers who never perform some activity. ``macro_f1_union``
    averages over the classes in truth or predictions (scikit-learn without ``labels=``), so a single prediction of an
    absent class adds a zero. ``macro_f1_truth`` averages over the classes in truth, ``macro_f1_all`` over all K.

    Examples
    --------
    >>> q = np.array([[0.9, 0.1, 0.0], [0.6, 0.4, 0.0], [0.2, 0.8, 0.0], [0.1, 0.9, 0.0]])
    >>> scores = score(np.array([0, 1, 1, 1]), q, classes=("sit", "walk", "run"), time_s=np.arange(4), stride_s=1)
    >>> scores["accuracy"], round(scores["macro_f1_all"], 3), scores["delay_median_s"]
    (0.75, 0.489, 1.0)
    """
    truth, q = np.asarray(truth), np.asarray(q)
    _check_inputs(truth, q, len(classes))
    has_probabilities = q.ndim == 2
    predicted = q.argmax(axis=1) if has_probabilities else q
    table = confusion(truth, predicted, len(classes))
    minutes = time_use_error(table)
    scores: Scores = {
        "windows": int(table.sum()),
        "hours": float(table.sum() * stride_s / 3600),
        "accuracy": accuracy(table),
        "balanced_accuracy": balanced_accuracy(table),
        "macro_f1_union": macro_f1_union(table),
        "macro_f1_truth": macro_f1_truth(table),
        "macro_f1_all": macro_f1_all(table),
        "kappa": kappa(table),
        "nll": nll(truth, q) if has_probabilities else np.nan,
        "brier": brier(truth, q) if has_probabilities else np.nan,
        "ece": ece(truth, q) if has_probabilities else np.nan,
        "time_use_error_min": minutes.tolist(),
        "time_use_mae_min": float(np.abs(minutes).mean()),
        "f1": f1(table).tolist(),
        "precision": precision(table).tolist(),
        "recall": recall(table).tolist(),
        "support": table.sum(axis=1).tolist(),
        "confusion": table.tolist(),
    }
    scores |= delay_summary(transition_delays(truth, predicted, time_s, gap_before_s), wait_s)
    return scores | segment_errors(truth, predicted, len(classes), gap_before_s).summary()


def score_result(result: Result) -> dict[str, Scores]:
    """Return the scores of the source model alone ("raw") and of the method ("refined")."""
    return {"raw": score_predictions(result, result.p), "refined": score_predictions(result, result.q, result.lag)}


def score_predictions(result: Result, q: Array, lag: float = 0.0) -> Scores:
    """Score probabilities (N, K) against the labels of a result; each prediction waited for `lag` windows."""
    w = result.windows
    return score(
        w.label,
        q,
        classes=result.classes,
        time_s=w.time_s,
        stride_s=w.stride_s,
        gap_before_s=w.gap_before_s,
        wait_s=lag * w.stride_s,
    )


def time_use_error(table: Array) -> Array:
    """Return predicted minus true minutes of each class, per 24 hours, (K,)."""
    if not table.any():
        return np.full(len(table), np.nan)
    minutes: Array = (table.sum(axis=0) - table.sum(axis=1)) / table.sum() * MINUTES_PER_DAY
    return minutes


def nll(truth: Array, q: Array) -> float:
    """Return the mean negative log-likelihood in nats; probabilities below 1e-12 count as 1e-12."""
    labelled = truth != UNLABELLED
    likelihood = q[labelled, truth[labelled]].astype(np.float64)
    return mean_or_nan(-np.log(np.maximum(likelihood, MIN_PROBABILITY)))


def brier(truth: Array, q: Array) -> float:
    """Return the mean squared distance between probabilities and one-hot truth, from 0 to 2."""
    labelled = truth != UNLABELLED
    error = q[labelled].astype(np.float64)
    error[np.arange(len(error)), truth[labelled]] -= 1
    return mean_or_nan((error * error).sum(axis=1))


def ece(truth: Array, q: Array, bins: int = 15) -> float:
    """Return the expected calibration error over equal-width bins of the highest probability, closed on the right.

    It is the mean of abs(confidence - accuracy) over bins, weighted by the number of windows.
    """
    labelled = truth != UNLABELLED
    if not labelled.any():
        return float("nan")
    confidence = q[labelled].max(axis=1).astype(np.float64)
    correct = q[labelled].argmax(axis=1) == truth[labelled]
    edges = np.linspace(0, 1, bins + 1)
    index = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    excess = np.bincount(index, weights=confidence - correct, minlength=bins)
    return float(np.abs(excess).sum() / len(correct))


def transition_delays(truth: Array, predicted: Array, time_s: Array, gap_before_s: Array | None = None) -> Array:
    """Return the seconds from each true change to the first window predicted as the new class; NaN if none is.

    A change lies between two neighbouring labelled windows without a gap between them. It must be detected before the
    new activity ends. The delay is 0 if the new class is predicted in the first window of the new activity.
    """
    labelled, stretch = labelled_stretches(truth, gap_before_s)
    truth, predicted = truth[labelled], predicted[labelled]
    time_s = np.asarray(time_s, dtype=np.float64)[labelled]
    starts = run_starts(truth, stretch)
    if len(starts) == 0:
        return np.zeros(0)
    first_correct_s = np.minimum.reduceat(np.where(truth == predicted, time_s, np.inf), starts)
    delay: Array = np.where(np.isfinite(first_correct_s), first_correct_s - time_s[starts], np.nan)
    is_change = np.diff(stretch[starts], prepend=stretch[0] - 1) == 0
    return np.asarray(delay[is_change])


def delay_summary(delays: Array, wait_s: float = 0.0) -> dict[str, float]:
    """Return mean, median and 90th percentile of the delays of detected changes, and the number of missed changes.

    `wait_s` is added to each delay. Predictions that use the whole recording (`wait_s` infinite) have no delay: NaN.
    """
    detected = delays[~np.isnan(delays)]
    wait_s = wait_s if np.isfinite(wait_s) else np.nan
    median, p90 = np.percentile(detected, [50, 90]) if len(detected) else (np.nan, np.nan)
    return {
        "changes": float(len(delays)),
        "changes_missed": float(len(delays) - len(detected)),
        "delay_mean_s": mean_or_nan(detected) + wait_s,
        "delay_median_s": float(median) + wait_s,
        "delay_p90_s": float(p90) + wait_s,
    }


def _check_inputs(truth: Array, q: Array, n_classes: int) -> None:
    if truth.ndim != 1 or q.shape not in {(len(truth),), (len(truth), n_classes)}:
        raise ValueError(
            f"Expected truth (N,) and predictions (N, {n_classes}) or (N,), got {truth.shape} and {q.shape}; "
            f"give one row for each window."
        )
    _check_indices("truth", truth, UNLABELLED, n_classes)
    if q.ndim == 1:
        _check_indices("predictions", q, 0, n_classes)
    elif not np.isfinite(q).all():
        raise ValueError(f"Expected finite probabilities, got {int((~np.isfinite(q)).sum())} non-finite values.")


def _check_indices(name: str, values: Array, lowest: int, n_classes: int) -> None:
    is_integer = np.issubdtype(values.dtype, np.integer)
    if len(values) and not (is_integer and lowest <= values.min() <= values.max() < n_classes):
        raise ValueError(
            f"Expected {name} as whole numbers from {lowest} to {n_classes - 1}, got {values.dtype} "
            f"from {values.min()} to {values.max()}; map labels to indices of the classes first."
        )
