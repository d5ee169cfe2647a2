"""Diaries in every form people write them, to labels computed by hand or sample by sample."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sight.annotations import diary_labels, read_names
from sight.types import Windows

CLASSES = ("Sitting", "Walking", "Running")
START = datetime(2025, 3, 1, 9, 0, tzinfo=UTC)


def make_windows(n=10, window_s=2.0, stride_s=2.0, start=START):
    return Windows(
        x=np.zeros((n, 1, 1), np.float32),
        time_s=np.arange(n) * stride_s,
        label=np.full(n, -1),
        gap_before_s=np.zeros(n),
        window_s=window_s,
        stride_s=stride_s,
        start=start,
    )


@pytest.fixture
def write(tmp_path):
    def put(text, name="diary.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_text(text, encoding=encoding)
        return path

    return put


FORMS = {
    "seconds": "start,end,label\n0,4,sitting\n6,10,WALKING\n",
    "clock with zone": "start,end,label\n2025-03-01T09:00:00Z,2025-03-01T09:00:04Z,sitting\n"
    "2025-03-01T10:00:06+01:00,2025-03-01T10:00:10+01:00,walking\n",
    "clock without zone": "start,end,label\n2025-03-01 09:00:00,2025-03-01 09:00:04,sitting\n"
    "2025-03-01 09:00:06,2025-03-01 09:00:10,walking\n",
    "changes": "time,label\n0,sitting\n4,\n6,walking\n10,\n",
    "semicolons, other columns, other order": "label;note;end;start\nWalking;fast;10;6\n\nSitting;;4;0\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_labels(write, form):
    labels = diary_labels(write(FORMS[form]), make_windows(), CLASSES)
    assert labels.tolist() == [0, 0, -1, 1, 1, -1, -1, -1, -1, -1]


def test_a_file_from_a_spreadsheet_with_a_byte_order_mark(write):
    labels = diary_labels(write("time;label\r\n2;Running\r\n", encoding="utf-8-sig"), make_windows(3), CLASSES)
    assert labels.tolist() == [-1, 2, 2]


def test_the_last_change_holds_to_the_end(write):
    assert diary_labels(write("time,label\n4,running\n"), make_windows(), CLASSES).tolist() == [-1, -1] + [2] * 8


def test_local_times_follow_the_zone_through_summer_time(write):
    """At 2 in the morning of 30 March clocks in Berlin jump to 3: half past three is half an hour after."""
    start = datetime(2025, 3, 30, 1, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    windows = make_windows(n=4, window_s=1800, stride_s=1800, start=start)
    path = write("start,end,label\n2025-03-30T03:00:00,2025-03-30T03:30:00,walking\n")
    assert diary_labels(path, windows, CLASSES).tolist() == [-1, 1, -1, -1]


@given(
    cuts=st.lists(st.integers(0, 300), min_size=2, max_size=12, unique=True),
    kinds=st.lists(st.sampled_from(["sitting", "walking", "running", ""]), min_size=12, max_size=12),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_majority_agrees_with_counting_tenths_of_seconds(write, cuts, kinds):
    """Windows of 2.1 s each second against a label for each tenth; the unlabelled share competes and loses ties."""
    cuts = sorted(cuts)
    tenths = np.full(400, -1)
    lines = ["start,end,label"]
    for a, b, kind in zip(cuts, cuts[1:], kinds, strict=False):
        lines.append(f"{a / 10},{b / 10},{kind}")
        tenths[a:b] = ["sitting", "walking", "running"].index(kind) if kind else -1
    labels = diary_labels(write("\n".join(lines)), make_windows(30, 2.1, 1.0), CLASSES)
    for i, label in enumerate(labels):
        counts = [int((tenths[10 * i : 10 * i + 21] == k).sum()) for k in (0, 1, 2, -1)]
        if max(counts[:3]) < counts[3]:
            assert label == -1
        elif max(counts[:3]) > counts[3]:
            assert counts[label] == max(counts[:3])


def test_words_are_mapped_and_dropped_by_a_file(write):
    names = read_names(write('"Brisk walk" = "walking"\nlunch = "Sitting"\nother = ""\n', "names.toml"))
    path = write("start,end,label\n0,2,brisk WALK\n2,4,lunch\n4,6,other\n6,8,running\n")
    assert diary_labels(path, make_windows(5), CLASSES, names).tolist() == [1, 0, -1, 2, -1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start,end,label\n0,2,sitting\n2,4,juggling\n", "line 3: 'juggling' is no class; known are Sitting, Walking"),
        ("start,end,label\n5,2,sitting\n", "line 2: ends 3 s before it starts"),
        ("time,label\n5,sitting\n2,walking\n", "line 2: ends 3 s before it starts"),
        ("start,end,label\n4,8,sitting\n0,5,walking\n", "lines 3 and 2 overlap by 1 s"),
        ("start,end,label\n900,950,sitting\n", "900 s to 950 s, but the recording lasts from 0 s to 20 s"),
        ("start,end,label\n", "has no rows"),
        ("from,to,what\n0,2,sitting\n", "expected columns start,end,label or time,label, got from, to, what"),
        ("", "got none"),
        ("start,end,label\nnoon,2,sitting\n", "line 2: expected start in seconds or as .*, got 'noon'"),
        ("start,end,label\n0,,sitting\n", "line 2: expected end in seconds"),
        ("start,end,label\n0,inf,sitting\n", "finite end"),
    ],
)
def test_mistakes_are_told_in_a_sentence(write, text, message):
    with pytest.raises(ValueError, match=message):
        diary_labels(write(text), make_windows(), CLASSES)


def test_clock_times_need_a_recording_that_knows_the_date(write):
    path = write("start,end,label\n2025-03-01T09:00:00Z,2025-03-01T09:00:04Z,sitting\n")
    with pytest.raises(ValueError, match="the recording has no date"):
        diary_labels(path, make_windows(start=None), CLASSES)
    with pytest.raises(ValueError, match="leave the zone out"):
        diary_labels(path, make_windows(start=START.replace(tzinfo=None)), CLASSES)


def test_names_must_lead_to_classes(write):
    path = write("start,end,label\n0,2,sitting\n")
    with pytest.raises(ValueError, match="'rest' is mapped to 'sleeping', which is no class"):
        diary_labels(path, make_windows(), CLASSES, {"rest": "sleeping"})
    with pytest.raises(ValueError, match='expected "word" = "class", got rest = 3'):
        read_names(write("rest = 3\n", "names.toml"))
