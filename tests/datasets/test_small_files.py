"""Corpora at hand, in small, and what all corpora share."""

from __future__ import annotations

import pickle
import zipfile
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from sight import registry
from sight.datasets import Dataset, info, load, windows_of
from sight.datasets._dataset_files import Store
from sight.datasets.extrasensory import MOTION, SIX, ExtraSensory
from sight.datasets.hapt import HAPT
from sight.datasets.harth import HARTH
from sight.datasets.hugadb import HuGaDB
from sight.datasets.ucihar import UCIHAR
from sight.datasets.wisdm2019 import WISDM2019
from tests.helpers.layouts import RNG, harth_table, zipped

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
    assert rows[0]["seconds"] == 9.0
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
