"""Confusion matrix, and scores that are derived from it; truth of -1 is ignored."""

import numpy as np

from sight._util.arrays import Array


def confusion(truth: Array, predicted: Array, n_classes: int) -> Array:
    """Count windows by true and predicted class, (K, K)."""
    labelled = truth != -1
    cells = truth[labelled].astype(np.int64) * n_classes + predicted[labelled]
    return np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes)


def precision(table: Array) -> Array:
    """Return the share of each predicted class that is correct, (K,); 0 for a class that is never predicted."""
    return _ratio(np.diag(table), table.sum(axis=0))


def recall(table: Array) -> Array:
    """Return the share of each true class that is predicted correctly, (K,); 0 for a class that never occurs."""
    return _ratio(np.diag(table), table.sum(axis=1))


def f1(table: Array) -> Array:
    """Return the harmonic mean of precision and recall, (K,); 0 for a class in neither truth nor predictions."""
    return _ratio(2 * np.diag(table), table.sum(axis=0) + table.sum(axis=1))


def macro_f1_union(table: Array) -> float:
    """Return the mean F1 over the classes that occur in truth or predictions."""
    return mean_or_nan(f1(table)[(table.sum(axis=0) + table.sum(axis=1)) > 0])


def macro_f1_truth(table: Array) -> float:
    return mean_or_nan(f1(table)[table.sum(axis=1) > 0])


def macro_f1_all(table: Array) -> float:
    """Return the mean F1 over all K classes, 0 for those that occur nowhere."""
    return mean_or_nan(f1(table)) if table.any() else float("nan")


def accuracy(table: Array) -> float:
    return float(np.trace(table) / table.sum()) if table.any() else float("nan")


def balanced_accuracy(table: Array) -> float:
    return mean_or_nan(recall(table)[table.sum(axis=1) > 0])


def kappa(table: Array) -> float:
    """Return Cohen's kappa, the agreement beyond chance; NaN if chance agreement is 1."""
    total = table.sum()
    chance = float(table.sum(axis=0) @ table.sum(axis=1)) / max(total, 1) ** 2
    return (accuracy(table) - chance) / (1 - chance) if total and chance < 1 else float("nan")


def _ratio(part: Array, whole: Array) -> Array:
    return part / np.maximum(whole, 1)


def mean_or_nan(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")
