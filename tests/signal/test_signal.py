"""The signal steps against hand-computed values and slow references."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from sight.signal import Calibration, Windower, cut, join, prepare
from sight.signal.clock import check_rate, estimate_rate, tidy
from sight.signal.resample import Resampler, resample
from sight.signal.windows import LABEL_RULES, labels_of
from sight.types import Windows
from tests.helpers.signals import recording


def messy(rate_hz, seed=0, n=1500):
    """A clock with jitter, jumps, bursts, gaps, repeats, steps back and NaN."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(n) / rate_hz + rng.uniform(-0.2, 0.2, n) / rate_hz
    time_s[n // 4 :] += 0.4 / rate_hz
    time_s[n // 3 :] += 3.0
    time_s[n // 2 :] += 20.0
    time_s[2 * n // 3 :] += 4.3 / rate_hz
    burst = n // 5
    fast = time_s[burst] + np.arange(1, 9) / (10 * rate_hz)
    time_s = np.concatenate((time_s[: burst + 1], fast, time_s[burst + 1 :]))
    time_s[700] = time_s[699]
    time_s[800] = time_s[790]
    values = rng.normal(size=(len(time_s), 3)).astype(np.float32)
    values[600:602] = np.nan
    values[900, 1] = np.nan
    return recording(values, time_s, rate_hz)


# --- clock --------------------------------------------------------------------------------------------------------


def test_tidy_counts_what_it_drops():
    time_s = [0.0, 0.1, 0.1, 0.05, 0.2, np.nan, 0.3, 5.0]
    values = np.arange(8.0)
    values[6] = np.nan
    clean, facts = tidy(recording(values, time_s, 10.0, labels=np.arange(8)))
    assert clean.time_s.tolist() == [0.0, 0.1, 0.2, 5.0]
    assert clean.labels.tolist() == [0, 1, 4, 7]
    assert (facts["duplicate_samples"], facts["backward_samples"], facts["nan_samples"]) == (1, 1, 2)
    assert (facts["gaps"], facts["gap_longest_s"]) == (1, pytest.approx(4.8))


def test_a_regular_recording_is_not_copied():
    whole = recording(np.zeros((100, 3)), np.arange(100) / 50, 50)
    assert tidy(whole)[0].values is whole.values


def test_axivity_blocks_that_jump_are_no_gaps():
    time_s = np.arange(1200) * 0.01 + 0.015 * (np.arange(1200) // 120)
    _, facts = tidy(recording(np.zeros((1200, 3)), time_s, 100))
    assert facts["gaps"] == 0
    assert 98 < facts["rate_measured_hz"] <= 100


@pytest.mark.parametrize("rate", [12.5, 58.8, 60, 100])
def test_rate_from_timestamps_in_milliseconds_with_bursts_and_gaps(rate):
    time_s = np.arange(5000) / rate
    time_s[2500:] += 60
    time_s = np.sort(np.concatenate((time_s, time_s[1000:1200] + 0.2 / rate)))
    assert estimate_rate(time_s.round(3)) == pytest.approx(rate, rel=0.01)


def test_one_timestamp_tells_no_rate():
    with pytest.raises(ValueError, match="give rate_hz"):
        estimate_rate(np.array([1.0, 1.0]))


def test_timestamps_that_fit_no_rate_are_refused():
    time_s = np.cumsum(np.random.default_rng(0).exponential(0.02, 3000))
    with pytest.raises(ValueError, match="no single rate"):
        cut(recording(np.zeros(3000), time_s, 50), window_s=1, stride_s=1)


def test_half_the_recording_at_another_rate_is_refused():
    time_s = np.concatenate((np.arange(1000) / 100, 10 + np.arange(1000) / 25))
    with pytest.raises(ValueError, match="no single rate"):
        cut(recording(np.zeros(2000), time_s, 100), window_s=1, stride_s=1)


def test_a_wrong_nominal_rate_names_the_right_one():
    with pytest.raises(ValueError, match="rate_hz=50"):
        cut(recording(np.zeros(1000), np.arange(1000) / 50, 100), window_s=1, stride_s=1)


def test_timestamps_in_whole_seconds_are_refused():
    with pytest.raises(ValueError, match="no time column"):
        cut(recording(np.zeros(1000), np.arange(1000) // 50, 50), window_s=1, stride_s=1)


def test_bursts_and_packet_loss_pass_the_check():
    rng = np.random.default_rng(1)
    time_s = np.arange(4000) / 20
    lost = time_s[rng.random(4000) > 0.15]
    bursts = np.sort(np.concatenate((lost, (lost[:300, None] + [0.01, 0.02, 0.03]).ravel())))
    clean, facts = tidy(recording(np.zeros(len(bursts)), bursts, 20))
    check_rate(clean, facts)
    assert facts["burst_samples"] >= 900


# --- resampling ---------------------------------------------------------------------------------------------------


def test_equal_rates_pass_samples_through_in_spite_of_jitter():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 3)).astype(np.float32)
    time_s = np.arange(500) / 50 + np.concatenate(([0], rng.uniform(-0.4, 0.4, 499))) / 50
    grid, _ = resample(recording(values, time_s, 50), 50)
    np.testing.assert_array_equal(grid.values, values)
    np.testing.assert_allclose(grid.time_s, np.arange(500) / 50)


def test_a_small_hole_is_bridged_by_a_straight_line():
    time_s = np.array([0, 1, 2, 6, 7]) / 10
    grid, _ = resample(recording([0, 1, 2, 6, 7], time_s, 10), 10)
    np.testing.assert_allclose(grid.values[:, 0], np.arange(8), atol=1e-6)


def test_a_burst_is_thinned_to_the_samples_on_the_clock():
    regular = np.arange(100) / 20
    burst = regular[50] + np.array([0.01, 0.02])
    time_s = np.sort(np.concatenate((regular, burst)))
    grid, _ = resample(recording(time_s, time_s, 20), 20)
    np.testing.assert_allclose(grid.values[:, 0], regular, atol=1e-6)


@pytest.mark.parametrize(("rate_in", "rate"), [(100, 50), (100, 30), (58.8, 50), (200, 20), (20, 50)])
def test_slow_signals_keep_shape_and_time(rate_in, rate):
    time_s = np.arange(int(20 * rate_in)) / rate_in
    grid, facts = resample(recording(np.sin(2 * np.pi * time_s), time_s, rate_in), rate)
    settled = (grid.time_s > 1) & (grid.time_s < 19)
    error = np.abs(grid.values[:, 0] - np.sin(2 * np.pi * grid.time_s))
    assert error[settled].max() < 0.015
    assert grid.time_s[-1] > time_s[-1] - 1.01 / rate
    assert 0 < facts["resample_delay_s"] < 0.2


def test_the_stated_delay_is_the_delay():
    resampler = Resampler(100, 25)
    newest = [resampler.push(np.zeros((1, 1), np.float32), np.array([i / 100]))[1] for i in range(400)]
    lag = [i / 100 - times[-1] for i, times in enumerate(newest) if len(times)]
    assert max(lag[5:]) <= resampler.delay_s + 1e-9


@pytest.mark.parametrize("frequency", [26.0, 35.0, 47.0])
def test_what_would_alias_is_removed(frequency):
    time_s = np.arange(2000) / 100
    grid, _ = resample(recording(np.sin(2 * np.pi * frequency * time_s), time_s, 100), 50)
    assert np.abs(grid.values[50:-50]).max() < 0.0105


def test_a_constant_stays_from_the_first_sample_on():
    grid, _ = resample(recording(np.full(300, 0.7), np.arange(300) / 100, 100), 30)
    np.testing.assert_allclose(grid.values, 0.7, rtol=1e-6)


def test_nothing_is_interpolated_over_a_gap():
    time_s = np.concatenate((np.arange(100), np.arange(300, 400))) / 100
    grid, facts = resample(recording(np.repeat([0.0, 1.0], 100), time_s, 100), 50)
    assert facts["stretches"] == 2
    np.testing.assert_allclose(np.unique(grid.values.round(5)), [0, 1])
    assert not ((grid.time_s > 1.0) & (grid.time_s < 3.0)).any()


def test_labels_follow_the_nearest_sample():
    labels = np.repeat([0, 1], 50)
    grid, _ = resample(recording(np.zeros(100), np.arange(100) / 100, 100, labels=labels), 30)
    expected = [labels[min(round(t * 100 - 1e-9), 99)] for t in grid.time_s]
    assert grid.labels.tolist() == expected


# --- windows ------------------------------------------------------------------------------------------------------


def slow_label(piece, rule):
    if rule == "centre":
        return piece[len(piece) // 2]
    if rule == "whole":
        return piece[0] if len(set(piece)) == 1 else -1
    counts = {label: piece.count(label) for label in set(piece)}
    most = max(counts.values())
    tied = sorted(label for label, count in counts.items() if count == most)
    return next((label for label in tied if label >= 0), -1)


@pytest.mark.parametrize("rule", LABEL_RULES)
def test_label_rules_agree_with_a_slow_reference(rule):
    rng = np.random.default_rng(3)
    labels = np.repeat(rng.integers(-1, 4, 60), rng.integers(1, 9, 60))
    first = np.arange(0, len(labels) - 10, 3)
    expected = [slow_label(labels[i : i + 10].tolist(), rule) for i in first]
    assert labels_of(labels, first, 10, rule).tolist() == expected
    assert set(expected) > {-1}


def test_windows_are_the_samples_they_say():
    values = np.arange(100.0)
    windows = cut(recording(values, 5 + np.arange(100) / 10, 10), window_s=2, stride_s=0.5)
    assert windows.x.shape == (17, 1, 20)
    assert windows.x.flags.c_contiguous
    for x, time_s in zip(windows.x, windows.time_s, strict=True):
        first = round((time_s - 5) * 10)
        np.testing.assert_array_equal(x[0], values[first : first + 20])
    assert (windows.label == -1).all()
    assert windows.wear.all()
    assert not windows.gap_before_s.any()


def test_windows_never_span_a_gap_and_tell_it():
    time_s = np.concatenate((np.arange(35), 100 + np.arange(5), 200 + np.arange(30))) / 10
    windows = cut(recording(np.zeros(70), time_s, 10), window_s=1, stride_s=1)
    assert windows.time_s.tolist() == [0, 1, 2, 20, 21, 22]
    # The five samples at 10 s fill no window: the pause is from the end of the last window to the next one.
    assert windows.gap_before_s.tolist() == [0, 0, 0, 17, 0, 0]


def test_max_gap_decides_what_is_a_gap():
    time_s = np.concatenate((np.arange(20), 28 + np.arange(20))) / 10
    assert len(cut(recording(np.zeros(40), time_s, 10), window_s=4, stride_s=1)) == 0
    assert len(cut(recording(np.zeros(40), time_s, 10), window_s=4, stride_s=1, max_gap_s=1)) == 1


def test_a_stride_longer_than_the_window_skips():
    windows = cut(recording(np.arange(50.0), np.arange(50), 1), window_s=3, stride_s=10)
    assert windows.x[:, 0, 0].tolist() == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("rule", ["mean", ""])
def test_an_unknown_label_rule_lists_the_known(rule):
    with pytest.raises(ValueError, match="majority, whole, centre"):
        cut(recording(np.zeros(50), np.arange(50), 1), window_s=3, stride_s=1, label_rule=rule)


def test_windows_of_no_length_are_refused():
    with pytest.raises(ValueError, match="above 0"):
        cut(recording(np.zeros(50), np.arange(50), 1), window_s=0, stride_s=1)


@pytest.mark.parametrize(("rate_in", "rate"), [(50, 50), (100, 50), (100, 30), (20, 50), (58.8, 50)])
@pytest.mark.parametrize("chunk", [1, 7, 64, "random"])
def test_any_chunking_gives_the_windows_of_the_whole(rate_in, rate, chunk):
    whole = messy(rate_in)
    settings = {"window_s": 30 / rate, "stride_s": 11 / rate, "rate_hz": rate}
    expected = cut(whole, **settings)
    live = Windower(rate_in_hz=rate_in, channels=3, **settings)
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
    assert live.facts["nan_samples"] == expected.facts["nan_samples"] == 3


def test_the_live_windower_calibrates_as_the_pipeline_does():
    whole = messy(100)
    calibration = Calibration(scale=(1.02, 0.98, 1.01), offset=(0.05, -0.02, 0.01))
    settings = {"window_s": 1.0, "stride_s": 0.5, "rate_hz": 50.0}
    live = Windower(rate_in_hz=100, channels=3, calibration=calibration, **settings)
    pieces = [live.push(whole.values, whole.time_s).x, live.flush().x]
    np.testing.assert_array_equal(np.concatenate(pieces), prepare(whole, calibration=calibration, **settings).x)


def test_live_samples_of_the_wrong_shape_are_refused():
    live = Windower(rate_in_hz=10, rate_hz=10, channels=3, window_s=1, stride_s=1)
    with pytest.raises(ValueError, match=r"samples \(n, 3\)"):
        live.push(np.zeros((5, 2)), np.arange(5))


# --- joining ------------------------------------------------------------------------------------------------------


def part(first, count, start):
    return Windows(
        x=np.full((count, 1, 2), first, np.float32),
        time_s=np.arange(count, dtype=float) * 2,
        label=np.zeros(count, int),
        gap_before_s=np.zeros(count),
        window_s=2.0,
        stride_s=2.0,
        start=start,
        facts={"samples": 2 * count, "rate_hz": 1.0},
    )


def test_join_puts_recordings_in_time_order_with_the_pause_between():
    morning = datetime(2024, 5, 1, 8, tzinfo=UTC)
    joined = join([part(2, 2, morning + timedelta(minutes=5)), part(1, 3, morning)])
    assert joined.x[:, 0, 0].tolist() == [1, 1, 1, 2, 2]
    assert joined.time_s.tolist() == [0, 2, 4, 300, 302]
    assert joined.gap_before_s.tolist() == [0, 0, 0, 294, 0]
    assert joined.start == morning
    assert joined.facts == {"recordings": 2, "samples": 10, "rate_hz": 1.0}


def test_join_without_start_times_keeps_the_order_and_assumes_a_pause():
    joined = join([part(1, 2, None), part(2, 0, None), part(3, 1, None)], unknown_gap_s=60)
    assert joined.time_s.tolist() == [0, 2, 64]
    assert joined.gap_before_s.tolist() == [0, 0, 60]


def test_join_refuses_unlike_windows_and_nothing():
    with pytest.raises(ValueError, match="cut them alike"):
        join([part(1, 2, None), replace(part(1, 2, None), stride_s=1.0)])
    with pytest.raises(ValueError, match="at least one"):
        join([])


# --- the pipeline -------------------------------------------------------------------------------------------------


def test_prepare_brings_channels_units_and_facts():
    whole = recording(np.ones((400, 3)), np.arange(400) / 100, 100, facts={"file": "a.csv"})
    windows = prepare(whole, rate_hz=50, window_s=1, stride_s=1, channels=("z", "x"), unit="m/s^2")
    assert windows.x.shape == (4, 2, 50)
    np.testing.assert_allclose(windows.x, 9.80665, rtol=1e-6)
    for name in ("file", "gaps", "samples", "saturated_share", "resample_delay_s", "windows"):
        assert name in windows.facts


def test_prepare_equals_cut_without_the_extras():
    whole = messy(100)
    ours, theirs = (f(whole, rate_hz=50.0, window_s=1.0, stride_s=0.5) for f in (prepare, cut))
    np.testing.assert_array_equal(ours.x, theirs.x)
    np.testing.assert_array_equal(ours.gap_before_s, theirs.gap_before_s)


def test_feature_vectors_pass_untouched():
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
    with pytest.raises(ValueError, match="'7' has no stretch of 1 s"):
        prepare(short, rate_hz=50, window_s=1, stride_s=1, allow_empty=False)
    with pytest.raises(ValueError, match="no samples"):
        prepare(recording(np.zeros((0, 3)), [], 50), rate_hz=50, window_s=1, stride_s=1)


def test_a_rate_of_zero_is_refused():
    with pytest.raises(ValueError, match="above 0 Hz"):
        cut(recording(np.zeros(50), np.arange(50), 0), window_s=3, stride_s=1)


def test_importing_the_steps_does_not_import_scipy():
    code = "import sys, sight.signal; raise SystemExit('scipy' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_recording_of_nan_alone_gives_no_windows():
    nothing = recording(np.full((100, 3), np.nan), np.arange(100) / 50, 50)
    windows = prepare(nothing, rate_hz=25, window_s=1, stride_s=1)
    assert len(windows) == 0
    assert windows.facts["nan_samples"] == 100
