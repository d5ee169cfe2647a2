"""Epochs at the rate of the device: ENMO computed by hand, the angle, gaps and the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

import sight
from sight.recordings.signal import epochs as module
from sight.recordings.signal.calibrate import Calibration
from sight.recordings.signal.epochs import find_epochs
from sight.recordings.signal.preparation import prepare
from sight.testing import toy_network
from sight.types import Recording

NONE = np.empty((0, 2))
RNG = np.random.default_rng(0)


def recording(values, rate_hz=50.0, time_s=None, **changes):
    axes = {"channels": ("x", "y", "z"), "unit": "g", "rate_hz": rate_hz}
    time_s = np.arange(len(values)) / rate_hz if time_s is None else time_s
    return Recording(values=np.asarray(values, np.float32), time_s=time_s, **(axes | changes))


def test_enmo_of_a_small_file_is_that_computed_by_hand(tmp_path):
    # Four samples a second. Magnitudes: 1.5 and 0.5 in turn, so ENMO is (0.5 + 0) / 2 = 0.25 g in the first epoch; a
    # 3-4-12 vector of length 1.3 in the second, so 0.3 g; gravity alone in the third. MAD: 0.5 g, 0 and 0.
    rows = [(0, 0, 1.5), (0, 0.5, 0)] * 10 + [(0.3, 0.4, 1.2)] * 20 + [(0, 1, 0)] * 20
    file = tmp_path / "hand.csv"
    lines = (f"2025-03-03T08:00:{i / 4:09.6f}Z,{x},{y},{z}" for i, (x, y, z) in enumerate(rows))
    file.write_text("time,x,y,z\n" + "\n".join(lines))
    windows = sight.read(file, toy_network(), rate=4.0)
    epochs = windows.epochs
    assert epochs.time_s.tolist() == [0, 5, 10]
    assert epochs.enmo_mg.tolist() == pytest.approx([250, 300, 0], abs=1e-3)
    assert epochs.mad_mg.tolist() == pytest.approx([500, 0, 0], abs=1e-3)
    assert epochs.angle_deg[2] == pytest.approx(0, abs=1e-3)
    assert epochs.wear.all()
    whole = (windows.time_s % 5 == 0) & (windows.window_s <= 5)
    assert windows.intensity["enmo_mg"][whole][:3].tolist() == pytest.approx([250, 300, 0][: whole.sum()], abs=1e-3)


def test_enmo_is_that_of_the_device_not_of_the_model():
    fast = 1 + 0.8 * np.sin(2 * np.pi * 15 * np.arange(3000) / 100)  # 15 Hz, which a model at 20 Hz cannot see
    moving = recording(np.outer(fast, [0, 0, 1]), rate_hz=100.0)
    windows = prepare(moving, rate_hz=20.0, window_s=5, stride_s=5, epochs=True)
    expected = 1000 * np.maximum(np.abs(fast) - 1, 0).mean()
    assert windows.epochs.enmo_mg[1:-1] == pytest.approx(expected, rel=1e-2)
    at_the_models_rate = 1000 * np.maximum(np.linalg.norm(windows.x, axis=1) - 1, 0).mean()
    assert at_the_models_rate < expected / 10


def test_calibration_comes_before_the_epochs():
    lying = recording(np.tile([0.0, 0.0, 1.1], (1000, 1)))
    calibration = Calibration(scale=(1.0, 1.0, 1 / 1.1))
    windowing = {"window_s": 5, "stride_s": 5, "epochs": True}
    assert prepare(lying, **windowing).epochs.enmo_mg == pytest.approx(100, abs=1e-2)
    assert prepare(lying, **windowing, calibration=calibration).epochs.enmo_mg == pytest.approx(0, abs=1e-2)


def test_units_do_not_matter_and_wrong_ones_give_no_epochs():
    values = RNG.normal([0, 0, 1], 0.1, (1000, 3))
    expected = find_epochs(recording(values), NONE)
    found = find_epochs(recording(9.80665 * values, unit="m/s^2"), NONE)
    assert found.enmo_mg == pytest.approx(expected.enmo_mg, rel=1e-4)
    assert found.angle_deg == pytest.approx(expected.angle_deg, abs=1e-3)
    assert find_epochs(recording(9.80665 * values), NONE) is None
    assert find_epochs(recording(values - [0, 0, 1]), NONE) is None
    assert find_epochs(recording(values, unit="deg/s"), NONE) is None


def reference_angle(recording, epoch):
    """Return the angle of an epoch from the definition: rolling medians of every sample, then their mean."""
    rate = int(recording.rate_hz)
    angles = []
    for i in range(5 * rate * epoch, 5 * rate * (epoch + 1)):
        x, y, z = np.median(recording.values[max(i - 5 * rate // 2, 0) : i + 5 * rate // 2 + 1], axis=0)
        angles.append(np.degrees(np.arctan(z / np.hypot(x, y))))
    return np.mean(angles)


def test_the_angle_is_the_mean_of_rolling_medians():
    direction = np.repeat(RNG.normal(size=(6, 3)), 250, axis=0)
    turning = recording(direction / np.linalg.norm(direction, axis=1)[:, None] + RNG.normal(0, 0.02, (1500, 3)))
    found = find_epochs(turning, NONE)
    expected = [reference_angle(turning, epoch) for epoch in range(6)]
    assert found.angle_deg.tolist() == pytest.approx(expected, abs=1.0)  # ten samples a second instead of fifty
    slow = replace(turning, rate_hz=10.0, values=turning.values[::5], time_s=turning.time_s[::5])
    expected = [reference_angle(slow, epoch) for epoch in range(6)]
    assert find_epochs(slow, NONE).angle_deg[1:-1].tolist() == pytest.approx(expected[1:-1], abs=1e-3)


def test_blocks_of_the_computation_do_not_show(monkeypatch):
    moving = recording(RNG.normal([0, 0, 1], 0.2, (20_000, 3)), start=datetime(2025, 3, 3, 8, 0, 3, tzinfo=UTC))
    whole = find_epochs(moving, NONE)
    monkeypatch.setattr(module, "BLOCK", 1000)
    parts = find_epochs(moving, NONE)
    for name in ("time_s", "enmo_mg", "mad_mg", "angle_deg"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), abs=1e-4)


def test_epochs_begin_at_full_seconds_of_the_clock_and_leave_gaps_out():
    values = np.tile([0.0, 0.0, 1.0], (6000, 1))
    time_s = np.arange(6000) / 50
    keep = (time_s < 20) | (time_s >= 61)
    start = datetime(2025, 3, 3, 8, 0, 2, 500_000, tzinfo=UTC)
    found = find_epochs(recording(values[keep], time_s=time_s[keep], start=start), np.array([[81.0, 99.0]]))
    assert (found.time_s % 5 == 2.5).all()
    assert found.time_s[:6].tolist() == [-2.5, 2.5, 7.5, 12.5, 17.5, 62.5]  # half an epoch is one, less is none
    assert found.time_s[~found.wear].tolist() == [82.5, 87.5, 92.5]


def test_a_clock_that_is_set_back_gives_epochs_in_time_order():
    values = RNG.normal([0, 0, 1], 0.1, (3000, 3))
    time_s = np.concatenate((100 + np.arange(1500) / 50, np.arange(1500) / 50))
    found = find_epochs(recording(values, time_s=time_s), NONE)
    assert (np.diff(found.time_s) > 0).all()
    assert len(found.time_s) == 12


def test_a_recording_without_samples_has_no_epochs():
    assert find_epochs(recording(np.empty((0, 3)), time_s=np.empty(0)), NONE) is None
