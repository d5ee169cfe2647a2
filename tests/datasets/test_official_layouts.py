"""Datasets read from small files in their official layout, including unusual cases."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from sight.datasets.extrasensory import MOTION, SIX, ExtraSensory
from sight.datasets.hapt import HAPT
from sight.datasets.harth import HARTH, HAR70plus
from sight.datasets.hugadb import HuGaDB
from sight.datasets.ucihar import UCIHAR
from sight.datasets.uschad import USCHAD
from sight.datasets.wisdm2019 import COARSE, WISDM2019
from tests.helpers.layouts import RNG, harth_table, overlapping, ucihar, zipped


def test_hapt_labels_and_transitions(tmp_path):
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
    with pytest.raises(ValueError, match="label 13 "):
        next(HAPT(tmp_path).recordings("1"))
    (raw / "gyro_exp01_user01.txt").unlink()
    with pytest.raises(ValueError, match=r"gyro_exp01_user01.txt is missing"):
        next(HAPT(tmp_path).recordings("1"))
    (raw / "labels.txt").write_text("1 1 5 11 300\n")
    (recording,) = HAPT(tmp_path, gyro=False).recordings("1")
    np.testing.assert_allclose(recording.values, signal[:, :3], rtol=1e-6)
    assert recording.channels == ("acc_x", "acc_y", "acc_z")


def test_hapt_filters(tmp_path):
    raw = tmp_path / "RawData"
    raw.mkdir()
    t = np.arange(3000) / 50
    walk, noise = 0.5 * np.sin(2 * np.pi * 2 * t), 0.5 * np.sin(2 * np.pi * 24 * t)
    np.savetxt(raw / "acc_exp01_user01.txt", np.column_stack([1 + walk + noise, 1 + walk, walk]))
    np.savetxt(raw / "gyro_exp01_user01.txt", np.column_stack([walk] * 3))
    (raw / "labels.txt").write_text("1 1 1 1 3000\n")
    total = HAPT(tmp_path, protocol="ucihar").windows("1").x[20:25].astype(float)
    body = HAPT(tmp_path, protocol="ucihar", acc="body_acc").windows("1").x[20:25].astype(float)
    np.testing.assert_allclose(total[:, 1].mean(), 1, atol=0.01)
    np.testing.assert_allclose(body[:, 1].mean(), 0, atol=0.01)
    clean = np.sin(2 * np.pi * 2 * (t[20 * 64 : 20 * 64 + 128])) * 0.5
    assert np.abs(body[0, 1] - clean).max() < 0.03  # zero phase
    assert np.abs(total[0, 0] - total[0, 1]).max() < 0.5 * 0.5  # most of the noise is removed
    np.testing.assert_array_equal(total[:, 3:], body[:, 3:])
    causal = HAPT(tmp_path, protocol="ucihar", acc="body_acc", filters="ucihar").windows("1").x[20:25].astype(float)
    assert np.abs(causal[0, 1] - clean).max() > 0.1  # delayed
    assert np.abs(causal[0, 1]).max() == pytest.approx(0.5, abs=0.03)
    np.testing.assert_allclose(causal[:, 1].mean(), 0, atol=0.01)


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
    assert recordings[2].time_s[0] == pytest.approx(60 + 300 * 0.017)  # same minute: right after the previous one
    assert recordings[0].labels[[0, 149, 150]].tolist() == [0, 0, -1]  # bicycling is not one of the six
    assert [recording.facts.details["gyro_corrupted_recordings"] for recording in recordings] == [0, 1, 0, 0]
    assert recordings[2].facts.details["gyro_clipped_samples"] == 300
    windows = dataset.windows("1", unlabelled="drop")
    assert windows.x.shape[1:] == (6, 112)
    assert (windows.label == 0).all()
    assert windows.facts.details["gyro_corrupted_recordings"] == 1
    assert HuGaDB(tmp_path, labels="twelve").classes[
        next(HuGaDB(tmp_path, labels="twelve").recordings("1")).labels[200]
    ] == ("bike")
    with pytest.raises(ValueError, match="acc_lt_x"):
        next(HuGaDB(tmp_path, sensor="lt").recordings("1"))


def test_wisdm_blocks_are_ordered_by_timestamps(tmp_path):
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
    # D ends 50 ms before A begins, so there is no gap; the window across both has no label.
    assert [WISDM2019.classes[k] if k >= 0 else "" for k in windows.label] == [
        *["jogging"] * 4,
        *["sitting"] * 4,
        "",
        *["walking"] * 4,
    ]
    assert np.flatnonzero(windows.gap_before_s).tolist() == [4]


def test_wisdm_coarse_labels_keep_the_order_of_activities(tmp_path):
    # H, I and J are kinds of eating and follow each other in the file, but not in time.
    lines = [
        f"1600,{letter},{int(1e9 * (start + 0.05 * k))},0,0,1;"
        for letter, start in (("H", 90), ("I", 10), ("J", 50))
        for k in range(9)
    ]
    (tmp_path / "data_1600_accel_watch.txt").write_text("\n".join(lines))
    dataset = WISDM2019(tmp_path, labels="coarse")
    (recording,) = dataset.recordings("1600")
    assert (np.diff(recording.time_s) > 0).all()
    assert {dataset.classes[k] for k in recording.labels} == {"eating"}
    assert set(COARSE) == set(dataset.classes)


def test_extrasensory_labels_and_gaps(tmp_path):
    subject = "00EABED2-271D-49D8-B599-1D4A09240601"
    columns = ["timestamp", *MOTION, "discrete:app_state:is_active", *SIX, "label:SLEEPING", "label_source"]
    table = pd.DataFrame(0.0, index=range(5), columns=columns)
    table["timestamp"] = [1444079161, 1444079221, 1444079521, 1444080200, 1444080260]
    table[MOTION[0]] = [np.e - 1, 1 - np.e, np.nan, 0, 2]
    table.loc[0, "label:SITTING"] = 1
    table.loc[1, ["label:SITTING", "label:LYING_DOWN"]] = 1
    table.loc[2, "label:OR_standing"] = np.nan
    table.loc[3, ["label:BICYCLING", "label:SLEEPING"]] = 1
    table.loc[4, list(SIX)] = [1, np.nan, np.nan, np.nan, np.nan, 0]
    table.to_csv(tmp_path / f"{subject}.features_labels.csv.gz", index=False)
    (recording,) = ExtraSensory(tmp_path).recordings(subject)
    np.testing.assert_allclose(recording.values[:, 0], [1, -1, np.nan, 0, np.log(3)], rtol=1e-6)
    assert recording.labels.tolist() == [1, -1, -1, 5, 0]
    assert recording.start == datetime.fromtimestamp(1444079161, UTC)
    windows = ExtraSensory(tmp_path).windows(subject)
    assert windows.x.shape == (5, 98, 1)
    assert windows.gap_before_s.tolist() == [0, 0, 0, 619, 0]  # five minutes are not a gap, eleven are
    assert np.isnan(windows.x[2, 0, 0])
    everything = ExtraSensory(tmp_path, columns="all", scale="raw")
    assert everything.channels == (*MOTION, "discrete:app_state:is_active")
    assert next(everything.recordings(subject)).values[4, 0] == 2
    kept = ExtraSensory(tmp_path).windows(subject, unlabelled="drop")
    assert kept.label.tolist() == [1, 5, 0]
    assert kept.gap_before_s.tolist() == [0, 1039 - 60, 0]


def test_harth_files_with_and_without_index(harth):
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
    assert HARTH.classes == ("cycling_like", "lying", "sitting", "standing", "walking_like")  # unchanged by instances


def test_harth_windows_from_folder_and_zip_are_equal(harth):
    root, plain = harth
    from_folder = HARTH(root).windows("S006")
    from_zip = HARTH(zipped(root)).windows("S006")
    np.testing.assert_array_equal(from_folder.x, from_zip.x)
    assert from_folder.x.shape == (9, 3, 100)  # 10 s in windows of 2 s, one each second
    np.testing.assert_allclose(
        from_folder.x[3], plain[["thigh_x", "thigh_y", "thigh_z"]].to_numpy()[150:250].T, rtol=1e-6
    )
    # Windows halfway between two activities are a tie; the lower class index wins.
    order = [HARTH.classes.index(name) for name in ("walking_like", "standing", "sitting", "lying", "cycling_like")]
    expected = [order[0], min(order[:2]), order[1], min(order[1:3]), order[2], min(order[2:4]), order[3]]
    assert from_folder.label.tolist() == [*expected, min(order[3:]), order[4]]


def test_har70plus_uses_the_loader_of_harth(tmp_path):
    harth_table(np.repeat([1, 8], 100)).to_csv(tmp_path / "501.csv", index=False)
    harth_table(np.repeat([3, 7], 100)).to_csv(tmp_path / "518.csv", index=False)
    dataset = HAR70plus(tmp_path)
    assert dataset.subjects() == ("501", "518")
    assert set(np.array(dataset.classes)[next(dataset.recordings("501")).labels]) == {"walking_like", "lying"}


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


def test_uschad_rejects_other_matrices(uschad):
    from scipy.io import savemat

    savemat(uschad / "Subject2" / "a8t5.mat", {"sensor_readings": np.zeros((9, 5))})
    (uschad / "Subject14" / "a10t3.mat").write_bytes(b"MATLAB 5.0 MAT-file, but cut short")
    with pytest.raises(ValueError, match=r"expected sensor_readings \(n, 6\), got \(9, 5\)"):
        list(USCHAD(uschad).recordings("2"))
    with pytest.raises(ValueError, match="MATLAB"):
        list(USCHAD(uschad).recordings("14"))


@pytest.fixture
def ucihar_tree(tmp_path):
    standing, walking, other = (RNG.normal(size=(9, 128 + 64 * (n - 1))).round(6) for n in (4, 3, 2))
    rows = [(1, 5, overlapping(4, standing)), (1, 1, overlapping(3, walking)), (3, 6, overlapping(2, other))]
    ucihar(tmp_path, {"train": rows, "test": [(2, 4, overlapping(2, other))]})
    return tmp_path, standing, walking


def test_ucihar_windows_equal_the_lines_of_the_files(ucihar_tree):
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


def test_ucihar_recordings_join_overlapping_windows(ucihar_tree):
    root, standing, walking = ucihar_tree
    first, second = UCIHAR(root, acc="total_acc").recordings("1")
    np.testing.assert_allclose(first.values.T, standing[[0, 1, 2, 6, 7, 8]], rtol=1e-6)
    np.testing.assert_allclose(second.values.T, walking[[0, 1, 2, 6, 7, 8]], rtol=1e-6)
    shorter = UCIHAR(root).windows("1", window_s=1.28, stride_s=1.28)
    assert shorter.x.shape == (9, 6, 64)  # 5 and 4 halves


def test_ucihar_rejects_missing_and_short_files(ucihar_tree):
    root, _, _ = ucihar_tree
    signals = root / "UCI HAR Dataset" / "test" / "Inertial Signals"
    (signals / "body_acc_x_test.txt").write_text("1 2 3\n4 5 6\n")
    with pytest.raises(ValueError, match="expected 128 values a line"):
        UCIHAR(root).windows("2")
    (signals / "body_acc_x_test.txt").unlink()
    with pytest.raises(ValueError, match=r"body_acc_x_test.txt is missing"):
        UCIHAR(root).windows("2")
