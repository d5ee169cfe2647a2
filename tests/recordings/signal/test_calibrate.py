"""Calibration and non-wear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sight.recordings.signal import prepare
from sight.recordings.signal.calibrate import Calibration, calibrate, estimate_calibration, fit_sphere
from sight.recordings.signal.channels import convert
from sight.recordings.signal.nonwear import find_nonwear, is_worn
from tests.helpers.signals import recording


def resting(scale, offset, directions=60, seed=0, noise=0.002):
    """Return 10 s of rest in many directions, and a recording of it with wrong scale and offset."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(directions, 3))
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    truth = np.repeat(truth, 300, axis=0) + rng.normal(0, noise, (300 * directions, 3))
    return truth, recording(truth / scale - offset, np.arange(len(truth)) / 30, 30)


def test_calibration_estimates_scale_and_offset():
    scale, offset = np.array([1.03, 0.97, 1.01]), np.array([0.04, -0.03, 0.02])
    truth, seen = resting(scale, offset)
    calibration, facts = estimate_calibration(seen)
    np.testing.assert_allclose(calibration.scale, scale, atol=1e-3)
    np.testing.assert_allclose(calibration.offset, offset, atol=1e-3)
    assert facts["calibration_error_before_mg"] > 10 > 1 > facts["calibration_error_after_mg"]
    np.testing.assert_allclose(calibrate(seen, calibration).values, truth, atol=2e-3)


def test_calibration_does_not_depend_on_the_unit():
    scale, offset = np.array([1.03, 0.97, 1.01]), np.array([0.04, -0.03, 0.02])
    _, seen = resting(scale, offset)
    metric = convert(seen, "m/s^2")
    calibration, _ = estimate_calibration(metric)
    back = convert(calibrate(metric, calibration), "g")
    np.testing.assert_allclose(back.values, calibrate(seen, calibration).values, atol=1e-5)


def test_calibration_of_a_perfect_sensor_is_the_identity():
    points = np.random.default_rng(0).normal(size=(50, 3))
    calibration = fit_sphere(points / np.linalg.norm(points, axis=1, keepdims=True))
    np.testing.assert_allclose(calibration.scale, 1, atol=1e-9)
    np.testing.assert_allclose(calibration.offset, 0, atol=1e-9)


def test_unreliable_calibration_is_not_applied():
    _, seen = resting(np.ones(3), np.zeros(3))
    one_side = replace(seen, values=np.abs(seen.values))
    calibration, facts = estimate_calibration(one_side)
    assert calibration is None
    assert "too few directions" in facts["calibration_note"]
    windows = prepare(one_side, rate_hz=30, window_s=2, stride_s=2, calibration="auto")
    assert windows.facts.calibrated is False
    np.testing.assert_array_equal(windows.x[0], one_side.values[:60].T)


def test_a_fit_that_leaves_a_large_error_is_not_applied():
    truth, seen = resting(np.ones(3), np.zeros(3))
    stretched = np.where(np.arange(len(truth)) // 300 % 2, 1.1, 1.0)  # every second epoch at rest measures 1.1 g
    calibration, facts = estimate_calibration(replace(seen, values=(truth.T * stretched).T))
    assert calibration is None
    assert (facts["calibrated"], facts["calibration_epochs"]) == (False, 60)
    before, after = (facts[f"calibration_error_{when}_mg"] for when in ("before", "after"))
    assert after > 10
    assert facts["calibration_note"] == f"the fit leaves an error of {after:.1f} mg; it was {before:.1f} mg before"


def test_calibration_needs_an_accelerometer():
    turning = recording(np.zeros((600, 3)), np.arange(600) / 30, 30, unit="deg/s")
    calibration, facts = estimate_calibration(turning)
    assert calibration is None
    assert facts["calibrated"] is False
    with pytest.raises(ValueError, match="three channels of acceleration"):
        calibrate(turning, Calibration())


def day(seed=0, hours=5, rate=5):
    rng = np.random.default_rng(seed)
    n = hours * 3600 * rate
    values = np.array([0, 0, 1.0]) + rng.normal(0, 0.1, (n, 3))
    off = slice(1 * 3600 * rate, 3 * 3600 * rate)
    values[off] = np.array([0, 0, 1.0]) + rng.normal(0, 0.003, (off.stop - off.start, 3))
    return recording(values, np.arange(n) / rate, rate)


def test_nonwear_is_flagged_and_kept():
    times, facts = find_nonwear(day())
    assert times.tolist() == [[3600, 3 * 3600]]
    assert facts["nonwear_total_s"] == 7200
    windows = prepare(day(), rate_hz=5, window_s=60, stride_s=60)
    assert len(windows) == 5 * 60
    assert np.flatnonzero(~windows.wear).tolist() == list(range(60, 180))


def test_nonwear_counts_from_the_clock_of_the_recording():
    whole = day()
    later = replace(whole, time_s=whole.time_s + 450)
    assert find_nonwear(later)[0].tolist() == [[3600 + 450, 3 * 3600 + 450]]
    windows = prepare(later, rate_hz=5, window_s=60, stride_s=60)
    assert np.flatnonzero(~windows.wear).tolist() == list(range(60, 180))


def test_short_rest_and_gaps_count_as_worn():
    whole = day()
    short = replace(whole, values=whole.values[: 5 * 5400], time_s=whole.time_s[: 5 * 5400])
    assert len(find_nonwear(short)[0]) == 0
    keep = (whole.time_s < 3600) | (whole.time_s > 3 * 3600 - 60)
    gap = replace(whole, values=whole.values[keep], time_s=whole.time_s[keep])
    assert len(find_nonwear(gap)[0]) == 0


def test_a_jump_of_the_clock_by_decades_costs_nothing(monkeypatch):
    from sight.recordings.signal import nonwear

    whole, calls = day(), []
    jumped = replace(whole, time_s=np.where(whole.time_s < 2 * 3600, whole.time_s, whole.time_s + 1.7e9))
    statistics = nonwear._statistics
    monkeypatch.setattr(nonwear, "_statistics", lambda *given: calls.append(1) or statistics(*given))
    periods, _ = find_nonwear(jumped)
    assert len(calls) <= 4 * 5 + 2
    assert periods[0, 0] == 3600
    assert periods[1, 0] > 1.7e9


def test_steps_without_samples_do_not_change_the_periods():
    whole = day(hours=8)
    rng = np.random.default_rng(1)
    keep = rng.random(len(whole.time_s)) < np.where(whole.time_s < 4 * 3600, 0.8, 0.0) + (whole.time_s > 6 * 3600)
    part = replace(whole, values=whole.values[keep], time_s=whole.time_s[keep])
    assert find_nonwear(part)[0].tolist() == find_nonwear(whole)[0].tolist() == [[3600, 3 * 3600]]


def test_worn_without_nonwear_periods():
    assert is_worn(np.empty((0, 2)), np.arange(3.0)).all()
