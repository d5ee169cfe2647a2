"""Augmentations of sensor windows: changes of placement, device and pace.

All functions take windows (B, C, T) and a generator, draw for each window separately, and return new arrays of the same
type. Of feature vectors (T = 1), which have no time and no axes, only `jitter` and `scaling` change anything.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from sight.types import Array


def jitter(x: Array, rng: np.random.Generator, sigma: float = 0.05, scale: Array | float = 1.0) -> Array:
    """Add white noise of `sigma` times `scale`, the standard deviation of each channel (C, 1)."""
    return _like(x + sigma * scale * rng.standard_normal(x.shape), x)


def scaling(x: Array, rng: np.random.Generator, sigma: float = 0.1) -> Array:
    return _like(x * rng.normal(1, sigma, (*x.shape[:2], 1)), x)


def rotation(x: Array, rng: np.random.Generator, degrees: float = 15.0) -> Array:
    """Rotate every triple of axes about one random axis per window, by at most `degrees`.

    All triples rotate together, as on one device. A number of channels that is not a multiple of three stays unchanged.
    """
    windows, channels, length = x.shape
    if channels % 3 or length == 1:
        return x.copy()
    matrices = _rotations(rng, windows, np.radians(degrees))
    triples = x.reshape(windows, channels // 3, 3, length)
    return _like(np.einsum("bij,bgjt->bgit", matrices, triples).reshape(x.shape), x)


def magnitude_warp(x: Array, rng: np.random.Generator, sigma: float = 0.1, knots: int = 4) -> Array:
    """Multiply each channel by a smooth curve around 1, a spline through `knots` inner points and two ends."""
    if x.shape[2] == 1:
        return x.copy()
    points = rng.normal(1, sigma, (*x.shape[:2], knots + 2))
    return _like(x * (points @ spline(x.shape[2], knots + 2).T), x)


def time_warp(x: Array, rng: np.random.Generator, sigma: float = 0.2, knots: int = 4) -> Array:
    """Resample each window at a smoothly varying pace, from its first sample to its last."""
    windows, _, length = x.shape
    if length == 1:
        return x.copy()
    pace = np.maximum(rng.normal(1, sigma, (windows, knots + 2)) @ spline(length, knots + 2).T, 0.05)
    moment = np.cumsum(pace, axis=1) - pace[:, :1]
    moment *= (length - 1) / moment[:, -1:]  # (B, T), position of each new sample
    before = np.clip(moment.astype(np.int64), 0, length - 2)[:, None, :]
    share = moment[:, None, :] - before
    early, late = np.take_along_axis(x, before, axis=2), np.take_along_axis(x, before + 1, axis=2)
    return _like((1 - share) * early + share * late, x)


def permutation(x: Array, rng: np.random.Generator, segments: int = 5) -> Array:
    """Cut each window at random positions into 2 to `segments` pieces and shuffle them."""
    out, length = x.copy(), x.shape[2]
    for window in range(len(x) if length > 1 else 0):
        pieces = min(int(rng.integers(2, segments + 1)), length)
        cuts = np.sort(rng.choice(np.arange(1, length), pieces - 1, replace=False))
        parts = np.split(np.arange(length), cuts)
        out[window] = x[window][:, np.concatenate([parts[i] for i in rng.permutation(len(parts))])]
    return out


def perturbed(x: Array, rng: np.random.Generator, scale: Array | float = 1.0) -> Array:
    """Return the view for teachers and students: scaling, a small rotation, a magnitude warp and jitter."""
    return jitter(magnitude_warp(rotation(scaling(x, rng), rng), rng), rng, 0.05, scale)


def weak(x: Array, rng: np.random.Generator, scale: Array | float = 1.0) -> Array:
    """Return a view with a little jitter, which should not change any label."""
    return jitter(x, rng, 0.02, scale)


def strong(x: Array, rng: np.random.Generator, scale: Array | float = 1.0) -> Array:
    """Return a view with each augmentation of this module applied with probability 1/2, drawn for each window."""
    noise = partial(jitter, sigma=0.05, scale=scale)
    augmentations: list[Callable[..., Array]] = [rotation, scaling, magnitude_warp, time_warp, permutation, noise]
    for augment in augmentations:
        chosen = rng.random((len(x), 1, 1)) < 0.5
        x = np.where(chosen, augment(x, rng), x)
    return x


@lru_cache(maxsize=32)
def spline(length: int, points: int) -> Array:
    """Return the matrix (T, points) from values at equally spaced points to the natural cubic spline through them."""
    position = np.linspace(0, points - 1, length)
    left = np.clip(position.astype(np.int64), 0, points - 2)
    share = (position - left)[:, None]
    basis = np.eye(points)
    bend = _second_derivatives(points)
    a, b = basis[left], basis[left + 1]
    c, d = bend[left], bend[left + 1]
    lower, upper = ((1 - share) ** 3 - (1 - share)) / 6, (share**3 - share) / 6
    return np.asarray((1 - share) * a + share * b + lower * c + upper * d)


def _second_derivatives(points: int) -> Array:
    """Return the matrix (points, points) from values at unit spacing to second derivatives, zero at both ends."""
    left = np.eye(points)
    right = np.zeros((points, points))
    for i in range(1, points - 1):
        left[i, i - 1 : i + 2] = (1, 4, 1)
        right[i, i - 1 : i + 2] = (6, -12, 6)
    return np.asarray(np.linalg.solve(left, right))


def _rotations(rng: np.random.Generator, count: int, most: float) -> Array:
    """Return rotation matrices (count, 3, 3) about axes uniform on the sphere (Rodrigues' formula)."""
    axis = rng.standard_normal((count, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    angle = rng.uniform(-most, most, (count, 1, 1))
    x, y, z = axis.T
    zero = np.zeros(count)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(count, 3, 3)
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross)


def _like(values: Array, x: Array) -> Array:
    return values.astype(x.dtype, copy=False)
