"""Segments, and segment errors against a literal implementation that handles one class and one pair at a time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sight.results.segments import EVENT_KINDS, FRAME_KINDS, find_segments, segment_errors

K = 3


@st.composite
def streams(draw):
    n = draw(st.integers(0, 30))
    truth = draw(st.lists(st.sampled_from([-1, 0, 0, 1, 1, 2]), min_size=n, max_size=n))
    predicted = draw(st.lists(st.integers(0, K - 1), min_size=n, max_size=n))
    gap = draw(st.lists(st.sampled_from([0.0] * 8 + [5.0]), min_size=n, max_size=n))
    return np.array(truth, dtype=int), np.array(predicted, dtype=int), np.array(gap)


def stretches(truth, gap):
    """Return lists of neighbouring labelled windows."""
    items = []
    for i, label in enumerate(truth):
        if label < 0:
            continue
        if i and truth[i - 1] >= 0 and gap[i] == 0:
            items[-1].append(i)
        else:
            items.append([i])
    return items


def events_of(active, stretch):
    """Return lists of neighbouring windows in which a class is active."""
    items = []
    for i in stretch:
        if not active[i]:
            continue
        if items and items[-1][-1] == i - 1:
            items[-1].append(i)
        else:
            items.append([i])
    return items


def binary_segments(true_k, predicted_k, stretch):
    """Return runs of equal outcome for one class, as in Ward et al.: outcome and windows."""
    names = {(True, True): "TP", (True, False): "FN", (False, True): "FP", (False, False): "TN"}
    items = []
    for i in stretch:
        outcome = names[bool(true_k[i]), bool(predicted_k[i])]
        if items and items[-1][0] == outcome:
            items[-1][1].append(i)
        else:
            items.append((outcome, [i]))
    return items


def reference_errors(truth, predicted, gap):
    frames = {(k, kind): 0 for k in range(K) for kind in FRAME_KINDS}
    events = {(k, kind): 0 for k in range(K) for kind in EVENT_KINDS}
    kinds = {
        "FN": {
            (False, False): "deletion",
            (True, True): "fragmentation",
            (False, True): "underfill_start",
            (True, False): "underfill_end",
        },
        "FP": {
            (False, False): "insertion",
            (True, True): "merge",
            (False, True): "overfill_start",
            (True, False): "overfill_end",
        },
    }
    for k in range(K):
        for stretch in stretches(truth, gap):
            true_k, predicted_k = truth == k, predicted == k
            runs = binary_segments(true_k, predicted_k, stretch)
            for i, (outcome, members) in enumerate(runs):
                before = i > 0 and runs[i - 1][0] == "TP"
                after = i + 1 < len(runs) and runs[i + 1][0] == "TP"
                if outcome == "TP":
                    frames[k, "correct"] += len(members)
                elif outcome in kinds:
                    frames[k, kinds[outcome][before, after]] += len(members)
            true_events, predicted_events = events_of(true_k, stretch), events_of(predicted_k, stretch)
            overlap = [[bool(set(a) & set(b)) for b in predicted_events] for a in true_events]
            for a in range(len(true_events)):
                matches = [b for b in range(len(predicted_events)) if overlap[a][b]]
                shared = any(sum(overlap[c][b] for c in range(len(true_events))) > 1 for b in matches)
                kind = {
                    (0, False): "deleted",
                    (1, False): "correct",
                    (1, True): "merged",
                    (2, False): "fragmented",
                    (2, True): "fragmented_merged",
                }
                events[k, kind[min(len(matches), 2), shared]] += 1
            for b in range(len(predicted_events)):
                matches = [a for a in range(len(true_events)) if overlap[a][b]]
                shared = any(sum(overlap[a]) > 1 for a in matches)
                kind = {
                    (0, False): "inserted",
                    (1, False): None,
                    (1, True): "fragmenting",
                    (2, False): "merging",
                    (2, True): "fragmenting_merging",
                }
                if kind[min(len(matches), 2), shared]:
                    events[k, kind[min(len(matches), 2), shared]] += 1
    return (
        [[frames[k, kind] for kind in FRAME_KINDS] for k in range(K)],
        [[events[k, kind] for kind in EVENT_KINDS] for k in range(K)],
    )


def test_a_clock_that_is_set_back_ends_a_segment_and_a_short_stride_does_not():
    labels, none = np.zeros(6, int), np.zeros(6)
    whole = find_segments(labels, np.arange(6) / 4, 0.5, 0.25, none)
    assert (whole.start_s.tolist(), whole.end_s.tolist(), whole.windows.tolist()) == ([0], [1.75], [6])
    times = np.array([10.0, 10.25, 10.5, 3.0, 3.25, 3.5])
    parts = find_segments(labels, times, 0.5, 0.25, none)
    assert (parts.start_s.tolist(), parts.end_s.tolist()) == ([10, 3], [11, 4])


@given(streams())
@settings(max_examples=200, deadline=None)
def test_errors_agree_with_the_literal_scheme(stream):
    truth, predicted, gap = stream
    errors = segment_errors(truth, predicted, K, gap)
    frames, events = reference_errors(truth, predicted, gap)
    np.testing.assert_array_equal(errors.frames, frames)
    np.testing.assert_array_equal(errors.events, events)


@pytest.mark.parametrize(
    ("truth", "predicted", "frames", "events"),
    [
        ("aabbbbaa", "aabbbbaa", {}, {"correct": 1}),
        ("aabbbbaa", "aaaaaaaa", {"deletion": 4}, {"deleted": 1}),
        ("aaaaaaaa", "aaabbaaa", {"insertion": 2}, {"inserted": 1}),
        ("aabbbbaa", "aababbaa", {"fragmentation": 1}, {"fragmented": 1, "fragmenting": 2}),
        ("abbaabba", "abbbbbba", {"merge": 2}, {"merged": 2, "merging": 1}),
        ("aabbbbaa", "aaabbaaa", {"underfill_start": 1, "underfill_end": 1}, {"correct": 1}),
        ("aaabbaaa", "abbbbbba", {"overfill_start": 2, "overfill_end": 2}, {"correct": 1}),
        (
            "abbabbba",
            "abbbbaba",
            {"merge": 1, "fragmentation": 1},
            {"fragmented_merged": 1, "merged": 1, "fragmenting_merging": 1, "fragmenting": 1},
        ),
    ],
)
def test_each_kind_of_error_by_hand_for_class_b(truth, predicted, frames, events):
    errors = segment_errors(np.array([*map("ab".index, truth)]), np.array([*map("ab".index, predicted)]), 2)
    named = dict(zip(FRAME_KINDS, errors.frames[1].tolist(), strict=True))
    assert {kind: n for kind, n in named.items() if n and kind != "correct"} == frames
    named = dict(zip(EVENT_KINDS, errors.events[1].tolist(), strict=True))
    assert {kind: n for kind, n in named.items() if n} == events


def test_gaps_and_unlabelled_windows_end_segments():
    truth, predicted = np.array([0, 0, 0, 0]), np.array([0, 0, 0, 0])
    assert segment_errors(truth, predicted, 1, np.array([0, 0, 9, 0])).events[0, 0] == 2
    assert segment_errors(np.array([0, -1, 0, 0]), predicted, 1).events[0, 0] == 2


def test_summary_by_hand():
    summary = segment_errors(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 1, 0, 0, 0, 1]), 2).summary()
    assert summary["frames_underfill"] == pytest.approx(1 / 6)
    assert summary["frames_insertion"] == pytest.approx(1 / 6)
    assert summary["frames_overfill"] == pytest.approx(1 / 6)
    assert summary["events_fragmented"] == 1
    shares = ("correct", "deletion", "fragmentation", "underfill")
    assert sum(summary[f"frames_{kind}"] for kind in shares) == pytest.approx(1)


def test_summary_of_an_empty_stream():
    summary = segment_errors(np.zeros(0, int), np.zeros(0, int), 2).summary()
    assert set(summary.values()) == {0}


def test_a_million_windows_take_seconds():
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.integers(0, 8, size=50_000), 20)
    predicted = np.where(rng.random(1_000_000) < 0.3, rng.integers(0, 8, size=1_000_000), truth)
    begin = time.perf_counter()
    errors = segment_errors(truth, predicted, 8, np.zeros(1_000_000))
    assert time.perf_counter() - begin < 5
    assert errors.frames[:, :5].sum() == 1_000_000


@given(streams())
@settings(max_examples=100, deadline=None)
def test_segments_cover_the_stream_without_overlap(stream):
    labels, _, gap = stream
    time_s = np.cumsum(1 + np.where(gap > 0, gap + 1, 0))  # windows of 2 s each second; a gap is missing time
    table = find_segments(labels, time_s, 2.0, 1.0, gap)
    assert table.windows.sum() == len(labels)
    assert (table.end_s > table.start_s).all()
    np.testing.assert_array_equal(np.repeat(table.label, table.windows), labels)
    first = np.cumsum(table.windows) - table.windows
    for i in range(1, len(first)):
        if gap[first[i]] == 0:
            assert table.end_s[i - 1] == table.start_s[i]
            assert table.label[i - 1] != table.label[i]
        else:
            assert table.start_s[i] - table.end_s[i - 1] == pytest.approx(gap[first[i]])
    if len(labels):
        assert table.end_s[-1] == time_s[-1] + 2
