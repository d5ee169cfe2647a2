"""The paper's corpora, read from small files in exactly their official layout, odd cases included."""

from __future__ import annotations

import gzip
import subprocess
import sys
import textwrap
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from sight.datasets.capture24 import Capture24
from sight.datasets.harth import HARTH, HAR70plus
from sight.datasets.ucihar import UCIHAR
from sight.datasets.uschad import USCHAD
from tests.helpers.layouts import ANNOTATIONS, RNG, capture_lines, harth_table, overlapping, ucihar, zipped

# --- HARTH and HAR70+ -----------------------------------------------------------------------------------------


def test_harth_reads_both_kinds_of_file(harth):
    root, plain = harth
    dataset = HARTH(root)
    assert dataset.subjects() == ("S006", "S015", "S021")
    (recording,) = dataset.recordings("S006")
    np.testing.assert_allclose(recording.values, plain[["thigh_x", "thigh_y", "thigh_z"]].to_numpy(), rtol=1e-6)
    np.testing.assert_allclose(recording.time_s, np.arange(500) / 50, atol=1e-9)
    assert recording.start == datetime(2019, 1, 12, tzinfo=UTC)
    names = np.array(dataset.classes)[recording.labels]
    assert names[::100].tolist() == ["walking_like", "standing", "sitting", "lying", "cycling_like"]
    for subject, expected in (("S015", ["walking_like", "cycling_like"]), ("S021", ["walking_like", "cycling_like"])):
        (recording,) = dataset.recordings(subject)
        assert recording.values.shape[1] == 3
        assert list(dict.fromkeys(np.array(dataset.classes)[recording.labels])) == expected


def test_harth_options(harth):
    root, plain = harth
    both = HARTH(root, sensor="both", labels="twelve")
    (recording,) = both.recordings("S006")
    assert recording.channels == ("back_x", "back_y", "back_z", "thigh_x", "thigh_y", "thigh_z")
    np.testing.assert_allclose(recording.values[:, :3], plain[["back_x", "back_y", "back_z"]].to_numpy(), rtol=1e-6)
    assert np.array(both.classes)[recording.labels][-1] == "cycling sit inactive"
    assert HARTH.classes == ("cycling_like", "lying", "sitting", "standing", "walking_like")  # untouched by instances


def test_harth_windows_from_folder_and_zip_agree(harth):
    root, plain = harth
    from_folder = HARTH(root).windows("S006")
    from_zip = HARTH(zipped(root)).windows("S006")
    np.testing.assert_array_equal(from_folder.x, from_zip.x)
    assert from_folder.x.shape == (9, 3, 100)  # 10 s in windows of 2 s, one each second
    np.testing.assert_allclose(
        from_folder.x[3], plain[["thigh_x", "thigh_y", "thigh_z"]].to_numpy()[150:250].T, rtol=1e-6
    )
    # Windows halfway between two activities are a tie, which the lower class index takes.
    order = [HARTH.classes.index(name) for name in ("walking_like", "standing", "sitting", "lying", "cycling_like")]
    expected = [order[0], min(order[:2]), order[1], min(order[1:3]), order[2], min(order[2:4]), order[3]]
    assert from_folder.label.tolist() == [*expected, min(order[3:]), order[4]]


def test_har70plus_is_the_same_loader(tmp_path):
    harth_table(np.repeat([1, 8], 100)).to_csv(tmp_path / "501.csv", index=False)
    harth_table(np.repeat([3, 7], 100)).to_csv(tmp_path / "518.csv", index=False)
    dataset = HAR70plus(tmp_path)
    assert dataset.subjects() == ("501", "518")
    assert set(np.array(dataset.classes)[next(dataset.recordings("501")).labels]) == {"walking_like", "lying"}


# --- CAPTURE-24 -----------------------------------------------------------------------------------------------


@pytest.fixture
def capture(tmp_path):
    root = tmp_path / "capture24"
    root.mkdir()
    dictionary = pd.DataFrame({"annotation": list(ANNOTATIONS), "label:Walmsley2020": list(ANNOTATIONS.values())})
    dictionary["label:Willetts2018"] = ["sleep", "sit-stand", "walking", "mixed"]
    dictionary.to_csv(root / "annotation-label-dictionary.csv", index=False)
    sleep, office, walk, _ = ANNOTATIONS
    table = capture_lines([("", 15, 0), (sleep, 30, 0), (office, 20, 125), ("", 20, 0), (walk, 10, 0)])
    table.to_csv(root / "P001.csv.gz", index=False)
    return root, table


def test_capture24_keeps_unannotated_stretches_and_gaps(capture):
    root, table = capture
    dataset = Capture24(root)
    (recording,) = dataset.recordings("P001")
    np.testing.assert_array_equal(recording.values, table[["x", "y", "z"]].to_numpy(np.float32))
    names = np.array([*dataset.classes, "none"])[recording.labels]
    assert list(dict.fromkeys(names)) == ["none", "sleep", "sedentary", "light"]
    assert (recording.labels == -1).sum() == 3500
    assert recording.start == datetime(2016, 11, 13, 2, 18, tzinfo=UTC)
    windows = dataset.windows("P001")
    assert windows.x.shape == (9, 3, 1000)  # 45 s give four, 50 s five
    assert windows.gap_before_s.tolist() == [0, 0, 0, 0, pytest.approx(130, abs=0.02), 0, 0, 0, 0]
    assert windows.label.tolist() == [
        -1,
        0,
        0,
        0,
        1,
        1,
        -1,
        -1,
        2,
    ]  # the second window is half and half, and a class wins


def test_capture24_other_label_sets_and_blocks(capture, monkeypatch):
    root, _ = capture
    whole = next(Capture24(root).recordings("P001"))
    monkeypatch.setattr("sight.datasets.capture24.BLOCK_BYTES", 4000)
    pieces = next(Capture24(root).recordings("P001"))
    np.testing.assert_array_equal(whole.values, pieces.values)
    np.testing.assert_array_equal(whole.labels, pieces.labels)
    np.testing.assert_array_equal(whole.time_s, pieces.time_s)
    assert Capture24(root, labels="Willetts2018").classes == ("mixed", "sit-stand", "sleep", "walking")


def test_capture24_refuses_what_it_cannot_trust(capture):
    root, table = capture
    whole = (root / "P001.csv.gz").read_bytes()
    (root / "P002.csv.gz").write_bytes(whole[: len(whole) // 2])
    table.rename(columns={"z": "w"}).to_csv(root / "P003.csv.gz", index=False)
    table.assign(annotation="jumping on the moon").to_csv(root / "P004.csv.gz", index=False)
    table[:0].to_csv(root / "P005.csv.gz", index=False)
    table[:500].to_csv(root / "P006.csv.gz", index=False)
    table.assign(x="much").to_csv(root / "P007.csv.gz", index=False)
    (root / "P008.csv.gz").write_bytes(gzip.compress(b""))
    dataset = Capture24(root)
    expected = {
        "P002": "breaks off or is damaged",
        "P003": "expected columns time, x, y, z, annotation",
        "P004": "label 'jumping on the moon'.*not in the map",
        "P005": "has no samples|is empty",
        "P006": "no window of 10 s",
        "P007": "expected columns time, x, y, z, annotation",
        "P008": "is empty",
    }
    for subject, words in expected.items():
        with pytest.raises(ValueError, match=words) as caught:
            dataset.windows(subject)
        assert "\n" not in str(caught.value)
    (root / "annotation-label-dictionary.csv").unlink()
    with pytest.raises(ValueError, match="put it beside the recordings"):
        Capture24(root).windows("P001")


def test_a_day_of_capture24_stays_under_a_gigabyte(tmp_path):
    """8.64 million rows become windows in a process of its own, whose peak of resident memory is read."""
    (tmp_path / "annotation-label-dictionary.csv").write_text(
        "annotation,label:Walmsley2020\n7030 sleeping;MET 0.95,sleep\nsitting;MET 1.5,sedentary\n"
    )
    rows = [
        f"2016-11-13 HH:MM:{s:02}.{c:02}0000,{c / 100:.6f},0.734375,-0.671875,NOTE\n"
        for s in range(60)
        for c in range(100)
    ]
    minute = "".join(rows).encode()
    with (tmp_path / "P001.csv.gz").open("wb") as out:  # members of a gzip may follow each other
        out.write(gzip.compress(b"time,x,y,z,annotation\n", 1))
        for hour in range(24):
            note = b"7030 sleeping;MET 0.95" if hour < 8 else b"" if hour == 9 else b"sitting;MET 1.5"
            for m in range(60):
                text = minute.replace(b"HH:MM", b"%02d:%02d" % (hour, m)).replace(b"NOTE", note)
                out.write(gzip.compress(text, 1))
    script = f"""
        from sight.datasets.capture24 import Capture24
        windows = Capture24({str(tmp_path)!r}).windows("P001", cache=False)
        peak_kb = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(len(windows), (windows.label < 0).sum(), int(peak_kb) // 1024)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    count, unlabelled, megabytes = (int(word) for word in done.stdout.split())
    assert (count, unlabelled) == (8640, 360)
    assert megabytes < 1000


# --- USC-HAD --------------------------------------------------------------------------------------------------


@pytest.fixture
def uschad(tmp_path):
    from scipy.io import savemat

    root = tmp_path / "USC-HAD"
    for subject, activity, trial in [(1, 1, 1), (1, 12, 1), (1, 2, 1), (1, 1, 2), (2, 8, 5), (14, 10, 3)]:
        folder = root / f"Subject{subject}"
        folder.mkdir(parents=True, exist_ok=True)
        readings = np.full((250, 6), 100 * activity + trial, dtype=float)
        key = "activity_numbr" if subject == 14 else "activity_number"  # only the file name counts
        savemat(folder / f"a{activity}t{trial}.mat", {"sensor_readings": readings, key: str(activity)})
    return root


def test_uschad_subjects_trials_and_order(uschad):
    dataset = USCHAD(zipped(uschad))
    assert dataset.subjects() == ("1", "2", "14")
    assert [int(recording.values[0, 0]) for recording in dataset.recordings("1")] == [101, 201, 1201, 102]
    by_activity = USCHAD(uschad, order="activity")
    assert [int(recording.values[0, 0]) for recording in by_activity.recordings("1")] == [101, 102, 201, 1201]
    windows = dataset.windows("1")
    assert windows.x.shape == (16, 6, 100)  # 2.5 s in windows of 1 s every half second: four in each of four files
    assert windows.label.tolist() == [0] * 4 + [1] * 4 + [11] * 4 + [0] * 4
    assert np.flatnonzero(windows.gap_before_s).tolist() == [4, 8, 12]
    assert next(dataset.recordings("14")).unit == ("g", "g", "g", "deg/s", "deg/s", "deg/s")


def test_uschad_refuses_other_matrices(uschad):
    from scipy.io import savemat

    savemat(uschad / "Subject2" / "a8t5.mat", {"sensor_readings": np.zeros((9, 5))})
    (uschad / "Subject14" / "a10t3.mat").write_bytes(b"MATLAB 5.0 MAT-file, but cut short")
    with pytest.raises(ValueError, match=r"expected sensor_readings \(n, 6\), got \(9, 5\)"):
        list(USCHAD(uschad).recordings("2"))
    with pytest.raises(ValueError, match="no MATLAB file"):
        list(USCHAD(uschad).recordings("14"))


# --- UCI-HAR --------------------------------------------------------------------------------------------------


@pytest.fixture
def ucihar_tree(tmp_path):
    standing, walking, other = (RNG.normal(size=(9, 128 + 64 * (n - 1))).round(6) for n in (4, 3, 2))
    rows = [(1, 5, overlapping(4, standing)), (1, 1, overlapping(3, walking)), (3, 6, overlapping(2, other))]
    ucihar(tmp_path, {"train": rows, "test": [(2, 4, overlapping(2, other))]})
    return tmp_path, standing, walking


def test_ucihar_windows_are_the_lines_of_the_files(ucihar_tree):
    root, standing, walking = ucihar_tree
    dataset = UCIHAR(root, acc="total_acc")
    assert dataset.subjects() == ("1", "2", "3")
    windows = dataset.windows("1")
    assert windows.label.tolist() == [4] * 4 + [0] * 3
    expected = np.concatenate([overlapping(4, standing), overlapping(3, walking)])[:, [0, 1, 2, 6, 7, 8]]
    np.testing.assert_allclose(windows.x, expected, rtol=1e-6)
    assert np.flatnonzero(windows.gap_before_s).tolist() == [4]
    body = UCIHAR(root).windows("1")
    np.testing.assert_allclose(body.x[0, :3], standing[3:6, :128], rtol=1e-6)
    np.testing.assert_array_equal(body.x[:, 3:], windows.x[:, 3:])


def test_ucihar_recordings_are_unbroken_again(ucihar_tree):
    root, standing, walking = ucihar_tree
    first, second = UCIHAR(root, acc="total_acc").recordings("1")
    np.testing.assert_allclose(first.values.T, standing[[0, 1, 2, 6, 7, 8]], rtol=1e-6)
    np.testing.assert_allclose(second.values.T, walking[[0, 1, 2, 6, 7, 8]], rtol=1e-6)
    shorter = UCIHAR(root).windows("1", window_s=1.28, stride_s=1.28)
    assert shorter.x.shape == (9, 6, 64)  # 5 and 4 halves


def test_ucihar_refuses_missing_and_short_files(ucihar_tree):
    root, _, _ = ucihar_tree
    signals = root / "UCI HAR Dataset" / "test" / "Inertial Signals"
    (signals / "body_acc_x_test.txt").write_text("1 2 3\n4 5 6\n")
    with pytest.raises(ValueError, match="expected 128 values a line"):
        UCIHAR(root).windows("2")
    (signals / "body_acc_x_test.txt").unlink()
    with pytest.raises(ValueError, match=r"body_acc_x_test.txt is missing"):
        UCIHAR(root).windows("2")
