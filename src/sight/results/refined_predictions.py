"""`refine`: adaptation for callers that have a classifier's outputs but no source model."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from sight.base import OutputAdapter
from sight.models.given_features import FeatureSource, ProbabilitySource
from sight.params import check_names
from sight.registry import RECOMMENDED, get, method as make_method, names
from sight.results.prediction_loop import run
from sight.types import UNLABELLED, Array, SourceStats, Windows

#: Keywords of `refine` itself, which an error about an unknown keyword lists beside those of the method.
OPTIONS = ("sharpness", "gap_before_s", "stats", "lag")


def refine(
    z: Array | None = None,
    p: Array | None = None,
    weight: Array | None = None,
    *,
    method: str = RECOMMENDED,
    sharpness: float = 1.0,
    gap_before_s: Array | None = None,
    stats: SourceStats | None = None,
    lag: float = 0,
    **fields: Any,
) -> Array:
    """Refine the predictions of a classifier for one wearer, in time order.

    ``refine(p)`` needs the probabilities alone, of any classifier. ``refine(z, p, weight)`` is for networks: it also
    takes their features and the weights of their head, which all methods on features can use.

    Parameters
    ----------
    z, p
        Features (N, D) and probabilities (N, K) of one wearer in time order. If only one array is given, it is `p`.
    weight
        Weights (K, D) of the linear head that computes probabilities from features; the result has its float type.
    method
        Name of the method. With probabilities alone it must not require features; the error lists those that do not.
    sharpness
        With probabilities alone: power to which they are raised first. Keel was tuned on neural networks, for which 1
        is right; use 3 for boosted trees and 5 for averaged votes, such as those of a random forest (docs/python.md).
    gap_before_s
        Seconds missing before each window, (N,).
    stats
        Statistics of the training data, for methods that use them; only with features.
    lag
        Number of later windows that each prediction may use, infinity for the whole recording; `keel` only.
    fields
        Hyper-parameters of the method.

    Returns
    -------
    Refined probabilities, (N, K).

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.9, 0.1]])
    >>> refine(p).round(2).tolist()
    [[0.9, 0.1], [0.75, 0.25], [0.95, 0.05]]

    >>> rng = np.random.default_rng(0)
    >>> q = refine(rng.normal(size=(5, 8)), np.full((5, 3), 1 / 3), rng.normal(size=(3, 8)), method="sight", tau=0.1)
    >>> q.shape
    (5, 3)
    """
    check_names(get("methods", method), fields, others=OPTIONS)
    adapter = make_method(method, **fields)
    if not isinstance(adapter, OutputAdapter):
        raise TypeError(
            f"Expected a method on outputs of the model, got {method}, which needs the network; "
            f"use sight.wrap and step."
        )
    source: FeatureSource
    if z is None or p is None or weight is None:
        if weight is not None or (z is None) == (p is None):
            raise TypeError(
                "Expected probabilities alone, or features, probabilities and the weights of the head; call "
                "sight.refine(p) or sight.refine(z, p, weight)."
            )
        if stats is not None:
            raise TypeError("Expected no stats with probabilities alone, got some; they are statistics of features.")
        given = np.asarray(z if p is None else p)
        if given.ndim != 2 or given.shape[1] < 2:
            raise ValueError(f"Expected probabilities (N, K) with K >= 2, got shape {given.shape}; one row per window.")
        source = probability_source(adapter, [f"class {k}" for k in range(given.shape[1])], sharpness)
        z, p = source.encode(given[:, :, None])
    else:
        source, z, p = FeatureSource(weight, stats=stats), np.asarray(z), np.asarray(p)
    adapter.bind(source).check_input(z, p)
    n, gaps = len(p), np.zeros(len(p)) if gap_before_s is None else np.asarray(gap_before_s)
    label, time_s = np.full(n, UNLABELLED), np.arange(n, dtype=float)
    windows = Windows(x=z[:, :, None], time_s=time_s, label=label, gap_before_s=gaps, window_s=1.0, stride_s=1.0)
    return run(adapter, windows, encoded=(z, p), lag=lag).q


def probability_source(adapter: OutputAdapter, classes: Sequence[str], sharpness: float = 1.0) -> ProbabilitySource:
    """Return the source of a classifier known by its probabilities; raise TypeError if the method needs features."""
    if adapter.needs.features == "required":
        raise TypeError(
            f"Expected a method that works on probabilities alone ({', '.join(methods_without_features())}), got "
            f"{adapter.name}, which needs the features of the model; call sight.refine(z, p, weight) or choose another."
        )
    return ProbabilitySource(classes, sharpness)


def methods_without_features() -> list[str]:
    able = []
    for name in names("methods"):
        with suppress(ModuleNotFoundError):  # methods that need torch need features too
            able += [name] if get("methods", name).needs.features != "required" else []
    return able
