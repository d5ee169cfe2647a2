"""SIGHT's step in numpy; the other implementations are tested against it.

Letters of the paper: expectation e = z-hat_{t|t-1}, displacement v_t, directions u_{t,k}, alignment a_{t,k}, surprise
lambda_t, routing r_t, calibrated routing rho_t, prior pi_t, habit h_t, prototypes mu_k, anchors mu_k^(0).
"""

from typing import Any

import numpy as np

from sight.methods.compiled import StateArrays
from sight.methods.ops import normalise, softmax, unit
from sight.methods.sight.state import BELIEF, COUNT, HABIT, PRIOR_FLOOR, PROTOTYPES, SUM_FLOOR, SightParams
from sight.types import Array


def step(z: Array, p: Array, arrays: StateArrays, anchors: Array, params: SightParams) -> tuple[Array, tuple[Any]]:
    """Refine a window, feature z (D,) and probabilities p (K,), and update the state of one wearer in place.

    `anchors` (K, D) are the initial prototypes. Returns refined probabilities (K,) and the surprise.
    """
    first, surprise, q = arrays.numbers[COUNT] == 0, p.dtype.type(0), p
    feature = z if params.authors else unit(z, params.eps)
    if not first:
        prior, surprise = temporal_prior(feature, arrays, params)
        q = consensus(p, prior, params)
    update(feature, q, arrays, anchors, bool(first), params)
    return q, (surprise,)


def temporal_prior(feature: Array, arrays: StateArrays, params: SightParams) -> tuple[Array, Any]:
    """Return the prior (pi_t), a mix of the belief and the calibrated routing, and the surprise (lambda_t)."""
    prototypes, habit, belief = arrays.matrices[PROTOTYPES], arrays.vectors[HABIT], arrays.vectors[BELIEF]
    expected = belief @ prototypes
    if not params.authors:
        expected = unit(expected, params.eps)
    surprise = surprise_of(feature, expected, params)
    routing = route(feature, expected, prototypes, belief, params)
    if params.habit == "sqrt":
        routing = routing * np.sqrt(habit if params.authors else habit + params.eps)
    elif params.habit == "raw":
        routing = routing * (habit + params.eps)
    total = routing.sum()
    routing = routing / (np.maximum(total, SUM_FLOOR) if params.authors else total)
    return (1 - surprise) * belief + surprise * routing, surprise


def surprise_of(feature: Array, expected: Array, params: SightParams) -> Any:
    """Return the surprise, 0 to 1, of a feature given the expected one."""
    if params.surprise == "constant":
        return feature.dtype.type(params.constant)
    feature, expected = unit(feature, params.cosine_floor), unit(expected, params.cosine_floor)
    if params.surprise == "distance":
        return np.minimum(np.sqrt(((feature - expected) ** 2).sum()), 1)
    distance = 1 - feature @ expected
    return -np.expm1(-params.beta * distance * distance)


def route(feature: Array, expected: Array, prototypes: Array, belief: Array, params: SightParams) -> Array:
    """Return the routing (r_t): classes by how well their direction matches the displacement of the feature."""
    if not params.routing:
        return np.full_like(belief, 1 / len(belief))
    directions = prototypes - expected
    believed = int(belief.argmax())
    directions[believed] = believed_direction(believed, prototypes, belief, params)
    alignment = unit(directions, params.cosine_floor) @ unit(feature - expected, params.cosine_floor)
    return softmax(alignment / params.tau)


def believed_direction(k: int, prototypes: Array, belief: Array, params: SightParams) -> Array:
    """Return the direction from the expectation to the believed class, computed without cancellation.

    With a belief near one-hot both are nearly equal, and their difference is rounding noise, which the softmax then
    multiplies by 1 / tau. Written with the shares of the other classes it is exact.
    """
    others = belief.copy()
    others[k] = 0
    offset: Array = others.sum() * prototypes[k] - others @ prototypes
    if params.authors:
        return offset
    shrink = 2 * prototypes[k] @ offset - offset @ offset
    length = np.sqrt(np.maximum(1 - shrink, 0))
    lost = shrink / (1 + length)
    direction: Array = (offset - lost * prototypes[k]) / np.maximum(1 - lost, params.eps)
    return direction


def consensus(p: Array, prior: Array, params: SightParams) -> Array:
    """Return the normalised product of evidence and prior; the evidence alone if the product vanishes."""
    if not params.authors:
        return normalise(p * prior, fallback=p)
    joint = p * np.maximum(prior, PRIOR_FLOOR)
    total = joint.sum()
    return p.copy() if total < 1e-30 else joint / np.maximum(total, SUM_FLOOR)


def update(feature: Array, q: Array, arrays: StateArrays, anchors: Array, first: bool, params: SightParams) -> None:
    """Update habit, belief, prototypes and count with the refined probabilities of a window."""
    prototypes, habit, belief = arrays.matrices[PROTOTYPES], arrays.vectors[HABIT], arrays.vectors[BELIEF]
    if not (params.authors and first):
        habit[:] = (1 - params.eta_h) * habit + params.eta_h * (belief if params.authors else q)
    belief[:] = q
    arrays.numbers[COUNT] += 1
    if params.prototypes == "off":
        return
    share = np.zeros_like(q) if params.prototypes == "hard" else q
    if params.prototypes == "hard":
        share[q.argmax()] = 1
    pull = (params.eta_mu * share)[:, None]
    moved = (1 - pull) * prototypes + pull * feature
    if not params.authors:
        moved = unit(moved, params.eps)
    if params.omega_mu:
        moved = (1 - params.omega_mu) * moved + params.omega_mu * anchors
    prototypes[:] = unit(moved, params.norm_floor)
