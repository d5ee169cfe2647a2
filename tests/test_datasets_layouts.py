"""Corpora that are not at hand, read from small files in exactly their official layout, odd cases included."""

from __future__ import annotations

import dataclasses
import gzip
import io
import pickle
import subprocess
import sys
import textwrap
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sight import registry
from sight.datasets import Dataset, info, load, windows_of
from sight.datasets._store import Store
from sight.datasets.capture24 import Capture24
from sight.datasets.extrasensory import MOTION, SIX, ExtraSensory
from sight.datasets.folder import Folder
from sight.datasets.hapt import HAPT
from sight.datasets.harth import HARTH, HAR70plus
from sight.datasets.hugadb import HuGaDB
from sight.datasets.npz import Npz, read_npz, write_npz
from sight.datasets.ucihar import UCIHAR
from sight.datasets.uschad import USCHAD
from sight.datasets.wisdm2019 import WISDM2019
from sight.types import Windows

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))


def zipped(folder: Path) -> Path:
    """Pack a folder as archives come: one directory on top."""
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.rglob("*"):
            archive.write(path, Path("top") / path.relative_to(folder))
        archive.writestr("__MACOSX/top/._S006.csv", b"resource fork")
    return target


# --- HARTH and HAR70+ -----------------------------------------------------------------------------------------


def harth_table(labels, start="2019-01-12 00:00:00.000"):
    times = pd.date_range(start, periods=len(labels), freq="20ms").strftime("%Y-%m-%d %H:%M:%S.%f").str[:-3]
    axes = ["back_x", "back_y", "back_z", "thigh_x", "thigh_y", "thigh_z"]
    table = pd.DataFrame(RNG.normal(size=(len(labels), 6)).round(6), columns=axes)
    table.insert(0, "timestamp", times)
    table["label"] = labels
    return table


@pytest.fixture
def harth(tmp_path):
    root = tmp_path / "harth"
    root.mkdir()
    plain = harth_table(np.repeat([1, 6, 7, 8, 130], 100))
    plain.to_csv(root / "S006.csv", index=False)
    harth_table(np.repeat([4, 13], 150)).to_csv(root / "S015.csv", index=True)  # an unnamed index in front
    indexed = harth_table(np.repeat([3, 140], 100))
    indexed.insert(0, "index", np.arange(200))
    indexed.to_csv(root / "S021.csv", index=False)
    return root, plain


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

ANNOTATIONS = {
    "7030 sleeping;MET 0.95": "sleep",
    "11580 office work such as writing and typing (with or without eating at the same time);MET 1.5": "sedentary",
    'home activity;walking;17150 "walking household, without observable loads";MET 2.0': "light",
    "leisure;sports;15711 beach volleyball;MET 8.0": "moderate-vigorous",
}


def capture_lines(spans, start="2016-11-13 02:18:00"):
    """Rows at 100 Hz; a span is (annotation or '', seconds, pause before it)."""
    moment, frames = pd.Timestamp(start), []
    for annotation, seconds, pause in spans:
        moment += pd.Timedelta(seconds=pause)
        n = int(seconds * 100)
        frame = pd.DataFrame(RNG.normal(size=(n, 3)).astype(np.float32), columns=["x", "y", "z"])
        frame.insert(0, "time", pd.date_range(moment, periods=n, freq="10ms").strftime("%Y-%m-%d %H:%M:%S.%f"))
        frame["annotation"] = annotation
        frames.append(frame)
        moment += pd.Timedelta(seconds=seconds)
    return pd.concat(frames)


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


def ucihar(root, parts):
    """Write the official tree; a part is a list of (subject, activity, windows (N, 9, 128))."""
    for part, rows in parts.items():
        folder = root / "UCI HAR Dataset" / part
        (folder / "Inertial Signals").mkdir(parents=True)
        (folder / f"subject_{part}.txt").write_text("".join(f"{who}\n" * len(x) for who, _, x in rows))
        (folder / f"y_{part}.txt").write_text("".join(f"{what}\n" * len(x) for _, what, x in rows))
        kinds = [f"{kind}_{axis}" for kind in ("total_acc", "body_acc", "body_gyro") for axis in "xyz"]
        for i, kind in enumerate(kinds):
            lines = ["  ".join(f"{value: .7e}" for value in window[i]) for _, _, x in rows for window in x]
            (folder / "Inertial Signals" / f"{kind}_{part}.txt").write_text("".join(f"  {line}\n" for line in lines))


def overlapping(n, signal):
    return np.stack([signal[:, 64 * i : 64 * i + 128] for i in range(n)])


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


# --- corpora at hand, in small --------------------------------------------------------------------------------


def test_hapt_labels_count_from_one_and_transitions_can_be_classes(tmp_path):
    raw = tmp_path / "RawData"
    raw.mkdir()
    signal = RNG.normal(size=(700, 6)).round(5)
    for kind, columns in (("acc", signal[:, :3]), ("gyro", signal[:, 3:])):
        np.savetxt(raw / f"{kind}_exp01_user01.txt", columns)
    (raw / "labels.txt").write_text("1 1 5 11 300\n1 1 7 301 400\n1 1 1 401 700\n")
    (recording,) = HAPT(tmp_path).recordings("1")
    np.testing.assert_allclose(recording.values, signal, rtol=1e-6)
    assert np.flatnonzero(np.diff(recording.labels)).tolist() == [9, 299, 399]
    assert recording.labels[[0, 10, 299, 300, 400, 699]].tolist() == [-1, 4, 4, -1, 0, 0]
    assert HAPT(tmp_path, transitions=True).classes[
        next(HAPT(tmp_path, transitions=True).recordings("1")).labels[350]
    ] == ("stand_to_sit")
    windows = HAPT(tmp_path, protocol="ucihar").windows("1")
    np.testing.assert_allclose(windows.time_s * 50, [10, 74, 138, 400, 464, 528])
    assert windows.label.tolist() == [4] * 3 + [0] * 3
    np.testing.assert_allclose(windows.gap_before_s, [0, 0, 0, (400 - 266) / 50, 0, 0])
    (raw / "labels.txt").write_text("1 1 13 11 300\n")
    with pytest.raises(ValueError, match=r"label 13 .* not in the map"):
        next(HAPT(tmp_path).recordings("1"))
    (raw / "gyro_exp01_user01.txt").unlink()
    with pytest.raises(ValueError, match=r"gyro_exp01_user01.txt is missing"):
        next(HAPT(tmp_path).recordings("1"))


def test_hapt_filters_keep_gravity_or_remove_it(tmp_path):
    raw = tmp_path / "RawData"
    raw.mkdir()
    t = np.arange(3000) / 50
    walk, hiss = 0.5 * np.sin(2 * np.pi * 2 * t), 0.5 * np.sin(2 * np.pi * 24 * t)
    np.savetxt(raw / "acc_exp01_user01.txt", np.column_stack([1 + walk + hiss, 1 + walk, walk]))
    np.savetxt(raw / "gyro_exp01_user01.txt", np.column_stack([walk] * 3))
    (raw / "labels.txt").write_text("1 1 1 1 3000\n")
    total = HAPT(tmp_path, protocol="ucihar").windows("1").x[20:25].astype(float)
    body = HAPT(tmp_path, protocol="ucihar", acc="body_acc").windows("1").x[20:25].astype(float)
    np.testing.assert_allclose(total[:, 1].mean(), 1, atol=0.01)
    np.testing.assert_allclose(body[:, 1].mean(), 0, atol=0.01)
    clean = np.sin(2 * np.pi * 2 * (t[20 * 64 : 20 * 64 + 128])) * 0.5
    assert np.abs(body[0, 1] - clean).max() < 0.03  # zero phase: the walk stays where it was
    assert np.abs(total[0, 0] - total[0, 1]).max() < 0.5 * 0.5  # most of the hiss is gone
    np.testing.assert_array_equal(total[:, 3:], body[:, 3:])


def hugadb_file(folder, name, date, rows):
    header = f"#Activity\t{name.split('_')[2]} \n#ActivityID\t1 \n#Date {date}\n"
    columns = ["acc_rf_x", "acc_rt_x", "acc_rt_y", "acc_rt_z", "gyro_rt_x", "gyro_rt_y", "gyro_rt_z", "EMG_r", "act"]
    body = "\n".join("\t".join(str(value) for value in row) for row in rows)
    (folder / name).write_text(header + "\t".join(columns) + "\n" + body + "\n")


def test_hugadb_order_units_and_corrupted_gyroscopes(tmp_path):
    data = tmp_path / "Data"
    data.mkdir()
    for name, date, mark in [
        ("HuGaDB_v1_walking_01_00.txt", "10-20-15-35", 1),
        ("HuGaDB_v1_various_01_02.txt", "09-19-15-22", 2),
        ("HuGaDB_v1_various_01_10.txt", "09-19-15-22", 3),
        ("HuGaDB_v1_sitting_in_car_01_08.txt", "09-19-15-212", 4),  # three digits of minutes
        ("HuGaDB_v1_running_02_00.txt", "10-20-15-35", 5),
    ]:
        rows = [[9, 16384, -8192, mark, 164, 32767 if mark == 3 else 0, -82, 9, 1 + k // 150 * 8] for k in range(300)]
        hugadb_file(data, name, date, rows)
    (tmp_path / "README.md").write_text(
        "|File|Right foot|Left foot|Right shank|Left shank|Right thigh|Left thigh|\n"
        "|HuGaDB_v1_various_01_02.txt | OK | OK | OK | OK | Corrupted | OK |\n"
        "|HuGaDB_v1_walking_01_00.txt | Corrupted | OK | OK | OK | OK | OK |\n"
    )
    dataset = HuGaDB(tmp_path)
    assert dataset.subjects() == ("1", "2")
    recordings = list(dataset.recordings("1"))
    assert [round(float(recording.values[0, 2]) * 16384) for recording in recordings] == [4, 2, 3, 1]
    np.testing.assert_allclose(recordings[0].values[0], [1, -0.5, 4 / 16384, 10, 0, -5], rtol=1e-6)
    assert recordings[1].time_s[0] == 60.0
    assert recordings[2].time_s[0] == pytest.approx(60 + 300 * 0.017)  # same minute: right after the one before
    assert recordings[0].labels[[0, 149, 150]].tolist() == [0, 0, -1]  # bicycling is none of the six
    assert [recording.facts["gyro_corrupted_recordings"] for recording in recordings] == [0, 1, 0, 0]
    assert recordings[2].facts["gyro_clipped_samples"] == 300
    windows = dataset.windows("1", unlabelled="drop")
    assert windows.x.shape[1:] == (6, 112)
    assert (windows.label == 0).all()
    assert windows.facts["gyro_corrupted_recordings"] == 1
    assert HuGaDB(tmp_path, labels="twelve").classes[
        next(HuGaDB(tmp_path, labels="twelve").recordings("1")).labels[200]
    ] == ("bike")
    with pytest.raises(ValueError, match=r"expected columns acc_lt_x.* not found"):
        next(HuGaDB(tmp_path, sensor="lt").recordings("1"))


def test_wisdm_blocks_follow_their_timestamps(tmp_path):
    def block(letter, start_s, n=250):
        return "".join(
            f"1600,{letter},{int(1e9 * (start_s + 0.05 * k))},{k}.5,-1.25,{ord(letter)}.0;\n" for k in range(n)
        )

    (tmp_path / "data_1600_accel_watch.txt").write_text(block("A", 5000) + block("B", 100) + block("D", 4987.5))
    (recording,) = WISDM2019(tmp_path).recordings("1600")
    assert (np.diff(recording.time_s) > 0).all()
    assert [WISDM2019.classes[k] for k in recording.labels[[0, 250, 500]]] == ["jogging", "sitting", "walking"]
    assert recording.values[0].tolist() == [0.5, -1.25, 66.0]
    assert recording.time_s[0] == 0
    windows = WISDM2019(tmp_path).windows("1600")
    # D ends 50 ms before A begins, so windows go on; the one over both has no single activity.
    assert [WISDM2019.classes[k] if k >= 0 else "" for k in windows.label] == [
        *["jogging"] * 4,
        *["sitting"] * 4,
        "",
        *["walking"] * 4,
    ]
    assert np.flatnonzero(windows.gap_before_s).tolist() == [4]


def test_extrasensory_rows_with_exactly_one_label(tmp_path):
    who = "00EABED2-271D-49D8-B599-1D4A09240601"
    columns = ["timestamp", *MOTION, "discrete:app_state:is_active", *SIX, "label:SLEEPING", "label_source"]
    table = pd.DataFrame(0.0, index=range(5), columns=columns)
    table["timestamp"] = [1444079161, 1444079221, 1444079521, 1444080200, 1444080260]
    table[MOTION[0]] = [np.e - 1, 1 - np.e, np.nan, 0, 2]
    table.loc[0, "label:SITTING"] = 1
    table.loc[1, ["label:SITTING", "label:LYING_DOWN"]] = 1
    table.loc[2, "label:OR_standing"] = np.nan
    table.loc[3, ["label:BICYCLING", "label:SLEEPING"]] = 1
    table.loc[4, list(SIX)] = [1, np.nan, np.nan, np.nan, np.nan, 0]
    table.to_csv(tmp_path / f"{who}.features_labels.csv.gz", index=False)
    (recording,) = ExtraSensory(tmp_path).recordings(who)
    np.testing.assert_allclose(recording.values[:, 0], [1, -1, np.nan, 0, np.log(3)], rtol=1e-6)
    assert recording.labels.tolist() == [1, -1, -1, 5, 0]
    assert recording.start == datetime.fromtimestamp(1444079161, UTC)
    windows = ExtraSensory(tmp_path).windows(who)
    assert windows.x.shape == (5, 98, 1)
    assert windows.gap_before_s.tolist() == [0, 0, 0, 619, 0]  # five minutes are no gap here, eleven are
    assert np.isnan(windows.x[2, 0, 0])
    everything = ExtraSensory(tmp_path, columns="all", scale="raw")
    assert everything.channels == (*MOTION, "discrete:app_state:is_active")
    assert next(everything.recordings(who)).values[4, 0] == 2
    kept = ExtraSensory(tmp_path).windows(who, unlabelled="drop")
    assert kept.label.tolist() == [1, 5, 0]
    assert kept.gap_before_s.tolist() == [0, 1039 - 60, 0]


# --- npz ------------------------------------------------------------------------------------------------------


def some_windows(n=6):
    return Windows(
        x=RNG.normal(size=(n, 3, 20)).astype(np.float32),
        time_s=np.arange(n) * 1.5,
        label=np.array([0, 1, -1, 1, 0, 2])[:n],
        gap_before_s=np.array([0, 0, 7.5, 0, 0, 0])[:n],
        window_s=2.0,
        stride_s=1.5,
        wear=np.array([True, True, False, True, True, True])[:n],
        start=datetime(2020, 2, 29, 12, 30, tzinfo=UTC),
    )


def test_npz_round_trip_is_identical(tmp_path):
    windows, classes = some_windows(), ("sit", "walk", "lie")
    write_npz(windows, tmp_path / "S01.npz", classes)
    assert [path.name for path in tmp_path.iterdir()] == ["S01.npz"]
    again, names = read_npz(tmp_path / "S01.npz")
    assert names == classes
    from_dataset = Npz(tmp_path).windows("S01")
    assert Npz(tmp_path).classes == classes
    for other in (again, from_dataset):
        for field in dataclasses.fields(Windows):
            mine, theirs = getattr(windows, field.name), getattr(other, field.name)
            if isinstance(mine, np.ndarray):
                np.testing.assert_array_equal(mine, theirs)
                assert mine.dtype == theirs.dtype
            elif field.name != "facts":
                assert mine == theirs
    with np.load(tmp_path / "S01.npz") as plain:  # the authors' reader finds what it expects
        assert plain["y"].tolist() == ["sit", "walk", "", "walk", "sit", "lie"]
        assert plain["x"].shape == (6, 3, 20)


@pytest.mark.parametrize("items", [["sit", "walk", "sit"], [np.str_("sit"), np.str_("walk"), np.str_("größer")]])
def test_npz_reads_object_arrays_of_texts(tmp_path, items):
    y = np.empty(3, dtype=object)
    y[:] = items
    np.savez(tmp_path / "S1.npz", x=np.zeros((3, 3, 10)), y=y)
    dataset = Npz(tmp_path, rate=20.0)
    assert dataset.classes == tuple(sorted({str(item) for item in items}))
    windows = dataset.windows("S1")
    assert [dataset.classes[k] for k in windows.label] == [str(item) for item in items]
    assert windows.time_s.tolist() == [0, 0.5, 1.0]
    assert windows.x.dtype == np.float32


class Mischief:
    def __reduce__(self):
        return (Path.touch, (Path("mischief-was-done"),))


@pytest.mark.parametrize("item", [Mischief(), 3, None, b"sit", ["sit"], np.float64(2)])
def test_npz_builds_nothing_but_texts(tmp_path, monkeypatch, item):
    monkeypatch.chdir(tmp_path)
    y = np.empty(2, dtype=object)
    y[0], y[1] = "sit", item
    np.savez(tmp_path / "S1.npz", x=np.zeros((2, 3, 10)), y=y)
    with pytest.raises(ValueError, match="objects other than texts"):
        Npz(tmp_path)
    assert not Path("mischief-was-done").exists()


def test_npz_refuses_a_bare_pickle_and_wrong_arrays(tmp_path):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    stream.write(pickle.dumps(Mischief()))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("y.npy", stream.getvalue())
    with pytest.raises(ValueError, match="objects other than texts"):
        read_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=np.zeros((2, 3)), y=np.array(["a", "b"]))
    with pytest.raises(ValueError, match="expected x"):
        read_npz(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", data=np.zeros(3))
    with pytest.raises(ValueError, match="expected arrays x and y, got data"):
        read_npz(tmp_path / "c.npz")
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match="no complete npz"):
        read_npz(tmp_path / "d.npz")
    write_npz(some_windows(), tmp_path / "e.npz", ("sit", "walk", "lie"))
    with pytest.raises(ValueError, match="label 'lie' is not in the map"):
        read_npz(tmp_path / "e.npz", classes=("sit", "walk"))


def test_npz_recordings_lie_end_to_end(tmp_path):
    signal = RNG.normal(size=(3, 100)).astype(np.float32)
    x = np.stack([signal[:, i : i + 20] for i in range(0, 81, 10)])
    np.savez(tmp_path / "S1.npz", x=x, y=np.array(["walk"] * 9))
    (recording,) = Npz(tmp_path, rate=10.0, stride=1.0).recordings("S1")
    np.testing.assert_array_equal(recording.values.T, signal)


# --- what all corpora share -----------------------------------------------------------------------------------

CORPORA = [name for name in registry.names("datasets") if name not in ("synthetic", "npz", "folder")]


@pytest.mark.parametrize("name", CORPORA)
def test_every_corpus_knows_its_facts(name):
    cls = registry.get("datasets", name)
    assert issubclass(cls, Dataset)
    assert cls.name == name
    assert len(cls.channels) == len(cls.units) > 0
    assert len(set(cls.classes)) == len(cls.classes) > 1
    assert cls.rate_hz > 0
    assert 0 < cls.stride_s <= cls.window_s
    for fact in ("title", "licence", "citation", "homepage", "version"):
        assert isinstance(getattr(cls, fact), str)
        assert getattr(cls, fact)
    assert all(download.url.startswith("http") for download in cls.downloads)
    assert len(cls.downloads) > 0
    assert {label for label in cls.label_map.values() if label} <= set(cls.classes)


@pytest.mark.parametrize("name", CORPORA)
def test_missing_data_says_which_files_go_where(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path))
    dataset = load(name)
    with pytest.raises(ValueError, match=r"put .* into the folder") as caught:
        dataset.subjects()
    assert dataset.files[0] in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    (tmp_path / dataset.places[0]).mkdir()
    with pytest.raises(ValueError, match="no subject in"):
        load(name).subjects()


def test_a_zip_in_a_zip_is_told(tmp_path):
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.writestr("UCI HAR Dataset.zip", b"")
    with pytest.raises(ValueError, match=r"unpack UCI HAR Dataset.zip first"):
        UCIHAR(tmp_path / "outer.zip").subjects()
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="is the file complete"):
        Store(tmp_path / "broken.zip")


def test_unknown_subject_and_unknown_setting(harth):
    dataset = HARTH(harth[0])
    with pytest.raises(ValueError, match="Did you mean 'S006'"):
        dataset.windows("S066")
    with pytest.raises(TypeError, match="not by 'windows_s'"):
        dataset.windows("S006", windows_s=3)
    with pytest.raises(ValueError, match="'keep' or 'drop'"):
        dataset.windows("S006", unlabelled="maybe")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("thigh_y", "hip_y"), "thigh_y not found"),
        (lambda text: text.replace(",130", ",131"), "label 131 .* not in the map"),
        (lambda text: text.split("\n")[0] + "\n", "has no samples"),
        (lambda _: "", "is empty"),
        (lambda text: "\n".join(text.split("\n")[:60]), "no window of 2 s"),
        (lambda text: text.replace("2019-01-12 00:00:01.000", "yesterday"), "expected times and numbers"),
    ],
)
def test_bad_files_are_one_sentence(harth, change, words):
    path = harth[0] / "S006.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=words) as caught:
        HARTH(harth[0]).windows("S006")
    assert "\n" not in str(caught.value)


def test_cache_follows_the_file_and_the_options(harth):
    root, _ = harth
    before = HARTH(root).windows("S006")
    np.testing.assert_array_equal(HARTH(root).windows("S006").x, before.x)
    back = HARTH(root, sensor="back").windows("S006")
    assert not np.array_equal(back.x, before.x)
    assert len(HARTH(root).windows("S006", stride_s=2.0)) == 5
    harth_table(np.repeat([6, 7], 150)).to_csv(root / "S006.csv", index=False)
    assert len(HARTH(root).windows("S006")) == 5  # 6 s now


def test_info_describes_each_person(harth):
    seen = []
    rows = list(info(HARTH(harth[0]), on_subject=lambda done, who: seen.append((done, who))))
    assert seen == [(1, "S006"), (2, "S015"), (3, "S021")]
    assert rows[0]["windows"] == 9
    assert sum(rows[0]["labels"].values()) + rows[0]["unlabelled"] == 9
    assert rows[0]["seconds"] == 10.0
    assert rows[0]["gaps"] == 0
    assert rows[0]["facts"]["samples"] == 500


def test_contract_alone_is_enough_for_windows():
    from sight.datasets.synthetic import Synthetic

    class Bare:
        """Only what the contract names."""

        def __init__(self):
            self._of = Synthetic(hours=0.05)
            for fact in ("name", "classes", "channels", "units", "rate_hz", "window_s", "stride_s", "max_gap_s"):
                setattr(self, fact, getattr(self._of, fact))

        def subjects(self):
            return ("W01",)

        def recordings(self, subject):
            return self._of.recordings(subject)

    windows = windows_of(Bare(), "W01", unlabelled="drop")
    assert windows.x.shape[1:] == (6, 100)
    assert next(info(Bare()))["windows"] == len(windows_of(Bare(), "W01"))


def test_datasets_travel_between_processes(harth):
    dataset = HARTH(zipped(harth[0]))
    expected = dataset.windows("S006", cache=False)
    again = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(again.windows("S006", cache=False).x, expected.x)


# --- a user's own folder --------------------------------------------------------------------------------------

MAP = """
unit = "m/s^2"
tz = "Europe/Berlin"
window_s = 1.0
stride_s = 0.5
[columns]
time = "when"
label = "what"
x = "ax"
y = "ay"
z = "az"
[labels]
1 = "walk"
2 = "rest"
3 = "walk"
9 = ""
"""


def own_file(path, labels, start):
    n = len(labels)
    times = pd.date_range(start, periods=n, freq="20ms").strftime("%Y-%m-%d %H:%M:%S.%f")
    table = pd.DataFrame({"when": times, "ax": np.arange(n), "ay": 0.0, "az": 9.81, "what": labels})
    path.parent.mkdir(exist_ok=True, parents=True)
    table.to_csv(path, index=False)


@pytest.fixture
def own(tmp_path):
    own_file(tmp_path / "own" / "anna.csv", np.repeat([1, 2, 3, 9], 100), "2024-07-01 10:00:00")
    own_file(tmp_path / "own" / "bert" / "b-first.csv.gz", np.repeat([2], 100), "2024-07-01 12:00:00")
    own_file(tmp_path / "own" / "bert" / "a-later.csv", np.repeat([1], 100), "2024-07-01 12:00:12")
    (tmp_path / "MAP.toml").write_text(MAP)
    return tmp_path / "own", tmp_path / "MAP.toml"


def test_own_folder_of_files_and_subfolders(own):
    root, labels = own
    dataset = Folder(root, labels=labels)
    assert dataset.subjects() == ("anna", "bert")
    assert dataset.classes == ("walk", "rest")
    assert dataset.channels == ("x", "y", "z")
    assert (dataset.units, dataset.rate_hz, dataset.window_s) == (("m/s^2",) * 3, 50.0, 1.0)
    (recording,) = dataset.recordings("anna")
    assert recording.labels[[0, 100, 200, 300]].tolist() == [0, 1, 0, -1]
    assert recording.start == datetime(2024, 7, 1, 8, tzinfo=UTC)
    windows = dataset.windows("bert")
    assert windows.x.shape == (6, 3, 50)
    assert windows.label.tolist() == [1, 1, 1, 0, 0, 0]  # by the time they begin, not by their names
    assert windows.gap_before_s[3] == pytest.approx(10.0)
    (root / "MAP.toml").write_text(MAP)
    np.testing.assert_array_equal(Folder(root).windows("bert").x, windows.x)


def test_own_folder_cache_follows_the_map(own):
    root, labels = own
    assert (Folder(root, labels=labels).windows("bert").label == 1).sum() == 3
    labels.write_text(MAP.replace('2 = "rest"', '2 = ""') + '7 = "rest"\n')
    assert (Folder(root, labels=labels).windows("bert").label == -1).sum() == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("window_s", "windows_s"), "Did you mean 'window_s'"),
        (lambda text: text.split("[labels]")[0], "at least two classes"),
        (lambda text: text.replace('"walk"', "walk"), "is not TOML"),
        (lambda text: text.replace('3 = "walk"\n', ""), "label '3' is not in the map"),
        (lambda text: text.replace('"ay"', '"ayy"'), "ayy"),
        (lambda text: text.replace('"what"', '"whit"'), "whit"),
    ],
)
def test_own_folder_bad_maps(own, change, words):
    root, labels = own
    labels.write_text(change(MAP))
    with pytest.raises(ValueError, match=words) as caught:
        Folder(root, labels=labels)
    assert "\n" not in str(caught.value)


def test_own_folder_without_people_or_map(own, tmp_path):
    with pytest.raises(ValueError, match=r"no map at .*MAP.toml"):
        Folder(own[0])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no subject in"):
        Folder(tmp_path / "empty", labels=own[1])
