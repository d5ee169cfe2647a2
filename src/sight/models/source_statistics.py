"""Statistics of the training data that methods use (`sight.types.SourceStats`); no data is kept."""

from collections.abc import Sequence

import numpy as np

from sight.base import Source
from sight.types import Array, SourceStats


def source_stats(source: Source, x: Array, y: Array, *, subjects: int | None = None) -> SourceStats:
    """Return statistics of the training data that methods such as Keel use; no data is kept.

    Parameters
    ----------
    source
        Source model.
    x, y
        Windows (N, C, T) of the training data and their class indices (N,), -1 for unlabelled windows.
    subjects
        Number of subjects in the training data; if None, that of the card, which `wrap` writes from its own `subjects`.
        Keel treats an unknown number, 0, as many.

    Examples
    --------
    >>> from sight.testing import ToySource, toy_stream
    >>> source, windows = ToySource(), toy_stream()
    >>> source.stats = source_stats(source, windows.x, windows.label)
    >>> source.stats.class_means.shape, source.stats.count
    ((5, 16), 200)
    """
    x, y = _labelled(x, y, source.classes)
    if subjects is None:
        subjects = len(source.card.training.get("subjects", ())) if source.card else 0
    z, one_hot = source.encode(x)[0].astype(np.float64), np.eye(len(source.classes))[y]  # (N, D), (N, K)
    count = one_hot.sum(axis=0)
    return SourceStats(
        prior=(count / count.sum()).astype(np.float32),
        feature_mean=z.mean(axis=0).astype(np.float32),
        class_means=_class_means(one_hot.T @ z, count),
        count=len(y),
        subjects=subjects,
    )


def _class_means(sums: Array, count: Array) -> Array:
    """Return means (K, D) from sums over `count` windows of each class; the overall mean for an empty class."""
    overall = sums.sum(axis=0) / count.sum()
    means: Array = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], overall)
    return means.astype(np.float32)


def _labelled(x: Array, y: Array, classes: Sequence[str]) -> tuple[Array, Array]:
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
    return (x, y) if kept.all() else (x[kept], y[kept])
