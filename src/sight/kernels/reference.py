"""SIGHT's step in numpy, written for readers; every other implementation is checked against it.

The paper's letters: expectation e = z-hat_{t|t-1}, displacement v_t, directions u_{t,k}, alignment a_{t,k},
surprise lambda_t, routing r_t, calibrated routing rho_t, prior pi_t, habit h_t, prototypes mu_k, anchors mu_k^(0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sight.kernels.states import SightState
from sight.ops import normalised, softmax, unit
from sight.types import Array

#: Epsilons of the authors' code, which differ from the paper's single one.
NORM_FLOOR, COSINE_FLOOR, SUM_FLOOR, PRIOR_FLOOR = 1e-12, 1e-8, 1e-8, 1e-8


class Rules(NamedTuple):
    """The fields of SIGHT as plain values; see `sight.methods.sight.SIGHT` for their meaning."""

    authors: bool
    beta: float
    tau: float
    eta_mu: float
    eta_h: float
    omega_mu: float
    eps: float
    surprise: str  # geometric, distance or constant
    constant: float
    routing: bool
    habit: str  # sqrt, raw or off
    prototypes: str  # soft, hard or off


def replay(z: Array, p: Array, state: SightState, anchors: Array, count: int, rules: Rules) -> tuple[Array, Array]:
    """Advance one wearer over windows in time order.

    Parameters
    ----------
    z, p
        Features (B, D) and raw probabilities (B, K).
    state
        Changed in place.
    anchors
        Prototypes to start from and to be held by, (K, D).
    count
        Windows seen before these; at 0 there is no belief yet.

    Returns
    -------
    Refined probabilities (B, K) and the surprise of each window (B,).
    """
    q, surprise = np.empty_like(p), np.zeros(len(p), p.dtype)
    for t in range(len(p)):
        feature = z[t] if rules.authors else unit(z[t], rules.eps)
        if count + t == 0:
            q[t] = p[t]
        else:
            prior, surprise[t] = temporal_prior(feature, state, rules)
            q[t] = consensus(p[t], prior, rules)
        remember(feature, q[t], state, anchors, count + t == 0, rules)
    return q, surprise


def many(
    z: Array, p: Array, states: SightState, count: Array, rows: Array, anchors: Array, rules: Rules
) -> tuple[Array, Array]:
    """Advance each wearer of `rows` by one window of features (W, D) and raw probabilities (W, K).

    Parameters
    ----------
    states, count
        Of all wearers, stacked along a first axis; changed in place.
    rows
        Which wearer each window belongs to, (W,), nobody twice.

    Returns
    -------
    Refined probabilities (W, K) and the surprise of each window (W,).
    """
    q, surprise = np.empty_like(p), np.empty(len(p), p.dtype)
    for w, row in enumerate(rows):
        state = SightState(*(array[row] for array in states))
        now = slice(w, w + 1)
        q[now], surprise[now] = replay(z[now], p[now], state, anchors, count[row], rules)
        count[row] += 1
    return q, surprise


def sound(z: Array, p: Array) -> bool:
    """Tell whether features and probabilities are finite and the latter sum to 1."""
    return bool(np.isfinite(z).all() and (p >= 0).all() and (np.abs(p.sum(axis=1) - 1) <= 1e-3).all())


def temporal_prior(feature: Array, state: SightState, rules: Rules) -> tuple[Array, Array]:
    """Blend staying with moving where the deviation points (pi_t), and say how surprised we are (lambda_t)."""
    expected = state.belief @ state.prototypes
    if not rules.authors:
        expected = unit(expected, rules.eps)
    surprise = surprise_of(feature, expected, rules)
    routing = route(feature, expected, state, rules)
    if rules.habit == "sqrt":
        routing = routing * np.sqrt(state.habit if rules.authors else state.habit + rules.eps)
    elif rules.habit == "raw":
        routing = routing * (state.habit + rules.eps)
    total = routing.sum()
    routing = routing / (np.maximum(total, SUM_FLOOR) if rules.authors else total)
    return (1 - surprise) * state.belief + surprise * routing, surprise


def surprise_of(feature: Array, expected: Array, rules: Rules) -> Array:
    """Turn the deviation from the expectation into a release of inertia between 0 and 1."""
    if rules.surprise == "constant":
        return feature.dtype.type(rules.constant)
    floor = COSINE_FLOOR if rules.authors else rules.eps
    seen, awaited = unit(feature, floor), unit(expected, floor)
    if rules.surprise == "distance":
        return np.minimum(np.sqrt(((seen - awaited) ** 2).sum()), 1)
    distance = 1 - seen @ awaited
    return -np.expm1(-rules.beta * distance * distance)


def route(feature: Array, expected: Array, state: SightState, rules: Rules) -> Array:
    """Distribute over classes by how well their direction from the expectation matches the displacement (r_t)."""
    if not rules.routing:
        return np.full_like(state.belief, 1 / len(state.belief))
    floor = COSINE_FLOOR if rules.authors else rules.eps
    directions = state.prototypes - expected
    believed = int(state.belief.argmax())
    directions[believed] = believed_direction(believed, state, rules)
    alignment = unit(directions, floor) @ unit(feature - expected, floor)
    return softmax(alignment / rules.tau)


def believed_direction(k: int, state: SightState, rules: Rules) -> Array:
    """Direction from the expectation to the believed class, without cancellation.

    With a belief near one-hot the two are equal numbers, and their plain difference is rounding noise that the
    softmax then multiplies by 1 / tau. Written with the other classes' share it is exact.
    """
    others = state.belief.copy()
    others[k] = 0
    offset: Array = others.sum() * state.prototypes[k] - others @ state.prototypes
    if rules.authors:
        return offset
    shrink = 2 * state.prototypes[k] @ offset - offset @ offset
    length = np.sqrt(np.maximum(1 - shrink, 0))
    lost = shrink / (1 + length)
    return (offset - lost * state.prototypes[k]) / np.maximum(1 - lost, rules.eps)


def consensus(p: Array, prior: Array, rules: Rules) -> Array:
    """Multiply evidence and prior; where they exclude each other, the evidence stands alone."""
    if not rules.authors:
        return normalised(p * prior, fallback=p)
    joint = p * np.maximum(prior, PRIOR_FLOOR)
    total = joint.sum()
    return p.copy() if total < 1e-30 else joint / np.maximum(total, SUM_FLOOR)


def remember(feature: Array, q: Array, state: SightState, anchors: Array, first: bool, rules: Rules) -> None:
    """Update habit, prototypes and belief after the answer q has been given."""
    if not (rules.authors and first):
        state.habit[:] = (1 - rules.eta_h) * state.habit + rules.eta_h * (state.belief if rules.authors else q)
    state.belief[:] = q
    if rules.prototypes == "off":
        return
    share = np.zeros_like(q) if rules.prototypes == "hard" else q
    if rules.prototypes == "hard":
        share[q.argmax()] = 1
    pull = (rules.eta_mu * share)[:, None]
    moved = (1 - pull) * state.prototypes + pull * feature
    if not rules.authors:
        moved = unit(moved, rules.eps)
    if rules.omega_mu:
        moved = (1 - rules.omega_mu) * moved + rules.omega_mu * anchors
    state.prototypes[:] = unit(moved, NORM_FLOOR if rules.authors else rules.eps)
