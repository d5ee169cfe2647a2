"""Resampling against hand-computed signals."""

from __future__ import annotations

import numpy as np
import pytest

from sight.recordings.signal.resample import Resampler, _nearest_labels, resample
from sight.recordings.signal.resampling_stages import SteadySampler
from tests.helpers.signals import recording


def test_equal_rates_keep_samples_despite_jitter():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 3)).astype(np.float32)
    time_s = np.arange(500) / 50 + np.concatenate(([0], rng.uniform(-0.4, 0.4, 499))) / 50
    regular, _, _ = resample(recording(values, time_s, 50), 50)
    np.testing.assert_array_equal(regular.values, values)
    np.testing.assert_allclose(regular.time_s, np.arange(500) / 50)


def test_a_small_hole_is_interpolated():
    time_s = np.array([0, 1, 2, 6, 7]) / 10
    regular, _, _ = resample(recording([0, 1, 2, 6, 7], time_s, 10), 10)
    np.testing.assert_allclose(regular.values[:, 0], np.arange(8), atol=1e-6)


def test_a_burst_is_thinned():
    ticks = np.arange(100) / 20
    time_s = np.sort(np.concatenate((ticks, ticks[50] + np.array([0.01, 0.02]))))
    regular, _, _ = resample(recording(time_s, time_s, 20), 20)
    np.testing.assert_allclose(regular.values[:, 0], ticks, atol=1e-6)


@pytest.mark.parametrize(("rate_in", "rate"), [(100, 50), (100, 30), (58.8, 50), (200, 20), (20, 50)])
def test_slow_signals_keep_shape_and_time(rate_in, rate):
    time_s = np.arange(int(20 * rate_in)) / rate_in
    regular, _, facts = resample(recording(np.sin(2 * np.pi * time_s), time_s, rate_in), rate)
    settled = (regular.time_s > 1) & (regular.time_s < 19)
    error = np.abs(regular.values[:, 0] - np.sin(2 * np.pi * regular.time_s))
    assert error[settled].max() < 0.015
    assert regular.time_s[-1] > time_s[-1] - 1.01 / rate
    assert 0 < facts["resample_delay_s"] < 0.2


def test_stated_delay_is_an_upper_bound():
    resampler = Resampler(100, 25)
    newest = [resampler.push(np.zeros((1, 1), np.float32), np.array([i / 100]))[1] for i in range(400)]
    lag = [i / 100 - times[-1] for i, times in enumerate(newest) if len(times)]
    assert max(lag[5:]) <= resampler.delay_s + 1e-9


@pytest.mark.parametrize("frequency", [26.0, 35.0, 47.0])
def test_frequencies_above_nyquist_are_removed(frequency):
    time_s = np.arange(2000) / 100
    regular, _, _ = resample(recording(np.sin(2 * np.pi * frequency * time_s), time_s, 100), 50)
    assert np.abs(regular.values[50:-50]).max() < 0.0105


def test_a_constant_is_kept_from_the_first_sample_on():
    regular, _, _ = resample(recording(np.full(300, 0.7), np.arange(300) / 100, 100), 30)
    np.testing.assert_allclose(regular.values, 0.7, rtol=1e-6)


def test_gaps_are_not_interpolated():
    time_s = np.concatenate((np.arange(100), np.arange(300, 400))) / 100
    regular, _, facts = resample(recording(np.repeat([0.0, 1.0], 100), time_s, 100), 50)
    assert facts["stretches"] == 2
    np.testing.assert_allclose(np.unique(regular.values.round(5)), [0, 1])
    assert not ((regular.time_s > 1.0) & (regular.time_s < 3.0)).any()


def test_labels_come_from_the_nearest_sample():
    labels = np.repeat([0, 1], 50)
    regular, _, _ = resample(recording(np.zeros(100), np.arange(100) / 100, 100, labels=labels), 30)
    expected = [labels[min(round(t * 100 - 1e-9), 99)] for t in regular.time_s]
    assert regular.labels.tolist() == expected


@pytest.mark.parametrize("rate", [30, 100, 250])
def test_the_last_and_the_only_label_are_kept(rate):
    labels = np.array([0] * 99 + [1])
    regular, _, _ = resample(recording(np.zeros(100), np.arange(100) / 100, 100, labels=labels), rate)
    nearest = np.abs(regular.time_s[:, None] - np.arange(100) / 100).argmin(axis=1)
    assert regular.labels.tolist() == labels[nearest].tolist()
    single, _, _ = resample(recording(np.zeros(1), np.zeros(1), 100, labels=np.array([2])), rate)
    assert set(single.labels.tolist()) <= {2}
    assert _nearest_labels(labels, np.arange(100) / 100, np.array([0.984, 0.986, 0.99, 1.5])).tolist() == [0, 1, 1, 1]
    assert _nearest_labels(np.array([2]), np.zeros(1), np.array([-1.0, 0.0, 1.0])).tolist() == [2, 2, 2]


@pytest.mark.parametrize("rate", [100.0, 20.0, 250.0])
@pytest.mark.parametrize("jitter", [0.0, 0.001, 0.004, 0.006])
def test_regular_samples_take_the_same_rows_as_the_search(rate, jitter, monkeypatch):
    rng = np.random.default_rng(0)
    for drift in (0.0, 1e-4, -1e-4):
        time_s = np.sort(np.arange(3000) / 100 * (1 + drift) + rng.uniform(-jitter, jitter, 3000))
        one = recording(rng.normal(size=(3000, 3)), time_s, 100)
        fast = resample(one, rate)[0]
        with monkeypatch.context() as patch:
            patch.setattr(SteadySampler, "_regular_rows", lambda *_: None)
            slow = resample(one, rate)[0]
        np.testing.assert_array_equal(fast.values, slow.values)
        np.testing.assert_array_equal(fast.time_s, slow.time_s)


def test_irregular_samples_are_not_taken_for_regular_ones():
    sampler = SteadySampler(10.0)
    tick = np.arange(4) / 10
    assert sampler._regular_rows(tick, tick + 0.04) == slice(0, 4)
    assert sampler._regular_rows(tick, np.array([0.0, 0.1, 0.26, 0.3])) is None
    assert sampler._regular_rows(tick, np.array([-0.02, 0.02, 0.1, 0.2, 0.3])) is None
    assert sampler._regular_rows(tick, np.array([0.0, 0.1, 0.2, 0.3, 0.31])) is None


@pytest.mark.parametrize("rate", [20.0, 100.0, 250.0])
def test_the_memory_of_the_recording_can_be_reused(rate):
    rng = np.random.default_rng(0)
    time_s = np.delete(np.arange(9000) / 100, [5, 6, 7, *range(4000, 4500)])  # a hole and a gap
    values = rng.normal(size=(len(time_s), 3)).astype(np.float32)
    kept, stretches, _ = resample(recording(values.copy(), time_s, 100), rate)
    reused, again, _ = resample(recording(values.copy(), time_s, 100), rate, overwrite=True)
    np.testing.assert_array_equal(reused.values, kept.values)
    np.testing.assert_array_equal(reused.time_s, kept.time_s)
    assert again == stretches
