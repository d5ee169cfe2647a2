"""ENMO and MAD against direct formulas."""

from __future__ import annotations

import numpy as np
import pytest

from sight.recordings.signal.intensity import intensity

RNG = np.random.default_rng(0)
X = RNG.normal([[0], [0], [1]], 0.2, size=(50, 3, 40)).astype(np.float32)


def test_enmo_and_mad_of_each_window():
    found = intensity(X, ("g",) * 3)
    for window, enmo, mad in zip(X.astype(float), found["enmo_mg"], found["mad_mg"], strict=True):
        r = np.linalg.norm(window, axis=0)
        assert enmo == pytest.approx(1000 * np.maximum(r - 1, 0).mean())
        assert mad == pytest.approx(1000 * np.abs(r - r.mean()).mean())


def test_units_and_further_channels_do_not_matter():
    expected = intensity(X, ("g",) * 3)["enmo_mg"]
    with_rotation = np.concatenate([500 * X[:, :1], 9.80665 * X], axis=1)
    found = intensity(with_rotation, ("deg/s", *["m/s^2"] * 3))["enmo_mg"]
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("x", "units"),
    [
        (X - [[0], [0], [1]], ("g",) * 3),  # without gravity
        (9.8 * X, ("g",) * 3),  # wrong unit
        (X, ("deg/s",) * 3),
        (X[:, :2], ("g",) * 2),
        (X[:, :, :1], ("g",) * 3),
        (X[:0], ("g",) * 3),
    ],
)
def test_unknown_intensity_is_empty(x, units):
    assert intensity(x, units) == {}


def test_a_window_with_missing_samples_has_no_value():
    x = X.copy()
    x[3, 0, 5] = np.nan
    assert np.flatnonzero(np.isnan(intensity(x, ("g",) * 3)["mad_mg"])).tolist() == [3]
