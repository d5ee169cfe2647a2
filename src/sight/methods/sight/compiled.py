"""SIGHT's step compiled by numba: the function of `reference` with few passes over the prototypes and no copies.

One entry, `advance`, serves one window, a recording and many wearers, so that all run the same machine code and the
results are equal bit for bit however a stream is cut. Vectors are in the state's float type, scalars in float64.

Where the reference works on whole vectors, a few inner products are enough: with prototypes of length 1 the two norms
of the prototype update follow from mu.mu, mu.f, mu.a, f.a and a.a, so that the prototypes are written once.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sight.methods.compiled import StateArrays
from sight.methods.compiled.numba import contiguous, exact, squared_length, sums
from sight.methods.sight.state import BELIEF, COUNT, HABIT, PRIOR_FLOOR, PROTOTYPES, SUM_FLOOR, SightParams
from sight.types import Array

OFF, GEOMETRIC, DISTANCE = 0, 1, 2  # surprise; off is constant
SQRT, RAW = 1, 2  # habit
SOFT, HARD = 1, 2  # prototypes


class Scratch(NamedTuple):
    """Temporary arrays, shared by all windows of a call."""

    offset: Array  # (D,) x, from the expectation to the believed class
    expected: Array  # (D,) e
    alignment: Array  # (K,) alignments, then the prior, then the joint


@lru_cache
def encode(params: SightParams) -> Array:
    """Return the parameters as a vector, which is passed to compiled code faster than a tuple."""
    words = {"off": OFF, "constant": OFF, "geometric": GEOMETRIC, "distance": DISTANCE, "sqrt": SQRT, "raw": RAW}
    words |= {"soft": SOFT, "hard": HARD}
    return np.array([words.get(value, value) for value in params], np.float64)


@exact
def _offset(prototypes, belief, k, offset):
    """Compute x = sum over j != k of q_j (mu_k - mu_j), from the expectation to the believed class."""
    offset[:] = 0
    for j in range(len(belief)):
        share = belief[j]
        if j != k and share > 1e-30:  # smaller shares are far below every floor, and denormal numbers are slow
            for i in range(len(offset)):
                offset[i] += share * (prototypes[k, i] - prototypes[j, i])


@exact
def _expect(prototype, offset, mass, expected):
    """Compute e = sum_j q_j mu_j = mass mu_k - x."""
    mass = offset.dtype.type(mass)
    for i in range(len(offset)):
        expected[i] = mass * prototype[i] - offset[i]


@exact
def _scale(vector, by):
    by = vector.dtype.type(by)
    for i in range(len(vector)):
        vector[i] *= by


@sums
def _lengths(prototype, offset, expected):
    """Return e.e, mu_k.x and x.x."""
    ee = mx = xx = offset.dtype.type(0)
    for i in range(len(offset)):
        m, x, e = prototype[i], offset[i], expected[i]
        ee += e * e
        mx += m * x
        xx += x * x
    return np.float64(ee), np.float64(mx), np.float64(xx)


@sums
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


@sums
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


@sums
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


@exact
def _combine(prototype, anchor, z, keep, pull, hold):
    real = prototype.dtype.type
    keep, pull, hold = real(keep), real(pull), real(hold)
    for i in range(len(z)):
        prototype[i] = keep * prototype[i] + pull * z[i] + hold * anchor[i]


@exact
def _surprise(feature_square, expected_square, agreement, c):
    if c.surprise == OFF:
        return c.constant
    feature, expected = np.sqrt(feature_square), np.sqrt(expected_square)
    seen, awaited = max(feature, c.cosine_floor), max(expected, c.cosine_floor)
    cosine = agreement / (seen * awaited)
    if c.surprise == DISTANCE:
        square = (feature / seen) ** 2 + (expected / awaited) ** 2 - 2 * cosine
        return min(np.sqrt(max(square, 0.0)), 1.0)
    return -np.expm1(-c.beta * (1 - cosine) ** 2)


@exact
def _deviate(z, scale, prototypes, belief, c, scratch):
    k, mass = belief.argmax(), 0.0
    for share in belief:
        mass += share
    _offset(prototypes, belief, k, scratch.offset)
    _expect(prototypes[k], scratch.offset, mass, scratch.expected)
    ee, mx, xx = _lengths(prototypes[k], scratch.offset, scratch.expected)
    shrink, lost, stretch = 1.0, 0.0, 1.0
    if not c.authors:
        shrink = 1 / max(np.sqrt(ee), c.eps)
        gone = 2 * mx - xx
        lost = gone / (1 + np.sqrt(max(1 - gone, 0.0)))
        stretch = 1 / max(1 - lost, c.eps)
        _scale(scratch.expected, shrink)
    ff, fe, ww, uw, uu = _displacement(z, scale, scratch.expected, prototypes[k], scratch.offset, lost)
    distance = max(np.sqrt(ww), c.cosine_floor)
    scratch.alignment[k] = stretch * uw / (max(stretch * np.sqrt(uu), c.cosine_floor) * distance)
    for j in range(len(belief)):
        if j != k:
            uw, uu = _toward(prototypes[j], z, scale, scratch.expected)
            scratch.alignment[j] = uw / (max(np.sqrt(uu), c.cosine_floor) * distance)
    return _surprise(ff, ee * shrink * shrink, fe, c)


@exact
def _prior(alignment, habit, belief, surprise, c):
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


@exact
def _consensus(p, prior, c, q):
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


@exact
def _mixture(products, pull, hold, scale, feature_square, c):
    """Return the weights of mu, z and a in the new prototype, and the share of its length that did not cancel."""
    mm, mz, ma, za, aa = products
    moved = (1 - pull) ** 2 * mm + 2 * pull * (1 - pull) * scale * mz + pull**2 * feature_square
    inner = (1 - hold) * (1.0 if c.authors else 1 / max(np.sqrt(max(moved, 0.0)), c.eps))
    held = inner**2 * moved + 2 * hold * inner * ((1 - pull) * ma + pull * scale * za) + hold**2 * aa
    outer = 1 / max(np.sqrt(max(held, 0.0)), c.norm_floor)
    left = min(moved / ((1 - pull) ** 2 * mm + pull**2 * feature_square), held / (inner**2 * moved + hold**2 * aa))
    return outer * inner * (1 - pull), outer * inner * pull * scale, outer * hold, left


@exact
def _move(z, scale, feature_square, q, prototypes, anchors, c):
    best = q.argmax()
    for k in range(len(q)):
        share = np.float64(q[k]) if c.prototypes == SOFT else np.float64(k == best)
        pull, hold = c.eta_mu * share, c.omega_mu
        products = _products(z.dtype.type, prototypes[k], anchors[k], z)
        keep, follow, anchor, left = _mixture(products, pull, hold, scale, feature_square, c)
        if not left > 0.1:  # nearly opposite vectors: their sum needs all digits
            products = _products(np.float64, prototypes[k], anchors[k], z)
            keep, follow, anchor, left = _mixture(products, pull, hold, scale, feature_square, c)
        _combine(prototypes[k], anchors[k], z, keep, follow, anchor)


@exact
def _window(z, p, prototypes, habit, belief, first, anchors, c, scratch, q):
    feature_square, scale, surprise = squared_length(z), 1.0, 0.0
    if not c.authors:
        scale = 1 / max(np.sqrt(feature_square), c.eps)
        feature_square *= scale * scale
    if first:
        q[:] = p
    else:
        surprise = _deviate(z, scale, prototypes, belief, c, scratch)
        _prior(scratch.alignment, habit, belief, surprise, c)
        _consensus(p, scratch.alignment, c, q)
    for k in range(len(q)):
        if not (c.authors and first):
            habit[k] = (1 - c.eta_h) * habit[k] + c.eta_h * (belief[k] if c.authors else q[k])
        belief[k] = q[k]
    if c.prototypes != OFF:
        _move(z, scale, feature_square, q, prototypes, anchors, c)
    return surprise


@exact
def _advance(z, p, matrices, vectors, numbers, rows, anchors, v, q, trace):
    classes, dims = anchors.shape
    c = SightParams(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13])
    scratch = Scratch(np.empty(dims, z.dtype), np.empty(dims, z.dtype), np.empty(classes))
    span = len(p) // max(len(rows), 1)
    for n in range(len(p)):
        r = rows[n // span]
        prototypes, habit, belief = matrices[r, PROTOTYPES], vectors[r, HABIT], vectors[r, BELIEF]
        first = numbers[r, COUNT] == 0
        trace[n, 0] = _window(z[n], p[n], prototypes, habit, belief, first, anchors, c, scratch, q[n])
        numbers[r, COUNT] += 1


def advance(
    z: Array, p: Array, arrays: StateArrays, rows: Array, anchors: Array, params: SightParams
) -> tuple[Array, Array]:
    q, trace = np.empty(p.shape, p.dtype), np.empty((len(p), 1), p.dtype)
    _advance(contiguous(z), contiguous(p), *arrays, rows, anchors, encode(params), q, trace)
    return q, trace
