"""Annotation files in every layout, against labels computed by hand or sample by sample."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from sight.recordings.labels import label_samples, label_windows, read_label_map, with_classes_of_model
from sight.types import Windows
from tests.helpers.signals import recording

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


LAYOUTS = {
    "seconds": "start,end,label\n0,4,sitting\n6,10,WALKING\n",
    "clock with zone": "start,end,label\n2025-03-01T09:00:00Z,2025-03-01T09:00:04Z,sitting\n"
    "2025-03-01T10:00:06+01:00,2025-03-01T10:00:10+01:00,walking\n",
    "clock without zone": "start,end,label\n2025-03-01 09:00:00,2025-03-01 09:00:04,sitting\n"
    "2025-03-01 09:00:06,2025-03-01 09:00:10,walking\n",
    "changes": "time,label\n0,sitting\n4,\n6,walking\n10,\n",
    "semicolons, other columns, other order": "label;note;end;start\nWalking;fast;10;6\n\nSitting;;4;0\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_labels(write, layout):
    labels = label_windows(write(LAYOUTS[layout]), make_windows(), CLASSES)
    assert labels.tolist() == [0, 0, -1, 1, 1, -1, -1, -1, -1, -1]


def test_byte_order_mark_is_ignored(write):
    labels = label_windows(write("time;label\r\n2;Running\r\n", encoding="utf-8-sig"), make_windows(3), CLASSES)
    assert labels.tolist() == [-1, 2, 2]


def test_last_change_is_valid_to_the_end(write):
    assert label_windows(write("time,label\n4,running\n"), make_windows(), CLASSES).tolist() == [-1, -1] + [2] * 8


def test_local_times_across_the_start_of_summer_time(write):
    """At 2:00 on 30 March clocks in Berlin jump to 3:00, so 3:30 is half an hour later."""
    start = datetime(2025, 3, 30, 1, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    windows = make_windows(n=4, window_s=1800, stride_s=1800, start=start)
    path = write("start,end,label\n2025-03-30T03:00:00,2025-03-30T03:30:00,walking\n")
    assert label_windows(path, windows, CLASSES).tolist() == [-1, 1, -1, -1]


@given(
    cuts=st.lists(st.integers(0, 300), min_size=2, max_size=12, unique=True),
    labels=st.lists(st.sampled_from(["sitting", "walking", "running", ""]), min_size=12, max_size=12),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_majority_agrees_with_counting_tenths_of_seconds(write, cuts, labels):
    """Windows of 2.1 s each second against a label for each tenth; unlabelled time competes and loses ties."""
    cuts = sorted(cuts)
    tenths = np.full(400, -1)
    lines = ["start,end,label"]
    for a, b, label in zip(cuts, cuts[1:], labels, strict=False):
        lines.append(f"{a / 10},{b / 10},{label}")
        tenths[a:b] = ["sitting", "walking", "running"].index(label) if label else -1
    predicted = label_windows(write("\n".join(lines)), make_windows(30, 2.1, 1.0), CLASSES)
    for i, label in enumerate(predicted):
        counts = [int((tenths[10 * i : 10 * i + 21] == k).sum()) for k in (0, 1, 2, -1)]
        if max(counts[:3]) < counts[3]:
            assert label == -1
        elif max(counts[:3]) > counts[3]:
            assert counts[label] == max(counts[:3])


def test_label_map_renames_and_drops_labels(write):
    label_map = read_label_map(write('"Brisk walk" = "walking"\nlunch = "Sitting"\nother = ""\n', "map.toml"))
    path = write("start,end,label\n0,2,brisk WALK\n2,4,lunch\n4,6,other\n6,8,running\n")
    assert label_windows(path, make_windows(5), CLASSES, label_map).tolist() == [1, 0, -1, 2, -1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start,end,label\n0,2,sitting\n2,4,juggling\n", r"'juggling' \(1 row\) is not .* Sitting, Walking"),
        ("start,end,label\n5,2,sitting\n", "line 2: ends 3 s before"),
        ("time,label\n5,sitting\n2,walking\n", "line 2: ends 3 s before"),
        ("start,end,label\n4,8,sitting\n0,5,walking\n", "lines 3 and 2 overlap by 1 s"),
        ("start,end,label\n900,950,sitting\n", "900 s to 950 s, .* 0 s to 20 s"),
        ("start,end,label\n", "has no rows"),
        ("from,to,what\n0,2,sitting\n", "got from, to, what"),
        ("", "got none"),
        ("start,end,label\nnoon,2,sitting\n", "line 2: expected start .*, got 'noon'"),
        ("start,end,label\n0,,sitting\n", "line 2: expected end"),
        ("start,end,label\n0,inf,sitting\n", "finite end"),
    ],
)
def test_errors_name_the_line_and_the_problem(write, text, message):
    with pytest.raises(ValueError, match=message):
        label_windows(write(text), make_windows(), CLASSES)


def test_a_diary_that_is_no_text_is_named(write, tmp_path):
    with pytest.raises(ValueError, match=r"diary\.csv is not text in UTF-8; save the diary as CSV"):
        label_windows(write("start,end,label\n0,1,g\u00e9nant\n", encoding="latin-1"), make_windows(), CLASSES)
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    for name in ("diary.xlsx", "diary.csv"):  # also with the ending changed by hand
        table = pandas.DataFrame({"start": [0.0], "end": [4.0], "label": ["Walking"]})
        with (tmp_path / name).open("wb") as stream:
            table.to_excel(stream, index=False)
        with pytest.raises(ValueError, match=rf"{name} is an Excel workbook; save the diary as CSV"):
            label_windows(tmp_path / name, make_windows(), CLASSES)


def test_unknown_labels_are_listed_with_counts(write):
    path = write("start,end,label\n0,2,hop\n2,4,SITTING\n4,6,skip\n6,8,Hop\n8,9,hop\n")
    with pytest.raises(ValueError, match=r"'hop' \(2 rows\), 'skip' \(1 row\), 'Hop' \(1 row\) are not"):
        label_windows(path, make_windows(), CLASSES)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_samples_get_the_label_of_their_row(write, layout):
    samples = recording(np.zeros((20, 3)), np.arange(20.0), 1.0, start=START)
    assert label_samples(write(LAYOUTS[layout]), samples, CLASSES).tolist() == [0] * 4 + [-1] * 2 + [1] * 4 + [-1] * 10


def test_rows_of_one_subject_are_used(write):
    path = write("subject,start,end,label\nAnna,0,4,sitting\nbert,0,4,walking\nanna,4,8,running\n")
    assert label_windows(path, make_windows(4), CLASSES, subject="anna").tolist() == [0, 0, 2, 2]
    assert label_windows(path, make_windows(4), CLASSES, subject="Bert").tolist() == [1, 1, -1, -1]
    with pytest.raises(ValueError, match="no rows for cleo"):
        label_windows(path, make_windows(4), CLASSES, subject="cleo")


def test_a_diary_of_several_recordings_needs_clock_times(write):
    later = recording(np.zeros((4, 3)), np.arange(4.0), 1.0, start=START + timedelta(hours=1))
    path = write("time,label\n2025-03-01T09:00:00Z,sitting\n2025-03-01T10:00:02Z,walking\n")
    assert label_samples(path, later, CLASSES, shared=True).tolist() == [0, 0, 1, 1]
    elsewhere = write("start,end,label\n2025-03-01T09:00:00Z,2025-03-01T09:10:00Z,sitting\n")
    assert label_samples(elsewhere, later, CLASSES, shared=True).tolist() == [-1] * 4
    with pytest.raises(ValueError, match="check the dates"):
        label_samples(elsewhere, later, CLASSES)
    with pytest.raises(ValueError, match=r"line 2: 0 s .* ambiguous"):
        label_samples(write("start,end,label\n0,2,sitting\n"), later, CLASSES, shared=True)


def test_clock_times_need_a_recording_with_a_date_and_a_zone(write):
    path = write("start,end,label\n2025-03-01T09:00:00Z,2025-03-01T09:00:04Z,sitting\n")
    with pytest.raises(ValueError, match="no date"):
        label_windows(path, make_windows(start=None), CLASSES)
    with pytest.raises(ValueError, match="time zone"):
        label_windows(path, make_windows(start=START.replace(tzinfo=None)), CLASSES)


def test_label_map_must_name_classes(write):
    path = write("start,end,label\n0,2,sitting\n")
    with pytest.raises(ValueError, match="'rest' is mapped to 'sleeping'"):
        label_windows(path, make_windows(), CLASSES, {"rest": "sleeping"})
    with pytest.raises(ValueError, match="got rest = 3"):
        read_label_map(write("rest = 3\n", "map.toml"))


def test_labels_of_a_dataset_become_classes_of_the_model():
    windows = replace(make_windows(5), label=np.array([0, 1, 2, -1, 1]))
    assert with_classes_of_model(windows, CLASSES, CLASSES) is windows
    changed = with_classes_of_model(windows, CLASSES, ("walking", "lying", "sitting"))
    assert changed.label.tolist() == [2, 0, -1, -1, 0]
    (warning,) = map(str, changed.warnings)
    assert "Running" in warning
    mapped = with_classes_of_model(windows, CLASSES, ("walking", "rest"), {"running": "Walking", "Sitting": ""})
    assert (mapped.label.tolist(), mapped.warnings) == ([-1, 0, 0, -1, 0], ())
    same = with_classes_of_model(replace(windows, label=np.array([0, 1, 1, -1, 1])), CLASSES, ("walking", "sitting"))
    assert (same.label.tolist(), same.warnings) == ([1, 0, 0, -1, 0], ())
