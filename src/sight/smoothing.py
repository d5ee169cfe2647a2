"""Answers that wait: what a filter would have said of a window, had it known some that came after it.

A filter such as Keel's answers each window at once. Who can wait for `lag` more windows, or has the whole recording,
gets better answers from the same pass: the belief is carried back through the probabilities of a change that the filter
found. Such answers have seen the future, and every result says so in its streaming rule.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sight.types import Array, Result

#: Methods that are hidden Markov filters, and the name in their trace of the probability of a change before a window.
CHANGES = {"keel": "surprise"}


def backward(q: Array, change: Array, lag: float = math.inf) -> Array:
    """Carry the beliefs of a filter back in time.

    Parameters
    ----------
    q
        Beliefs of the filter, (N, K): each from the windows up to its own.
    change
        Probability (N,) that the class was drawn anew, evenly from all K, since the window before; the first is unused.
    lag
        Windows that an answer waits for; infinity for all, which is forward-backward.

    Returns
    -------
    Beliefs (N, K), each from the windows up to `lag` after its own.

    Examples
    --------
    >>> backward(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0.1, 0.1])).round(2).tolist()
    [[0.86, 0.14], [0.9, 0.1]]
    """
    _check_lag(lag)
    beliefs, change = q.astype(np.float64), np.asarray(change, np.float64)[:, None]
    last = len(q) - 1
    if lag < last:
        return _fixed_lag(beliefs, change, int(lag)).astype(q.dtype)
    answers = beliefs.copy()
    for t in range(last - 1, -1, -1):
        answers[t] = _back(beliefs[t], answers[t + 1], change[t + 1])
    return answers.astype(q.dtype)


def _fixed_lag(beliefs: Array, change: Array, lag: int) -> Array:
    """Start every window's answer `lag` windows later and take all of them back together, one window at a time."""
    last = len(beliefs) - 1
    answers: Array = beliefs[np.minimum(np.arange(len(beliefs)) + lag, last)]
    for ahead in range(lag, 0, -1):
        count = len(beliefs) - ahead  # windows that have so many after them
        now, after = slice(ahead - 1, last), slice(ahead, last + 1)
        answers[:count] = _back(beliefs[now], answers[:count], change[after])
    return answers


def _back(belief: Array, following: Array, change: Array) -> Array:
    """Belief (..., K) of a window, given the filter's own and the better one of the window after it."""
    classes = belief.shape[-1]
    predicted = (1 - change) * belief + change / classes
    ratio = np.divide(following, predicted, out=np.zeros_like(predicted), where=predicted > 0)
    better: Array = belief * ((1 - change) * ratio + change / classes * ratio.sum(axis=-1, keepdims=True))
    total: Array = np.maximum(better.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    return better / total


def rule_of(lag: float) -> str:
    """Name the streaming rule of answers that wait.

    Examples
    --------
    >>> rule_of(5), rule_of(math.inf)
    ('lag 5', 'whole recording')
    """
    return "whole recording" if math.isinf(lag) else f"lag {int(lag)}"


def require_smoothable(method: str, lag: float) -> None:
    """Refuse a lag that is no number of windows, and a method whose answers cannot wait, before anything has run."""
    _check_lag(lag)
    if lag and method not in CHANGES:
        raise ValueError(
            f"Expected answers of {' or '.join(CHANGES)} to smooth, got {method}; "
            f"other methods keep no model of changes."
        )


def _check_lag(lag: float) -> None:
    if not (lag >= 0 and (math.isinf(lag) or lag == int(lag))):
        raise ValueError(f"Expected a lag of 0, 1, 2, ... windows or infinity, got {lag}.")


def smoothed(result: Result, lag: float = math.inf) -> Result:
    """Let the answers of a result wait for `lag` windows after their own, or for the whole recording.

    Notes
    -----
    What the filter learned (hazard, lean) stays as it was at each window; only the belief looks ahead. A gap counts as
    a change by as much as it made the belief fade. Works for methods that are hidden Markov filters: keel.
    """
    require_smoothable(result.method, lag)
    change = np.asarray(result.trace[CHANGES[result.method]], np.float64)
    half_life_s = result.params["gap_half_life_s"]
    kept = 1.0 if half_life_s is None else 2 ** (-result.windows.gap_before_s / half_life_s)
    rule = rule_of(lag)
    notes = [*result.facts.get("notes", ()), f"sees the future ({rule})"]
    q = backward(result.q, 1 - (1 - change) * kept, lag)
    return replace(result, q=q, facts={**result.facts, "rule": rule, "notes": notes})
