"""Pure numpy functions of probabilities and vectors."""

import numpy as np

from sight.types import Array

#: Sum of weights below which they cannot be normalised.
LEAST_SUM = 1e-30


def softmax(logits: Array, axis: int = -1) -> Array:
    """Return the softmax of logits, computed after subtracting their maximum."""
    shifted: Array = np.exp(logits - logits.max(axis=axis, keepdims=True))
    total: Array = shifted.sum(axis=axis, keepdims=True)
    return shifted / total


def unit(vectors: Array, eps: float = 1e-8) -> Array:
    """Scale to length 1 along the last axis; a vector shorter than `eps` is divided by `eps`."""
    length: Array = np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True))
    return vectors / np.maximum(length, eps)


def cosine(a: Array, b: Array, eps: float = 1e-8) -> Array:
    """Return the cosine along the last axis, with norms of at least `eps`."""
    product: Array = unit(a, eps) * unit(b, eps)
    return np.asarray(product.sum(axis=-1))


def entropy(p: Array) -> Array:
    """Return the Shannon entropy in nats along the last axis, with 0 log 0 = 0."""
    positive = p > 0
    spread: Array = (p * -np.log(np.where(positive, p, 1))).sum(axis=-1)
    return spread


def normalise(weights: Array, fallback: Array) -> Array:
    """Divide by the sum; return a copy of `fallback` if the sum is below `LEAST_SUM`."""
    total = weights.sum()
    return fallback.copy() if total < LEAST_SUM else weights / total


def relax(belief: Array, seconds: float, half_life_s: float | None) -> Array:
    """Move a belief towards uniform over a gap of so many seconds; a half-life of None keeps it."""
    if half_life_s is None:
        return belief
    uniform = 1 / len(belief)
    faded: Array = uniform + (belief - uniform) * 2 ** (-seconds / half_life_s)
    return faded.astype(belief.dtype)
