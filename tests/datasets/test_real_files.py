"""Real datasets: totals, order in time, zip and folder."""

from __future__ import annotations

import time
import zipfile

import numpy as np
import pytest

from sight.datasets import info
from sight.datasets.extrasensory import ExtraSensory
from sight.datasets.hapt import ACTIVITIES, HAPT
from sight.datasets.hugadb import HuGaDB
from sight.datasets.wisdm2019 import WISDM2019

pytestmark = pytest.mark.real


def test_hapt_ucihar_protocol(real):
    dataset = HAPT(real("hapt.zip"), protocol="ucihar")
    assert dataset.subjects() == tuple(str(i) for i in range(1, 31))
    rows = list(info(dataset))
    assert sum(row["windows"] for row in rows) == 10_411
    counts = [sum(row["labels"][name] for row in rows) for name in ACTIVITIES]
    assert counts == [1722, 1544, 1407, 1801, 1979, 1958]
    assert all(row["gaps"] > 0 for row in rows)
    assert gravity(dataset.windows("1")) == pytest.approx(1.0, abs=0.05)
    body = HAPT(real("hapt.zip"), protocol="ucihar", acc="body_acc").windows("1")
    assert body.x.shape == dataset.windows("1").x.shape == (rows[0]["windows"], 6, 128)
    assert gravity(body) < 0.1


def test_the_order_of_the_files_of_ucihar(real):
    dataset = HAPT(real("hapt.zip"), protocol="ucihar", order="ucihar")
    in_time = HAPT(real("hapt.zip"), protocol="ucihar").windows("3")
    windows = dataset.windows("3")
    with zipfile.ZipFile(real("ucihar_labels.zip")) as labels:
        subjects, activities = (
            np.array(labels.read(f"train/{name}_train.txt").split(), int) for name in ("subject", "y")
        )
    published = activities[subjects == 3] - 1
    starts = [np.append(True, np.diff(label) != 0) for label in (windows.label, published)]
    assert windows.label[starts[0]].tolist() == published[starts[1]].tolist()
    assert np.bincount(windows.label).tolist() == np.bincount(in_time.label).tolist()
    assert sorted(windows.x[:, 0, 0]) == sorted(in_time.x[:, 0, 0])
    assert (windows.gap_before_s > 0).sum() <= 1  # at most between the two recordings


@pytest.mark.parametrize("acc", ["total_acc", "body_acc"])
def test_windows_of_ucihar(real, acc):
    """UCI-HAR's first windows are of subject 1; half of them start where `sight` starts one."""
    with np.load(real("ucihar_window_sample.npz")) as sample:
        published, label = sample[f"{acc}_train"][:80], sample["y_train"][:80] - 1
    windows = HAPT(real("hapt.zip"), protocol="ucihar", acc=acc, filters="ucihar").windows("1")
    errors_g = np.abs(windows.x[None, :, :3] - published[:, None]).max(axis=(2, 3))
    same = errors_g.min(axis=1) < 0.001  # the sample has four digits
    assert same.sum() == 42
    assert (windows.label[errors_g.argmin(axis=1)] == label)[same].all()


def test_zero_phase_filters_differ_most_from_ucihar_in_movement(real):
    with np.load(real("ucihar_window_sample.npz")) as sample:
        published, label = sample["total_acc_train"][:80], sample["y_train"][:80] - 1
    windows = HAPT(real("hapt.zip"), protocol="ucihar").windows("1")
    errors_g = np.sqrt(((windows.x[None, :, :3] - published[:, None]) ** 2).mean(axis=(2, 3)))
    nearest = errors_g.argmin(axis=1)
    assert (windows.label[nearest] == label).all()
    moving, least = label < 3, errors_g.min(axis=1)
    assert np.median(least[~moving]) < 0.005
    assert np.median(least[moving]) < 0.12
    assert least.max() < 0.25


def test_hapt_stream_protocol(real):
    dataset = HAPT(real("hapt.zip"), transitions=True)
    recordings = [recording for subject in dataset.subjects() for recording in dataset.recordings(subject)]
    labels = np.concatenate([recording.labels for recording in recordings])
    assert len(recordings) == 61
    assert (labels < 0).mean() == pytest.approx(0.27, abs=0.005)
    assert (labels >= len(ACTIVITIES)).any()
    windows = HAPT(real("hapt.zip")).windows("1")
    assert set(windows.label) == {-1, *range(len(ACTIVITIES))}
    assert (np.diff(windows.time_s) > 0).all()


def test_hugadb(real):
    dataset = HuGaDB(real("hugadb_right_thigh.zip"))
    assert dataset.subjects() == tuple(str(i) for i in range(1, 19))
    samples = recordings = 0
    for subject in dataset.subjects():
        end = -1.0
        for recording in dataset.recordings(subject):
            assert recording.time_s[0] > end
            end = recording.time_s[-1]
            samples += len(recording.values)
            recordings += 1
    assert (recordings, samples) == (635, 2_111_869)
    windows = dataset.windows("4")
    assert windows.x.shape[1:] == (6, 112)
    assert gravity(windows) == pytest.approx(1.0, abs=0.1)
    assert windows.facts.details["gyro_corrupted_recordings"] == 33
    kept = dataset.windows("4", unlabelled="drop")
    assert len(kept) == (windows.label >= 0).sum() < len(windows)


def test_wisdm_in_time_order(real):
    dataset = WISDM2019(real("wisdm2019_watch_accel.zip"))
    assert dataset.subjects() == tuple(str(i) for i in range(1600, 1624))
    activities, longest = [], 0.0
    for subject in dataset.subjects():
        (recording,) = dataset.recordings(subject)
        assert (np.diff(recording.time_s) > 0).all()
        activities.append(len(np.unique(recording.labels)))
        longest = max(longest, np.diff(recording.time_s).max())
    assert sorted(activities) == [17, 17, *[18] * 22]
    assert 48 < longest / 3600 < 50
    for subject in dataset.subjects()[::4]:
        windows = dataset.windows(subject)
        assert windows.x.shape[1:] == (3, 100)
        assert (np.flatnonzero(np.diff(windows.label)) + 1).tolist() == np.flatnonzero(windows.gap_before_s).tolist()


def test_extrasensory(real):
    dataset = ExtraSensory(real("extrasensory_features.zip"))
    assert len(dataset.subjects()) == 14
    assert list(dataset.subjects()) == sorted(dataset.subjects())
    rows = list(info(dataset))
    assert sum(row["windows"] for row in rows) == 69_044
    assert sum(row["unlabelled"] for row in rows) / 69_044 == pytest.approx(0.16, abs=0.005)
    assert len(ExtraSensory(real("extrasensory_features.zip"), columns="all").channels) == 225
    windows = dataset.windows(dataset.subjects()[4])  # records every five minutes
    assert np.median(np.diff(windows.time_s)) == 300
    assert (windows.gap_before_s > 0).sum() == 40
    assert np.isnan(windows.x).any()


def test_zip_and_folder_have_the_same_windows(real, tmp_path):
    with zipfile.ZipFile(real("wisdm2019_watch_accel.zip")) as archive:
        archive.extract("raw/watch/accel/data_1605_accel_watch.txt", tmp_path / "unpacked")
    packed = WISDM2019(real("wisdm2019_watch_accel.zip")).windows("1605")
    unpacked = WISDM2019(tmp_path / "unpacked").windows("1605")
    np.testing.assert_array_equal(packed.x, unpacked.x)
    np.testing.assert_array_equal(packed.gap_before_s, unpacked.gap_before_s)


def test_cached_windows_load_faster(real):
    dataset = WISDM2019(real("wisdm2019_watch_accel.zip"))

    def timed():
        began = time.process_time()
        windows = dataset.windows("1609")
        return time.process_time() - began, windows

    first_s, made = timed()
    second_s, cached = timed()
    assert second_s < first_s / 2
    np.testing.assert_array_equal(made.x, cached.x)
    assert made.facts == cached.facts


def gravity(windows):
    """Return the mean length of the mean acceleration of each window."""
    return np.linalg.norm(windows.x[:, :3].mean(axis=2), axis=1).mean()
