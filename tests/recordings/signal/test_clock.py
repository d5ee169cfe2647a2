"""Clock and sampling rate against hand-computed values."""

from __future__ import annotations

import numpy as np
import pytest

from sight.recordings.signal import prepare
from sight.recordings.signal.clock import RESTART_S, Clock, drop_invalid
from sight.recordings.signal.sampling_rate import check_rate, estimate_rate, interval_facts
from tests.helpers.signals import recording


def cleaned(whole):
    """Return the valid samples of a recording and the facts about its clock."""
    valid, facts = drop_invalid(whole)
    return valid, facts | interval_facts(valid.time_s, valid.rate_hz)


def test_dropped_samples_are_counted():
    time_s = [0.0, 0.1, 0.1, 0.05, 0.2, np.nan, 0.3, 5.0]
    values = np.arange(8.0)
    values[6] = np.nan
    clean, facts = cleaned(recording(values, time_s, 10.0, labels=np.arange(8)))
    assert clean.time_s.tolist() == [0.0, 0.1, 0.2, 5.0]
    assert clean.labels.tolist() == [0, 1, 4, 7]
    assert (facts["duplicate_samples"], facts["backward_samples"], facts["nan_samples"]) == (1, 1, 2)
    assert (facts["gaps"], facts["gap_longest_s"]) == (1, pytest.approx(4.8))


# --- clocks that go back ----------------------------------------------------------------------------------------------


def set_back_times(rate_hz=10.0):
    """Return times of 60 s, one sample far in the future, and 60 s more."""
    steady = np.arange(1200) / rate_hz
    return np.concatenate((steady[:600], [1e9], steady[600:]))


def test_one_time_in_the_future_costs_ten_seconds():
    time_s = set_back_times()
    clean, facts = cleaned(recording(np.zeros(1201), time_s, 10.0, labels=np.arange(1201)))
    lost = np.setdiff1d(time_s, clean.time_s)
    assert lost.min() == 60.0
    assert RESTART_S <= lost.max() - lost.min() + 0.1 <= RESTART_S + 0.2
    assert (facts["samples"], facts["backward_samples"]) == (1201 - len(lost), len(lost))
    assert (np.diff(clean.time_s) < 0).sum() == 1
    assert clean.time_s[-1] == time_s[-1]


@pytest.mark.parametrize("size", [1, 7, 100, 5000])
def test_what_is_kept_does_not_depend_on_the_chunks(size):
    rng = np.random.default_rng(0)
    time_s = np.concatenate([set_back_times() + start for start in (0, 5000, -500, 9000)])
    time_s[rng.random(len(time_s)) < 0.02] = np.nan
    late = rng.integers(1, len(time_s), 40)
    time_s[late] = time_s[late - 1] - 0.3
    values = np.zeros((len(time_s), 1))
    whole = Clock(0.5)
    expected = whole.push(values, time_s)
    clock, kept, begins = Clock(0.5), [], []
    for start in range(0, len(time_s), size):
        clock = Clock(0.5).restore(clock.state())
        part = clock.push(values[start : start + size], time_s[start : start + size])
        kept.append(part[0])
        begins.append(part[1])
    np.testing.assert_array_equal(np.concatenate(kept), expected[0])
    np.testing.assert_array_equal(np.concatenate(begins), expected[1])
    assert clock.facts == whole.facts
    assert sum(whole.facts.values()) == len(time_s)
    assert (np.diff(time_s[expected[0]]) < 0).sum() >= 4


def test_late_and_repeated_samples_start_no_stretch():
    steady = np.arange(3000) / 10
    late = np.concatenate((steady[:1000], steady[900:990], steady[1000:]))  # nine seconds again
    paused = np.concatenate((steady[:1000], steady[1500:2000]))
    again = np.concatenate((paused, paused[200:], paused[200:]))  # over a gap, two minutes twice again
    stuck = np.concatenate((steady[:1000], np.full(500, 50.0), steady[1000:]))
    apart = np.concatenate((steady[:1000], np.arange(0, 90, 3.0), steady[1000:]))  # not steady
    for time_s, kept in ((late, steady), (stuck, steady), (apart, steady), (again, paused)):
        clean, facts = cleaned(recording(np.zeros(len(time_s)), time_s, 10.0))
        np.testing.assert_array_equal(clean.time_s, kept)
        assert facts["backward_samples"] + facts["duplicate_samples"] == len(time_s) - len(kept)


def test_a_valid_recording_is_not_copied():
    whole = recording(np.zeros((100, 3)), np.arange(100) / 50, 50)
    assert drop_invalid(whole)[0].values is whole.values


def test_small_jumps_between_blocks_are_not_gaps():
    time_s = np.arange(1200) * 0.01 + 0.015 * (np.arange(1200) // 120)
    _, facts = cleaned(recording(np.zeros((1200, 3)), time_s, 100))
    assert facts["gaps"] == 0
    assert 98 < facts["rate_measured_hz"] <= 100


@pytest.mark.parametrize("rate", [12.5, 58.8, 60, 100])
def test_rate_estimate_with_bursts_gaps_and_rounded_times(rate):
    time_s = np.arange(5000) / rate
    time_s[2500:] += 60
    time_s = np.sort(np.concatenate((time_s, time_s[1000:1200] + 0.2 / rate)))
    assert estimate_rate(time_s.round(3)) == pytest.approx(rate, rel=0.01)


def test_rate_estimate_needs_two_timestamps():
    with pytest.raises(ValueError, match="--rate"):
        estimate_rate(np.array([1.0, 1.0]))


def test_decreasing_timestamps_are_named():
    with pytest.raises(ValueError, match="decreasing"):
        estimate_rate(np.array([2.0, 1.0, 0.0]))


def test_intervals_up_to_half_as_long_again_count_for_the_rate():
    assert estimate_rate(np.array([0.0, 1.0, 2.0, 3.5])) == pytest.approx(3 / 3.5)
    assert estimate_rate(np.array([0.0, 1.0, 2.0, 3.6])) == 1


def test_irregular_timestamps_are_rejected():
    time_s = np.cumsum(np.random.default_rng(0).exponential(0.02, 3000))
    with pytest.raises(ValueError, match="no single rate"):
        prepare(recording(np.zeros(3000), time_s, 50), window_s=1, stride_s=1)


def test_two_rates_in_one_recording_are_rejected():
    time_s = np.concatenate((np.arange(1000) / 100, 10 + np.arange(1000) / 25))
    with pytest.raises(ValueError, match="no single rate"):
        prepare(recording(np.zeros(2000), time_s, 100), window_s=1, stride_s=1)


def test_wrong_nominal_rate_names_the_measured_one():
    with pytest.raises(ValueError, match="--rate 50"):
        prepare(recording(np.zeros(1000), np.arange(1000) / 50, 100), window_s=1, stride_s=1)


def test_timestamps_in_whole_seconds_are_rejected():
    with pytest.raises(ValueError, match=r"--rate.*--columns time="):
        prepare(recording(np.zeros(1000), np.arange(1000) // 50, 50), window_s=1, stride_s=1)


def test_bursts_and_packet_loss_are_accepted():
    rng = np.random.default_rng(1)
    time_s = np.arange(4000) / 20
    lost = time_s[rng.random(4000) > 0.15]
    bursts = np.sort(np.concatenate((lost, (lost[:300, None] + [0.01, 0.02, 0.03]).ravel())))
    clean, facts = cleaned(recording(np.zeros(len(bursts)), bursts, 20))
    check_rate(clean, facts)
    assert facts["burst_samples"] >= 900
