"""Windows, their labels, and joining of recordings."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from sight.recordings.signal import join, prepare
from sight.recordings.signal.windows import LABEL_RULES, label_windows
from sight.types import RecordingFacts, Windows
from tests.helpers.signals import recording


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
    assert label_windows(labels, first, 10, rule).tolist() == expected
    assert set(expected) > {-1}


def test_windows_contain_the_samples_at_their_times():
    values = np.arange(100.0)
    windows = prepare(recording(values, 5 + np.arange(100) / 10, 10), window_s=2, stride_s=0.5)
    assert windows.x.shape == (17, 1, 20)
    assert windows.x.flags.c_contiguous
    for x, time_s in zip(windows.x, windows.time_s, strict=True):
        first = round((time_s - 5) * 10)
        np.testing.assert_array_equal(x[0], values[first : first + 20])
    assert (windows.label == -1).all()
    assert windows.wear.all()
    assert not windows.gap_before_s.any()


def test_windows_never_span_a_gap():
    time_s = np.concatenate((np.arange(35), 100 + np.arange(5), 200 + np.arange(30))) / 10
    windows = prepare(recording(np.zeros(70), time_s, 10), window_s=1, stride_s=1)
    assert windows.time_s.tolist() == [0, 1, 2, 20, 21, 22]
    # The five samples at 10 s fill no window: the pause is from the end of the last window to the next one.
    assert windows.gap_before_s.tolist() == [0, 0, 0, 17, 0, 0]


def test_max_gap_decides_what_is_a_gap():
    time_s = np.concatenate((np.arange(20), 28 + np.arange(20))) / 10
    assert len(prepare(recording(np.zeros(40), time_s, 10), window_s=4, stride_s=1)) == 0
    assert len(prepare(recording(np.zeros(40), time_s, 10), window_s=4, stride_s=1, max_gap_s=1)) == 1


def test_a_stride_longer_than_the_window_skips():
    windows = prepare(recording(np.arange(50.0), np.arange(50), 1), window_s=3, stride_s=10)
    assert windows.x[:, 0, 0].tolist() == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("rule", ["mean", ""])
def test_unknown_label_rule(rule):
    with pytest.raises(ValueError, match="majority, whole, centre"):
        prepare(recording(np.zeros(50), np.arange(50), 1), window_s=3, stride_s=1, label_rule=rule)


def test_windows_without_length_are_rejected():
    with pytest.raises(ValueError, match="above 0"):
        prepare(recording(np.zeros(50), np.arange(50), 1), window_s=0, stride_s=1)


def part(first, count, start):
    return Windows(
        x=np.full((count, 1, 2), first, np.float32),
        time_s=np.arange(count, dtype=float) * 2,
        label=np.zeros(count, int),
        gap_before_s=np.zeros(count),
        window_s=2.0,
        stride_s=2.0,
        start=start,
        facts=RecordingFacts(samples=2 * count, rate_hz=1.0),
    )


def test_join_sorts_recordings_by_start_time():
    morning = datetime(2024, 5, 1, 8, tzinfo=UTC)
    joined = join([part(2, 2, morning + timedelta(minutes=5)), part(1, 3, morning)])
    assert joined.x[:, 0, 0].tolist() == [1, 1, 1, 2, 2]
    assert joined.time_s.tolist() == [0, 2, 4, 300, 302]
    assert joined.gap_before_s.tolist() == [0, 0, 0, 294, 0]
    assert joined.start == morning
    assert joined.facts == RecordingFacts(recordings=2, samples=10, rate_hz=1.0)


def test_join_without_start_times_keeps_the_order():
    joined = join([part(1, 2, None), part(2, 0, None), part(3, 1, None)], unknown_gap_s=60)
    assert joined.time_s.tolist() == [0, 2, 64]
    assert joined.gap_before_s.tolist() == [0, 0, 60]


def test_join_of_recordings_with_and_without_start_times():
    morning = datetime(2024, 5, 1, 8, tzinfo=UTC)
    parts = [part(1, 2, morning), part(2, 1, None), part(3, 1, morning + timedelta(minutes=5))]
    joined = join(parts, unknown_gap_s=60)
    assert joined.time_s.tolist() == [0, 2, 64, 300]
    assert joined.gap_before_s.tolist() == [0, 0, 60, 234]
    assert joined.start == morning
    undated_first = join([parts[1], parts[2], parts[0]], unknown_gap_s=60)
    assert undated_first.time_s.tolist() == [0, 62, 124, 126]
    assert undated_first.start is None


def test_join_on_one_clock_keeps_all_times():
    later = part(2, 2, None)
    joined = join([part(1, 2, None), replace(later, time_s=later.time_s + 50)], one_clock=True)
    assert joined.time_s.tolist() == [0, 2, 50, 52]
    assert joined.gap_before_s.tolist() == [0, 0, 46, 0]


def test_join_rejects_different_windows_and_empty_input():
    with pytest.raises(ValueError, match="cut them alike"):
        join([part(1, 2, None), replace(part(1, 2, None), stride_s=1.0)])
    with pytest.raises(ValueError, match="at least one"):
        join([])
