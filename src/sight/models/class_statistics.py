"""Statistics of features per class, for any source model; numpy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sight.types import Array, SourceStats


def feature_stats(z: Array, y: Array, classes: Sequence[str], subjects: int = 0) -> SourceStats:
    """Return class frequencies and mean features of labelled features (N, D) with class indices (N,)."""
    z, one_hot = z.astype(np.float64), np.eye(len(classes))[y]  # (N, K)
    count = one_hot.sum(axis=0)
    return SourceStats(
        prior=(count / count.sum()).astype(np.float32),
        feature_mean=z.mean(axis=0).astype(np.float32),
        class_means=class_means(one_hot.T @ z, count),
        count=len(y),
        subjects=subjects,
    )


def class_means(sums: Array, count: Array) -> Array:
    """Return means (..., K, D) from sums over `count` windows of each class; the overall mean for an empty class."""
    overall = sums.sum(axis=-2, keepdims=True) / count.sum()
    means: Array = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], overall)
    return means.astype(np.float32)


def labelled(x: Array, y: Array, classes: Sequence[str]) -> tuple[Array, Array]:
    """Return the labelled ones of windows (N, C, T), and their labels; raise ValueError if labels do not fit."""
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim != 3 or y.shape != x.shape[:1] or y.dtype.kind not in "iu":
        raise ValueError(
            f"Expected windows (N, C, T) and one class index for each, got {x.shape} and {y.dtype} {y.shape}; "
            f"map class names to their position in source.classes."
        )
    kept = y >= 0
    if not kept.any() or y.max() >= len(classes):
        found = f"up to {y.max()}" if kept.any() else "none"
        raise ValueError(
            f"Expected class indices from 0 to {len(classes) - 1}, and -1 for unlabelled windows, got {found}; "
            f"use the classes of the model: {', '.join(classes)}."
        )
    return x[kept], y[kept]
