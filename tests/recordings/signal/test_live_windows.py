"""Live windows equal the windows of the whole recording."""

from __future__ import annotations

import numpy as np
import pytest

from sight.recordings.signal import Calibration, Windower, prepare
from sight.recordings.signal.live_windows import FeatureWindower
from tests.helpers.signals import irregular_recording, recording

RATES = [(50, 50), (100, 50), (100, 30), (20, 50), (58.8, 50)]


@pytest.mark.parametrize(
    ("rate_in", "rate", "chunk"), [(100, 30, 1), *((*rates, chunk) for rates in RATES for chunk in (7, "random"))]
)
def test_windows_do_not_depend_on_the_chunks(rate_in, rate, chunk):
    whole = irregular_recording(rate_in)
    windowing = {"window_s": 30 / rate, "stride_s": 11 / rate, "rate_hz": rate}
    expected = prepare(whole, **windowing)
    live = Windower(rate_in_hz=rate_in, channels=3, **windowing)
    rng = np.random.default_rng(5)
    parts, start = [], 0
    while start < len(whole.values):
        stop = start + (int(rng.integers(0, 200)) if chunk == "random" else chunk)
        parts.append(live.push(whole.values[start:stop], whole.time_s[start:stop]))
        start = stop
    parts.append(live.flush())
    assert len(expected) > 30
    assert np.isfinite(expected.x).all()
    for name in ("x", "time_s", "gap_before_s"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(expected, name))
    assert (expected.gap_before_s > 0).sum() == 2
    assert live.facts["nan_samples"] == expected.facts.nan_samples == 3


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_a_stride_longer_than_the_window_skips_as_prepare_does(chunk):
    whole = recording(np.arange(100.0), np.arange(100) / 10, 10)
    windowing = {"window_s": 0.3, "stride_s": 1.1, "rate_hz": 10}
    live, expected = Windower(rate_in_hz=10, channels=1, **windowing), prepare(whole, **windowing)
    parts = [live.push(whole.values[i : i + chunk], whole.time_s[i : i + chunk]) for i in range(0, 100, chunk)]
    parts.append(live.flush())
    np.testing.assert_array_equal(np.concatenate([part.x for part in parts]), expected.x)
    np.testing.assert_array_equal(np.concatenate([part.time_s for part in parts]), expected.time_s)


@pytest.mark.parametrize(("rate", "length"), [(50, 30), (20, 20), (50, 1)])
def test_a_clock_that_is_set_back_gives_the_same_windows_live_and_offline(rate, length):
    """One sample far in the future, then a clock that is set back by ten minutes."""
    rng, steady = np.random.default_rng(0), np.arange(3000) / 50
    time_s = np.concatenate((steady[:1500] + 900, [1e9], steady[1500:] + 900, steady + 300))
    whole = recording(rng.normal(size=(len(time_s), 3)), time_s, 50, labels=np.repeat([0, 1], [3001, 3000]))
    windowing = {"window_s": length / rate, "stride_s": length / rate, "rate_hz": rate}
    expected = prepare(whole, **windowing)
    live = make_windower(whole, length, windowing)
    parts = [live.push(whole.values[i : i + 77], time_s[i : i + 77]) for i in range(0, len(time_s), 77)] + [
        live.flush()
    ]
    for name in ("x", "time_s", "gap_before_s"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(expected, name))
    assert (expected.time_s[expected.label == 1] < 400).all()
    assert 45 <= (expected.label == 1).sum() * expected.stride_s <= 50
    assert live.dropped == expected.facts.backward_samples
    assert 1000 <= live.dropped <= 1002


def make_windower(whole, length, windowing):
    if length == 1:
        return FeatureWindower(rate_hz=whole.rate_hz, channels=3)
    return Windower(rate_in_hz=whole.rate_hz, channels=3, **windowing)


def test_live_calibration_equals_prepare():
    whole = irregular_recording(100)
    calibration = Calibration(scale=(1.02, 0.98, 1.01), offset=(0.05, -0.02, 0.01))
    windowing = {"window_s": 1.0, "stride_s": 0.5, "rate_hz": 50.0}
    live = Windower(rate_in_hz=100, channels=3, calibration=calibration, **windowing)
    pieces = [live.push(whole.values, whole.time_s).x, live.flush().x]
    np.testing.assert_array_equal(np.concatenate(pieces), prepare(whole, calibration=calibration, **windowing).x)


def test_live_feature_vectors_equal_prepare():
    time_s = np.array([0, 60, 120, 420, 420, 480, 5000.0, 5060.0, 4000.0])
    values = np.arange(18.0, dtype=np.float32).reshape(9, 2)
    values[2, 1] = np.nan
    expected = prepare(recording(values, time_s, 1 / 60), rate_hz=1 / 60, window_s=60, stride_s=60, max_gap_s=600)
    for chunk in (1, 4, 9):
        live = FeatureWindower(rate_hz=1 / 60, channels=2, max_gap_s=600)
        parts = [live.push(values[i : i + chunk], time_s[i : i + chunk]) for i in range(0, 9, chunk)]
        parts.append(live.flush())
        for name in ("x", "time_s", "gap_before_s"):
            joined = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(joined, getattr(expected, name))
    assert expected.gap_before_s.tolist() == [0, 0, 0, 0, 0, 5000 - 540, 0]


def test_a_state_of_other_channels_is_refused():
    options = {"rate_in_hz": 10, "rate_hz": 10, "window_s": 1, "stride_s": 1}
    live = Windower(channels=3, **options)
    live.push(np.zeros((5, 3)), np.arange(5) / 10)
    with pytest.raises(ValueError, match="channels"):
        Windower(channels=2, **options).restore(live.state())


def test_samples_of_wrong_shape_are_rejected():
    live = Windower(rate_in_hz=10, rate_hz=10, channels=3, window_s=1, stride_s=1)
    with pytest.raises(ValueError, match=r"samples \(n, 3\)"):
        live.push(np.zeros((5, 2)), np.arange(5))
