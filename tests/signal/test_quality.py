"""Units, warnings, calibration and non-wear against hand-computed values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sight.signal import prepare
from sight.signal.calibrate import calibrate, estimate, fit_sphere
from sight.signal.nonwear import nonwear, worn
from sight.signal.units import convert, factor, rest_g, saturation, select, warnings_for
from tests.helpers.signals import recording

# --- units, warnings ----------------------------------------------------------------------------------------------


def test_units_convert_within_their_kind():
    whole = recording(np.ones((4, 4)), np.arange(4), 1, unit=("g", "mg", "m/s^2", "rad/s"))
    moved = convert(whole, ("m/s^2", "g", "g", "deg/s"))
    np.testing.assert_allclose(moved.values[0], [9.80665, 1e-3, 1 / 9.80665, 57.29578], rtol=1e-6)
    assert moved.unit == ("m/s^2", "g", "g", "deg/s")
    with pytest.raises(ValueError, match="each within its kind"):
        factor("g", "deg/s")
    with pytest.raises(ValueError, match="4 units"):
        convert(whole, ("g", "g"))


def test_channels_are_picked_in_order_or_named():
    whole = recording(np.arange(6.0).reshape(2, 3), [0, 1], 1, unit=("g", "g", "mg"))
    assert select(whole, ("z", "x")).values.tolist() == [[2, 0], [5, 3]]
    assert select(whole, ("z", "x")).unit == ("mg", "g")
    with pytest.raises(ValueError, match="map its columns"):
        select(whole, ("x", "w"))


def test_saturation_is_seen_and_a_free_signal_is_not_accused():
    wave = 3 * np.sin(np.linspace(0, 60, 3000))
    free = np.stack((wave, np.cos(wave)), axis=1)
    assert saturation(recording(free, np.arange(3000) / 50, 50))["saturated_share"] == 0
    share = saturation(recording(np.clip(free, -2, 2), np.arange(3000) / 50, 50))["saturated_share"]
    assert share == pytest.approx(np.mean(np.abs(wave) >= 2), abs=0.01)


@pytest.mark.parametrize(
    ("scale", "word"), [(9.80665, "m/s^2"), (1000, "mg"), (1 / 9.80665, "already in g"), (0.01, "gravity removed")]
)
def test_gravity_tells_a_wrong_unit(scale, word):
    rng = np.random.default_rng(0)
    values = (np.array([0.6, 0.0, 0.8]) + rng.normal(0, 0.004, (1000, 3))) * scale
    said = warnings_for(recording(values, np.arange(1000) / 50, 50))
    assert len(said) == 1
    assert word in said[0]


def test_a_good_recording_gets_no_warning():
    rng = np.random.default_rng(0)
    values = np.array([0.6, 0.0, 0.8]) + rng.normal(0, 0.004, (1000, 3))
    whole = recording(values, np.arange(1000) / 50, 50)
    card = {"rate_hz": 50, "channels": ("x", "y", "z"), "unit": "g", "mean": [0.5, 0, 0.7], "std": [0.5, 0.5, 0.5]}
    assert warnings_for(whole, card) == ()
    assert rest_g(whole) == pytest.approx(1.0, abs=1e-3)


def test_a_recording_unlike_training_is_told():
    whole = recording(np.tile([0.0, 0.0, -1.0], (500, 1)), np.arange(500) / 25, 25)
    card = {"rate_hz": 50, "channels": ("x", "y", "z"), "unit": "m/s^2", "mean": [0, 0, 1], "std": [0.2, 0.2, 0.2]}
    text = " ".join(warnings_for(whole, card))
    for word in ("25 Hz", "trained in m/s^2", "Channel z averages -1"):
        assert word in text
    assert "trained on channels x, y" in warnings_for(whole, {"channels": ("x", "y")})[0]


# --- calibration, non-wear ----------------------------------------------------------------------------------------


def resting(scale, offset, directions=60, seed=0, noise=0.002):
    """Ten-second rests in many directions, seen by a sensor that is off by scale and offset."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(directions, 3))
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    truth = np.repeat(truth, 300, axis=0) + rng.normal(0, noise, (300 * directions, 3))
    return truth, recording(truth / scale - offset, np.arange(len(truth)) / 30, 30)


def test_calibration_finds_scale_and_offset():
    scale, offset = np.array([1.03, 0.97, 1.01]), np.array([0.04, -0.03, 0.02])
    truth, seen = resting(scale, offset)
    calibration, facts = estimate(seen)
    np.testing.assert_allclose(calibration.scale, scale, atol=1e-3)
    np.testing.assert_allclose(calibration.offset, offset, atol=1e-3)
    assert facts["calibration_error_before_mg"] > 10 > 1 > facts["calibration_error_after_mg"]
    np.testing.assert_allclose(calibrate(seen, calibration).values, truth, atol=2e-3)


def test_calibration_in_other_units_corrects_the_same():
    scale, offset = np.array([1.03, 0.97, 1.01]), np.array([0.04, -0.03, 0.02])
    _, seen = resting(scale, offset)
    metric = convert(seen, "m/s^2")
    calibration, _ = estimate(metric)
    back = convert(calibrate(metric, calibration), "g")
    np.testing.assert_allclose(back.values, calibrate(seen, calibration).values, atol=1e-5)


def test_calibration_leaves_a_perfect_sensor_alone():
    points = np.random.default_rng(0).normal(size=(50, 3))
    calibration = fit_sphere(points / np.linalg.norm(points, axis=1, keepdims=True))
    np.testing.assert_allclose(calibration.scale, 1, atol=1e-9)
    np.testing.assert_allclose(calibration.offset, 0, atol=1e-9)


def test_calibration_declines_politely():
    _, seen = resting(np.ones(3), np.zeros(3))
    one_side = replace(seen, values=np.abs(seen.values))
    calibration, facts = estimate(one_side)
    assert calibration is None
    assert "too few directions" in facts["calibration_note"]
    windows = prepare(one_side, rate_hz=30, window_s=2, stride_s=2, calibration="auto")
    assert windows.facts["calibrated"] is False
    np.testing.assert_array_equal(windows.x[0], one_side.values[:60].T)


def day(seed=0, hours=5, rate=5):
    rng = np.random.default_rng(seed)
    n = hours * 3600 * rate
    values = np.array([0, 0, 1.0]) + rng.normal(0, 0.1, (n, 3))
    off = slice(1 * 3600 * rate, 3 * 3600 * rate)
    values[off] = np.array([0, 0, 1.0]) + rng.normal(0, 0.003, (off.stop - off.start, 3))
    return recording(values, np.arange(n) / rate, rate)


def test_nonwear_is_found_and_flagged_but_kept():
    times, facts = nonwear(day())
    assert times.tolist() == [[3600, 3 * 3600]]
    assert facts["nonwear_total_s"] == 7200
    windows = prepare(day(), rate_hz=5, window_s=60, stride_s=60)
    assert len(windows) == 5 * 60
    assert np.flatnonzero(~windows.wear).tolist() == list(range(60, 180))


def test_half_an_hour_of_rest_is_worn_and_so_is_a_gap():
    whole = day()
    short = replace(whole, values=whole.values[: 5 * 5400], time_s=whole.time_s[: 5 * 5400])
    assert len(nonwear(short)[0]) == 0
    keep = (whole.time_s < 3600) | (whole.time_s > 3 * 3600 - 60)
    gap = replace(whole, values=whole.values[keep], time_s=whole.time_s[keep])
    assert len(nonwear(gap)[0]) == 0


def test_worn_without_any_nonwear():
    assert worn(np.empty((0, 2)), np.arange(3.0)).all()
