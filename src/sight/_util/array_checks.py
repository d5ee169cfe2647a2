"""Checks of what an adapter is given: the head of its source, windows, features, probabilities, gaps."""

from typing import Any

import numpy as np

from sight._util.arrays import Array

#: Longest feature vector that methods take: products of two still fit into float32.
MAX_LENGTH = 1e18
#: Largest difference from 1 of the sum of probabilities.
SUM_TOLERANCE = 1e-3


def check_source(name: str, source: Any) -> None:
    """Raise ValueError if head, class names and statistics of a `sight.base.Source` do not fit together."""
    weight = np.asarray(source.weight)
    if weight.ndim != 2 or weight.shape[0] < 2:
        raise ValueError(f"{name}: expected head weights (K, D) with K >= 2, got {weight.shape}.")
    usable = np.isfinite(weight).all(axis=1) & weight.any(axis=1)
    if not usable.all():
        bad = int(np.argmin(usable))
        raise ValueError(
            f"{name}: expected finite rows with a direction in the head's weights, got a row of zeros or "
            f"non-finite values for class {source.classes[bad]!r}; retrain the head or remove that class."
        )
    bias, stats = np.asarray(source.bias), source.stats
    if bias.shape != weight.shape[:1] or not np.isfinite(bias).all() or len(source.classes) != len(weight):
        raise ValueError(
            f"{name}: expected {len(weight)} finite biases and class names, one per row of the head, got "
            f"{bias.shape} {'' if np.isfinite(bias).all() else 'with NaN or infinity '}and {len(source.classes)}."
        )
    if stats is not None and np.shape(stats.class_means) != weight.shape:
        raise ValueError(
            f"{name}: expected statistics of {weight.shape[0]} classes and {weight.shape[1]} features, as the "
            f"head has them, got {np.shape(stats.class_means)}; compute them with this model."
        )


def check_outputs(name: str, z: Array, p: Array, head: tuple[int, ...]) -> None:
    """Raise ValueError, naming the window, if a method cannot take features `z` and probabilities `p` of a head."""
    classes, dims = head
    if z.ndim != 2 or z.shape[1] != dims or p.shape != (len(z), classes):
        raise ValueError(
            f"{name}: expected features (B, {dims}) and probabilities (B, {classes}), as the head has them, "
            f"got {z.shape} and {p.shape}."
        )
    require_finite(name, "feature", z)
    require_finite(name, "probabilities", p)
    long = np.linalg.norm(z.astype(np.float64), axis=1) >= MAX_LENGTH
    if long.any():
        raise ValueError(
            f"{name}: expected features shorter than {MAX_LENGTH:g}, got a longer one for window "
            f"{int(np.argmax(long))}; check the model and the unit of its input (nothing was changed)."
        )
    check_probabilities(p, f"{name}: expected", "pass softmax outputs, not logits.")


def check_probabilities(p: Array, expected: str, remedy: str) -> None:
    """Raise ValueError, which begins and ends with these texts, if a row of `p` (B, K) is no distribution."""
    valid = are_probabilities(p)
    if not valid.all():
        t = int(np.argmin(valid))
        found = f"got {np.round(p[t], 4).tolist()} for window {t}"
        raise ValueError(f"{expected} probabilities that sum to 1, {found}; {remedy}")


def are_probabilities(p: Array) -> Array:
    """Return which rows (B,) of `p` (B, K) are probabilities: nowhere negative, with a sum of 1."""
    valid: Array = (p >= 0).all(axis=1) & (np.abs(p.sum(axis=1) - 1) <= SUM_TOLERANCE)
    return valid


def check_gap(name: str, seconds: float) -> None:
    if not (np.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{name}: expected a gap of zero or more seconds, got {seconds}.")


def require_finite(method: str, what: str, values: Array) -> None:
    """Raise ValueError if there is NaN or infinity; a sum of squares decides quickly whether to look for it."""
    flat = values.reshape(-1)
    if values.dtype.kind == "f" and np.isfinite(np.dot(flat, flat)):
        return
    finite = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    if not finite.all():
        raise ValueError(
            f"{method}: {what} {int(np.argmin(finite))} holds NaN or infinity; "
            f"drop it or fill it before adapting (nothing was changed)."
        )
