"""Segment and event errors against a literal transcription that looks at one class and one pair at a time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sight.segments import EVENT_KINDS, FRAME_KINDS, SegmentErrors, segment_errors, segments

K = 3


@st.composite
def streams(draw):
    n = draw(st.integers(0, 30))
    truth = draw(st.lists(st.sampled_from([-1, 0, 0, 1, 1, 2]), min_size=n, max_size=n))
    answer = draw(st.lists(st.integers(0, K - 1), min_size=n, max_size=n))
    gap = draw(st.lists(st.sampled_from([0.0] * 8 + [5.0]), min_size=n, max_size=n))
    return np.array(truth, dtype=int), np.array(answer, dtype=int), np.array(gap)


def stretches(truth, gap):
    """Lists of neighbouring labelled windows."""
    found = []
    for i, label in enumerate(truth):
        if label < 0:
            continue
        if i and truth[i - 1] >= 0 and gap[i] == 0:
            found[-1].append(i)
        else:
            found.append([i])
    return found


def events_of(active, stretch):
    """Lists of neighbouring windows in which a class is active."""
    found = []
    for i in stretch:
        if not active[i]:
            continue
        if found and found[-1][-1] == i - 1:
            found[-1].append(i)
        else:
            found.append([i])
    return found


def binary_segments(true, said, stretch):
    """Runs in which neither truth nor answer changes, as in Ward et al.: outcome and windows."""
    names = {(True, True): "TP", (True, False): "FN", (False, True): "FP", (False, False): "TN"}
    found = []
    for i in stretch:
        outcome = names[bool(true[i]), bool(said[i])]
        if found and found[-1][0] == outcome:
            found[-1][1].append(i)
        else:
            found.append((outcome, [i]))
    return found


def slow_errors(truth, answer, gap):
    frames = {(k, kind): 0 for k in range(K) for kind in FRAME_KINDS}
    events = {(k, kind): 0 for k in range(K) for kind in EVENT_KINDS}
    words = {
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
            true, said = truth == k, answer == k
            runs = binary_segments(true, said, stretch)
            for place, (outcome, members) in enumerate(runs):
                before = place > 0 and runs[place - 1][0] == "TP"
                after = place + 1 < len(runs) and runs[place + 1][0] == "TP"
                if outcome == "TP":
                    frames[k, "correct"] += len(members)
                elif outcome in words:
                    frames[k, words[outcome][before, after]] += len(members)
            real, given_ = events_of(true, stretch), events_of(said, stretch)
            meets = [[bool(set(a) & set(b)) for b in given_] for a in real]
            for a in range(len(real)):
                mine = [b for b in range(len(given_)) if meets[a][b]]
                shared = any(sum(meets[c][b] for c in range(len(real))) > 1 for b in mine)
                kind = {
                    (0, False): "deleted",
                    (1, False): "correct",
                    (1, True): "merged",
                    (2, False): "fragmented",
                    (2, True): "fragmented_merged",
                }
                events[k, kind[min(len(mine), 2), shared]] += 1
            for b in range(len(given_)):
                mine = [a for a in range(len(real)) if meets[a][b]]
                shared = any(sum(meets[a]) > 1 for a in mine)
                kind = {
                    (0, False): "inserted",
                    (1, False): None,
                    (1, True): "fragmenting",
                    (2, False): "merging",
                    (2, True): "fragmenting_merging",
                }
                if kind[min(len(mine), 2), shared]:
                    events[k, kind[min(len(mine), 2), shared]] += 1
    return (
        [[frames[k, kind] for kind in FRAME_KINDS] for k in range(K)],
        [[events[k, kind] for kind in EVENT_KINDS] for k in range(K)],
    )


@given(streams())
@settings(max_examples=400, deadline=None)
def test_errors_agree_with_the_literal_scheme(stream):
    truth, answer, gap = stream
    found = segment_errors(truth, answer, K, gap)
    frames, events = slow_errors(truth, answer, gap)
    np.testing.assert_array_equal(found.frames, frames)
    np.testing.assert_array_equal(found.events, events)


@pytest.mark.parametrize(
    ("truth", "answer", "frames", "events"),
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
def test_each_kind_by_hand_for_class_b(truth, answer, frames, events):
    found = segment_errors(np.array([*map("ab".index, truth)]), np.array([*map("ab".index, answer)]), 2)
    named = dict(zip(FRAME_KINDS, found.frames[1].tolist(), strict=True))
    assert {kind: n for kind, n in named.items() if n and kind != "correct"} == frames
    named = dict(zip(EVENT_KINDS, found.events[1].tolist(), strict=True))
    assert {kind: n for kind, n in named.items() if n} == events


def test_a_gap_ends_events():
    truth, answer = np.array([0, 0, 0, 0]), np.array([0, 0, 0, 0])
    assert segment_errors(truth, answer, 1, np.array([0, 0, 9, 0])).events[0, 0] == 2
    assert segment_errors(np.array([0, -1, 0, 0]), answer, 1).events[0, 0] == 2


def test_rates_and_summary_by_hand():
    found = segment_errors(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 1, 0, 0, 0, 1]), 2)
    rates = dict(zip(FRAME_KINDS, found.rates()[0].tolist(), strict=True))
    assert rates["correct"] == pytest.approx(3 / 4)
    assert rates["fragmentation"] == pytest.approx(1 / 4)
    assert rates["overfill_end"] == pytest.approx(1 / 2)
    summary = found.summary()
    assert summary["frames_underfill"] == pytest.approx(1 / 6)
    assert summary["frames_insertion"] == pytest.approx(1 / 6)
    assert summary["events_fragmented"] == 1
    assert summary["frames_correct"] + summary["frames_deletion"] + summary["frames_fragmentation"] + summary[
        "frames_underfill"
    ] == pytest.approx(1)


def test_rates_of_nothing_are_zero():
    nothing = segment_errors(np.zeros(0, int), np.zeros(0, int), 2)
    assert isinstance(nothing, SegmentErrors)
    assert nothing.rates().sum() == 0
    assert nothing.summary()["frames_correct"] == 0


def test_a_million_windows_in_seconds():
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.integers(0, 8, size=50_000), 20)
    answer = np.where(rng.random(1_000_000) < 0.3, rng.integers(0, 8, size=1_000_000), truth)
    begin = time.perf_counter()
    found = segment_errors(truth, answer, 8, np.zeros(1_000_000))
    assert time.perf_counter() - begin < 5
    assert found.frames[:, :5].sum() == 1_000_000


@given(streams())
@settings(max_examples=100, deadline=None)
def test_segments_tile_the_stream(stream):
    labels, _, gap = stream
    time_s = np.cumsum(1 + np.where(gap > 0, gap + 1, 0))  # windows of 2 s each second; a gap is what is missing
    table = segments(labels, time_s, 2.0, 1.0, gap)
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
