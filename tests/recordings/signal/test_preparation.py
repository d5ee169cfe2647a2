"""All signal steps in one call."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from sight.recordings.signal import prepare
from sight.types import RecordingFacts
from tests.helpers.signals import recording


def test_prepare_selects_channels_converts_units_and_returns_facts():
    whole = recording(np.ones((400, 3)), np.arange(400) / 100, 100, facts=RecordingFacts(file="a.csv"))
    windows = prepare(whole, rate_hz=50, window_s=1, stride_s=1, channels=("z", "x"), unit="m/s^2")
    assert windows.x.shape == (4, 2, 50)
    np.testing.assert_allclose(windows.x, 9.80665, rtol=1e-6)
    for name in ("file", "gaps", "samples", "saturated_share", "resample_delay_s", "windows"):
        assert name in windows.facts.as_dict()


def test_feature_vectors_are_not_changed():
    time_s = np.array([np.nan, 0, 60, 120, 420, 480, 5000.0, 5000.0])
    values = np.arange(16.0).reshape(8, 2)
    values[2, 1] = np.nan
    whole = recording(values, time_s, 1 / 60, labels=np.arange(8))
    windows = prepare(whole, rate_hz=1 / 60, window_s=60, stride_s=60, max_gap_s=600)
    np.testing.assert_array_equal(windows.x[:, :, 0], values[1:7].astype(np.float32))
    assert windows.label.tolist() == [1, 2, 3, 4, 5, 6]
    assert windows.gap_before_s.tolist() == [0, 0, 0, 0, 0, 5000 - 540]


def test_short_and_empty_recordings():
    short = recording(np.zeros(30), np.arange(30) / 50, 50, subject="7")
    assert len(prepare(short, rate_hz=50, window_s=1, stride_s=1)) == 0
    with pytest.raises(ValueError, match="no samples"):
        prepare(recording(np.zeros((0, 3)), [], 50), rate_hz=50, window_s=1, stride_s=1)


def test_a_rate_of_zero_is_rejected():
    with pytest.raises(ValueError, match="above 0 Hz"):
        prepare(recording(np.zeros(50), np.arange(50), 0), window_s=3, stride_s=1)


def test_import_does_not_load_scipy_or_pandas():
    code = "import sys, sight.recordings.signal; raise SystemExit('scipy' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_recording_of_nan_has_no_windows():
    nothing = recording(np.full((100, 3), np.nan), np.arange(100) / 50, 50)
    windows = prepare(nothing, rate_hz=25, window_s=1, stride_s=1)
    assert len(windows) == 0
    assert windows.facts.nan_samples == 100


@pytest.mark.parametrize("writeable", [True, False])
def test_overwriting_the_recording_changes_no_window(writeable):
    rng = np.random.default_rng(0)
    time_s = np.arange(6000) / 100
    time_s[[70, 4000]] = time_s[[69, 3990]]  # repeated and late samples
    values = rng.normal(size=(6000, 3)).astype(np.float32)
    values[[5, 5999]] = np.nan
    choices = {"rate_hz": 20.0, "window_s": 2.0, "stride_s": 1.0, "unit": "m/s^2"}
    own = recording(values.copy(), time_s.copy(), 100, labels=np.arange(6000) // 600)
    kept, before = prepare(own, **choices), own.values.copy()
    np.testing.assert_array_equal(own.values, before)
    own.values.flags.writeable = writeable
    reused = prepare(own, **choices, overwrite=True)
    np.testing.assert_array_equal(reused.x, kept.x)
    np.testing.assert_array_equal(reused.time_s, kept.time_s)
    np.testing.assert_array_equal(reused.label, kept.label)
    assert reused.facts == kept.facts
