"""Augmentations change what they name and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from sight.methods.gradient import augmentation as augment

ALL = ("jitter", "scaling", "rotation", "magnitude_warp", "time_warp", "permutation", "perturbed", "weak", "strong")


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 6, 50)).astype(np.float32)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize("name", ALL)
def test_shape_type_and_input_are_kept(name, x):
    function, before = getattr(augment, name), x.copy()
    once, again = function(x, rng()), function(x, rng())
    assert once.shape == x.shape
    assert once.dtype == x.dtype
    assert (once == again).all()
    assert (function(x, np.random.default_rng(4)) != once).any()
    assert (x == before).all()
    assert np.isfinite(once).all()


@pytest.mark.parametrize("name", ["rotation", "magnitude_warp", "time_warp", "permutation"])
def test_feature_vectors_stay_unchanged(name):
    x = np.random.default_rng(0).normal(size=(5, 6, 1)).astype(np.float32)
    assert (getattr(augment, name)(x, rng()) == x).all()


@pytest.mark.parametrize("name", ["jitter", "scaling", "perturbed", "weak", "strong"])
def test_feature_vectors_change_by_jitter_and_scaling(name):
    x = np.random.default_rng(0).normal(size=(5, 6, 1)).astype(np.float32)
    assert (getattr(augment, name)(x, rng()) != x).any()


def test_jitter_has_the_given_deviation_in_each_channel(x):
    scale = np.arange(1, 7)[:, None]
    noise = augment.jitter(x, rng(), 0.05, scale) - x
    assert np.allclose(noise.std(axis=(0, 2)), 0.05 * scale[:, 0], rtol=0.1)


def test_scaling_is_one_number_for_each_channel_of_a_window(x):
    factor = augment.scaling(x, rng(), 0.1) / x
    assert np.allclose(factor, factor[:, :, :1], rtol=1e-3)
    assert abs(factor[:, :, 0].std() - 0.1) < 0.02


def test_rotation_keeps_lengths_and_rotates_triples_together():
    fixed = np.tile(np.random.default_rng(0).normal(size=(40, 3, 50)), (1, 2, 1))
    rotated = augment.rotation(fixed, rng(), degrees=15)
    first, second = rotated[:, :3], rotated[:, 3:]
    assert np.allclose(first, second)
    assert np.allclose(np.linalg.norm(first, axis=1), np.linalg.norm(fixed[:, :3], axis=1))
    cosine = (first * fixed[:, :3]).sum(axis=1) / (fixed[:, :3] ** 2).sum(axis=1)
    angle = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
    assert 5 < angle.max() <= 15 + 1e-6


def test_rotation_keeps_channels_that_are_no_triples(x):
    assert (augment.rotation(x[:, :4], rng()) == x[:, :4]).all()


@pytest.mark.parametrize(("length", "points"), [(50, 6), (100, 152), (7, 3)])
def test_spline_equals_the_natural_cubic_spline(length, points):
    interpolate = pytest.importorskip("scipy.interpolate")
    values = np.random.default_rng(0).normal(size=points)
    place = np.linspace(0, points - 1, length)
    expected = interpolate.CubicSpline(np.arange(points), values, bc_type="natural")(place)
    assert np.allclose(augment.spline(length, points) @ values, expected)


def test_splines_of_few_points_depend_on_their_ends_everywhere():
    """ACCUP's notes: with 150 inner points our natural spline is the authors' but for the ends, with 4 it is not."""
    interpolate = pytest.importorskip("scipy.interpolate")
    differences = {}
    for points in (152, 6):
        values = np.random.default_rng(0).normal(size=(points, 500))
        theirs = interpolate.CubicSpline(np.linspace(0, 127, points), values)(np.arange(128))
        differences[points] = np.abs(augment.spline(128, points) @ values - theirs)[32:96].mean(axis=1)
    assert differences[152].max() < 1e-9
    assert 0.08 < differences[6].max() < 0.12  # a tenth of the deviation of the points


def test_magnitude_warp_is_a_smooth_factor_around_one(x):
    factor = augment.magnitude_warp(np.ones_like(x), rng(), 0.1, knots=2)
    assert abs(factor.mean() - 1) < 0.02
    assert 0.03 < factor.std() < 0.15
    assert np.abs(np.diff(factor, n=2, axis=2)).max() < 0.01


def test_time_warp_keeps_order_and_ends():
    ramp = np.tile(np.arange(50.0), (20, 2, 1))
    warped = augment.time_warp(ramp, rng())
    assert np.allclose(warped[:, :, 0], 0)
    assert np.allclose(warped[:, :, -1], 49)
    assert (np.diff(warped, axis=2) > 0).all()
    assert np.abs(warped - ramp).max() > 1


def test_permutation_keeps_every_sample_and_moves_pieces_only(x):
    ramp = np.tile(np.arange(50.0), (20, 2, 1))
    shuffled = augment.permutation(ramp, rng(), segments=5)
    assert (np.sort(shuffled, axis=2) == ramp).all()
    assert (shuffled[:, 0] == shuffled[:, 1]).all()
    breaks = (np.diff(shuffled[:, 0], axis=1) != 1).sum(axis=1)
    assert breaks.max() <= 4
    assert breaks.max() > 0


def test_strong_applies_each_augmentation_to_half_of_the_windows():
    zero = np.zeros((400, 3, 20), np.float32)
    untouched = (augment.strong(zero, rng()) == 0).all(axis=(1, 2)).mean()
    assert abs(untouched - 0.5) < 0.1  # zeros show jitter only
