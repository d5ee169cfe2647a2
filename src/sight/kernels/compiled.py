"""SIGHT's step compiled: the reference's function with a few passes over the prototypes and no copies.

One entry, `_advance`, serves one window, a recording and a fleet, so all three run the same machine code and a
stream answers bit for bit the same however it is cut. Vectors are in the state's type, scalars in float64. Only sums
may be reordered (``reassoc``, ``contract``), so zeros, infinities and differences mean what they say. A loop adds up or
writes, never both: where a loop does both, the machine chooses an order by where arrays happen to lie in memory, and
a restored state would answer otherwise in the last bit.

What the reference computes from whole vectors is here computed from a few inner products: with unit prototypes the
two norms of the prototype step follow from mu.mu, mu.f, mu.a, f.a and a.a, so the bank is written once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from sight.kernels.reference import COSINE_FLOOR, NORM_FLOOR, PRIOR_FLOOR, SUM_FLOOR, Rules
from sight.kernels.states import SightState
from sight.types import Array

OFF, GEOMETRIC, DISTANCE = 0, 1, 2  # surprise; off is constant
SQRT, RAW = 1, 2  # habit
SOFT, HARD = 1, 2  # prototypes

ONE = np.zeros(1, np.int64)  # the only wearer


class Codes(NamedTuple):
    """`Rules` in numbers, with the floors of the variant."""

    authors: float
    beta: float
    tau: float
    eta_mu: float
    eta_h: float
    omega_mu: float
    eps: float
    surprise: float
    constant: float
    routing: float
    habit: float
    prototypes: float
    cosine_floor: float
    norm_floor: float


class Room(NamedTuple):
    """Room to work in, shared by all windows of a call."""

    offset: Array  # (D,) x, from the expectation to the believed class
    expected: Array  # (D,) e
    alignment: Array  # (K,) alignments, then the prior, then the joint


@lru_cache
def encode(rules: Rules) -> Array:
    """Write the rules as the vector `_advance` takes: an array crosses into compiled code faster than a tuple."""
    words = {"off": OFF, "constant": OFF, "geometric": GEOMETRIC, "distance": DISTANCE, "sqrt": SQRT, "raw": RAW}
    words |= {"soft": SOFT, "hard": HARD}
    floors = (COSINE_FLOOR, NORM_FLOOR) if rules.authors else (rules.eps, rules.eps)
    return np.array([words.get(value, value) for value in (*rules, *floors)], np.float64)


def _compile(function: Any, **options: Any) -> Any:
    """Compile with a cache on disk, or without one where no folder can be written."""
    try:
        return njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:
        return njit(nogil=True, error_model="numpy", **options)(function)


def _exact(function: Any) -> Any:
    return _compile(function)


def _sums(function: Any) -> Any:
    return _compile(function, fastmath={"reassoc", "contract"})


@_sums
def _squared(vector):
    total = 0.0
    for i in range(len(vector)):
        value = np.float64(vector[i])
        total += value * value
    return total


@_exact
def _offset(prototypes, belief, k, offset):
    """Fill x = sum over j != k of q_j (mu_k - mu_j): from expectation to believed class, without cancellation."""
    offset[:] = 0
    for j in range(len(belief)):
        share = belief[j]
        if j != k and share > 1e-30:  # less than that is far below every floor, and slow to compute with
            for i in range(len(offset)):
                offset[i] += share * (prototypes[k, i] - prototypes[j, i])


@_exact
def _expect(prototype, offset, mass, expected):
    """Write e = sum_j q_j mu_j = mass mu_k - x."""
    mass = offset.dtype.type(mass)
    for i in range(len(offset)):
        expected[i] = mass * prototype[i] - offset[i]


@_exact
def _scale(vector, by):
    by = vector.dtype.type(by)
    for i in range(len(vector)):
        vector[i] *= by


@_sums
def _lengths(prototype, offset, expected):
    """Return e.e, mu_k.x and x.x."""
    ee = mx = xx = offset.dtype.type(0)
    for i in range(len(offset)):
        m, x, e = prototype[i], offset[i], expected[i]
        ee += e * e
        mx += m * x
        xx += x * x
    return np.float64(ee), np.float64(mx), np.float64(xx)


@_sums
def _displacement(z, scale, expected, prototype, offset, lost):
    """Return f.f, f.e, w.w, u.w and u.u.

    f = scale z is the feature, w = f - e the displacement, u = x - lost mu_k the believed class's direction.
    """
    real = offset.dtype.type
    scale, lost = real(scale), real(lost)
    ff = fe = ww = uw = uu = real(0)
    for i in range(len(expected)):
        f, e = scale * z[i], expected[i]
        w, u = f - e, offset[i] - lost * prototype[i]
        ff += f * f
        fe += f * e
        ww += w * w
        uw += u * w
        uu += u * u
    return np.float64(ff), np.float64(fe), np.float64(ww), np.float64(uw), np.float64(uu)


@_sums
def _toward(prototype, z, scale, expected):
    """Return u.w and u.u of another class's direction u = mu_j - e."""
    real = expected.dtype.type
    scale, uw, uu = real(scale), real(0), real(0)
    for i in range(len(expected)):
        e = expected[i]
        u = prototype[i] - e
        uw += u * (scale * z[i] - e)
        uu += u * u
    return np.float64(uw), np.float64(uu)


@_sums
def _products(real, prototype, anchor, z):
    """Return mu.mu, mu.z, mu.a, z.a and a.a, added up in the float type `real`."""
    mm = mz = ma = za = aa = real(0)
    for i in range(len(z)):
        m, a, f = real(prototype[i]), real(anchor[i]), real(z[i])
        mm += m * m
        mz += m * f
        ma += m * a
        za += f * a
        aa += a * a
    return np.float64(mm), np.float64(mz), np.float64(ma), np.float64(za), np.float64(aa)


@_exact
def _combine(prototype, anchor, z, keep, pull, hold):
    real = prototype.dtype.type
    keep, pull, hold = real(keep), real(pull), real(hold)
    for i in range(len(z)):
        prototype[i] = keep * prototype[i] + pull * z[i] + hold * anchor[i]


@_exact
def _surprise(feature_square, expected_square, agreement, c):
    """lambda_t from f.f, e.e and f.e."""
    if c.surprise == OFF:
        return c.constant
    feature, expected = np.sqrt(feature_square), np.sqrt(expected_square)
    seen, awaited = max(feature, c.cosine_floor), max(expected, c.cosine_floor)
    cosine = agreement / (seen * awaited)
    if c.surprise == DISTANCE:
        square = (feature / seen) ** 2 + (expected / awaited) ** 2 - 2 * cosine
        return min(np.sqrt(max(square, 0.0)), 1.0)
    return -np.expm1(-c.beta * (1 - cosine) ** 2)


@_exact
def _deviate(z, scale, prototypes, belief, c, room):
    """Compare feature and expectation: fill the alignments a_t, return lambda_t."""
    k, mass = belief.argmax(), 0.0
    for share in belief:
        mass += share
    _offset(prototypes, belief, k, room.offset)
    _expect(prototypes[k], room.offset, mass, room.expected)
    ee, mx, xx = _lengths(prototypes[k], room.offset, room.expected)
    shrink, lost, stretch = 1.0, 0.0, 1.0
    if not c.authors:
        shrink = 1 / max(np.sqrt(ee), c.eps)
        gone = 2 * mx - xx
        lost = gone / (1 + np.sqrt(max(1 - gone, 0.0)))
        stretch = 1 / max(1 - lost, c.eps)
        _scale(room.expected, shrink)
    ff, fe, ww, uw, uu = _displacement(z, scale, room.expected, prototypes[k], room.offset, lost)
    distance = max(np.sqrt(ww), c.cosine_floor)
    room.alignment[k] = stretch * uw / (max(stretch * np.sqrt(uu), c.cosine_floor) * distance)
    for j in range(len(belief)):
        if j != k:
            uw, uu = _toward(prototypes[j], z, scale, room.expected)
            room.alignment[j] = uw / (max(np.sqrt(uu), c.cosine_floor) * distance)
    return _surprise(ff, ee * shrink * shrink, fe, c)


@_exact
def _prior(alignment, habit, belief, surprise, c):
    """Turn the alignments into pi_t, in place."""
    prior, top, total = alignment, alignment.max(), 0.0
    for j in range(len(prior)):
        prior[j] = np.exp((alignment[j] - top) / c.tau) if c.routing else 1.0
        total += prior[j]
    prior /= total
    total = 0.0
    for j in range(len(prior)):
        if c.habit == SQRT:
            prior[j] *= np.sqrt(habit[j] if c.authors else habit[j] + c.eps)
        elif c.habit == RAW:
            prior[j] *= habit[j] + c.eps
        total += prior[j]
    if c.authors:
        total = max(total, SUM_FLOOR)
    for j in range(len(prior)):
        prior[j] = (1 - surprise) * belief[j] + surprise * prior[j] / total


@_exact
def _consensus(p, prior, c, q):
    """Fill q_t from evidence and prior; where they exclude each other, the evidence stands alone."""
    total = 0.0
    for j in range(len(p)):
        prior[j] = p[j] * (max(prior[j], PRIOR_FLOOR) if c.authors else prior[j])
        total += prior[j]
    if total < 1e-30:
        q[:] = p
        return
    if c.authors:
        total = max(total, SUM_FLOOR)
    for j in range(len(p)):
        q[j] = prior[j] / total


@_exact
def _mixture(products, pull, hold, scale, feature_square, c):
    """Return the weights of mu, z and a in the new prototype, and how much of its length has cancelled."""
    mm, mz, ma, za, aa = products
    moved = (1 - pull) ** 2 * mm + 2 * pull * (1 - pull) * scale * mz + pull**2 * feature_square
    inner = (1 - hold) * (1.0 if c.authors else 1 / max(np.sqrt(max(moved, 0.0)), c.eps))
    held = inner**2 * moved + 2 * hold * inner * ((1 - pull) * ma + pull * scale * za) + hold**2 * aa
    outer = 1 / max(np.sqrt(max(held, 0.0)), c.norm_floor)
    left = min(moved / ((1 - pull) ** 2 * mm + pull**2 * feature_square), held / (inner**2 * moved + hold**2 * aa))
    return outer * inner * (1 - pull), outer * inner * pull * scale, outer * hold, left


@_exact
def _move(z, scale, feature_square, q, prototypes, anchors, c):
    """Let the prototypes follow the feature, held by their anchors; both norms follow from inner products."""
    best = q.argmax()
    for k in range(len(q)):
        share = np.float64(q[k]) if c.prototypes == SOFT else np.float64(k == best)
        pull, hold = c.eta_mu * share, c.omega_mu
        products = _products(z.dtype.type, prototypes[k], anchors[k], z)
        keep, follow, anchor, left = _mixture(products, pull, hold, scale, feature_square, c)
        if not left > 0.1:  # opposite vectors: what remains of their sum needs all digits
            products = _products(np.float64, prototypes[k], anchors[k], z)
            keep, follow, anchor, left = _mixture(products, pull, hold, scale, feature_square, c)
        _combine(prototypes[k], anchors[k], z, keep, follow, anchor)


@_exact
def _window(z, p, prototypes, habit, belief, first, anchors, c, room, q):
    """Answer one window in `q`, remember it, return lambda_t."""
    feature_square, scale, surprise = _squared(z), 1.0, 0.0
    if not c.authors:
        scale = 1 / max(np.sqrt(feature_square), c.eps)
        feature_square *= scale * scale
    if first:
        q[:] = p
    else:
        surprise = _deviate(z, scale, prototypes, belief, c, room)
        _prior(room.alignment, habit, belief, surprise, c)
        _consensus(p, room.alignment, c, q)
    for k in range(len(q)):
        if not (c.authors and first):
            habit[k] = (1 - c.eta_h) * habit[k] + c.eta_h * (belief[k] if c.authors else q[k])
        belief[k] = q[k]
    if c.prototypes != OFF:
        _move(z, scale, feature_square, q, prototypes, anchors, c)
    return surprise


@_exact
def _advance(z, p, prototypes, habit, belief, count, rows, anchors, v, q, surprise):
    """Advance each wearer of `rows` over its windows in time order; z, p, q hold one wearer's after the other's."""
    classes, dims = anchors.shape
    c = Codes(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13])
    room = Room(np.empty(dims, z.dtype), np.empty(dims, z.dtype), np.empty(classes))
    span = len(p) // max(len(rows), 1)
    for n in range(len(p)):
        r = rows[n // span]
        first = count[r] == 0
        surprise[n] = _window(z[n], p[n], prototypes[r], habit[r], belief[r], first, anchors, c, room, q[n])
        count[r] += 1


@_exact
def sound(z, p):
    """Tell whether features and probabilities are finite and the latter sum to 1."""
    for t in range(len(p)):
        total = 0.0
        for k in range(p.shape[1]):
            if not p[t, k] >= 0:
                return False
            total += p[t, k]
        if not (abs(total - 1) <= 1e-3 and _squared(z[t]) < np.inf):
            return False
    return True


def plain(array: Array) -> Array:
    """Copy what is strided or read-only, for which numba would compile everything once more."""
    return array if array.flags.carray else np.array(array, order="C")


def replay(z: Array, p: Array, state: SightState, anchors: Array, count: int, rules: Rules) -> tuple[Array, Array]:
    """Advance one wearer over windows in time order; see `sight.kernels.reference.replay`."""
    states = SightState(state.prototypes[None], state.habit[None], state.belief[None])
    return many(z, p, states, np.array([count]), ONE, anchors, rules)


def many(
    z: Array, p: Array, states: SightState, count: Array, rows: Array, anchors: Array, rules: Rules
) -> tuple[Array, Array]:
    """Advance each wearer of `rows` by one window; see `sight.kernels.reference.many`."""
    q, surprise = np.empty(p.shape, p.dtype), np.empty(len(p), p.dtype)
    _advance(plain(z), plain(p), *states, count, rows, anchors, encode(rules), q, surprise)
    return q, surprise
