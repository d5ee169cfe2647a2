"""Predictions that use later windows: with a fixed lag, or of a whole recording.

A filter such as Keel predicts each window from the windows up to it. If `lag` later windows, or the whole recording,
are available, predictions become better: the belief is carried backwards with the probabilities of a change that the
filter computed, so only methods that return these can be smoothed. Such predictions use future windows, which the
streaming rule of the result states.
"""

import math
from dataclasses import replace

import numpy as np

from sight.registry import get, supporting
from sight.types import Array, Result


def backward(q: Array, change: Array, lag: float = math.inf) -> Array:
    """Return beliefs (N, K) that use `lag` later windows, from those of a filter, each from the windows up to its own.

    `change` is the probability (N,) that the class was drawn anew, uniformly from all K, since the previous window; its
    first value is not used. An infinite lag uses all windows, which is forward-backward.
    """
    _check_lag(lag)
    beliefs, change = q.astype(np.float64), np.asarray(change, np.float64)[:, None]
    last = len(q) - 1
    if lag < last:
        return _fixed_lag(beliefs, change, int(lag)).astype(q.dtype)
    smoothed = beliefs.copy()
    for t in range(last - 1, -1, -1):
        smoothed[t] = _back(beliefs[t], smoothed[t + 1], change[t + 1])
    return smoothed.astype(q.dtype)


def _fixed_lag(beliefs: Array, change: Array, lag: int) -> Array:
    """Start the belief of every window `lag` windows later, and take all of them back together, window by window."""
    last = len(beliefs) - 1
    smoothed: Array = beliefs[np.minimum(np.arange(len(beliefs)) + lag, last)]
    for ahead in range(lag, 0, -1):
        count = len(beliefs) - ahead  # windows with that many later windows
        current, following = slice(ahead - 1, last), slice(ahead, last + 1)
        smoothed[:count] = _back(beliefs[current], smoothed[:count], change[following])
    return smoothed


def _back(belief: Array, following: Array, change: Array) -> Array:
    """Return the smoothed belief (..., K) of a window from the filter's belief and the next window's smoothed one."""
    classes = belief.shape[-1]
    predicted = (1 - change) * belief + change / classes
    ratio = np.divide(following, predicted, out=np.zeros_like(predicted), where=predicted > 0)
    smoothed: Array = belief * ((1 - change) * ratio + change / classes * ratio.sum(axis=-1, keepdims=True))
    total: Array = np.maximum(smoothed.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    return smoothed / total


def stored_lag(method: str) -> float:
    """Return the lag for stored recordings: all windows if predictions of the method can be smoothed, else none."""
    return 0.0 if get("methods", method).change_trace is None else math.inf


def rule_of(lag: float) -> str:
    return "whole recording" if math.isinf(lag) else f"lag {int(lag)}"


def require_smoothable(method: str, lag: float) -> None:
    """Raise ValueError if `lag` is not a number of windows, or if the predictions of a method cannot be smoothed."""
    _check_lag(lag)
    if lag and get("methods", method).change_trace is None:
        raise ValueError(
            f"Expected {' or '.join(supporting('change_trace'))} for lag={lag:g}, got {method}; other methods do not "
            f"compute the probability of a change. Choose one of them, or leave lag out."
        )


def _check_lag(lag: float) -> None:
    if not (lag >= 0 and (math.isinf(lag) or lag == int(lag))):
        raise ValueError(f"Expected a lag of 0, 1, 2, ... windows or infinity, got {lag}.")


def smoothed(result: Result, lag: float = math.inf) -> Result:
    """Return a result whose predictions use `lag` later windows, or the whole recording.

    Notes
    -----
    What the filter learned (such as hazard and bias) stays as it was at each window; only the belief is smoothed.
    `prediction_loop.run` with an infinite lag lets the filter process the recording twice before.
    A gap counts as a change as far as it relaxed the belief. The class of the method must declare `change_trace`.
    """
    require_smoothable(result.method, lag)
    change = np.asarray(result.trace[get("methods", result.method).change_trace], np.float64)
    half_life_s = result.params.get("gap_half_life_s")
    kept = 1.0 if half_life_s is None else 2 ** (-result.windows.gap_before_s / half_life_s)
    rule = rule_of(lag)
    notes = [*result.notes, f"sees the future ({rule})"]
    q = backward(result.q, 1 - (1 - change) * kept, lag)
    return replace(result, q=q, lag=lag, rule=rule, notes=notes)
