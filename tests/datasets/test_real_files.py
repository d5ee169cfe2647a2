"""The real corpora at hand: totals that are known, order in time, zip and folder alike."""

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


def totals(dataset, **overrides):
    """Labels of all windows of everybody, counted without `info`."""
    counts = np.zeros(len(dataset.classes) + 1, dtype=int)
    for subject in dataset.subjects():
        label = dataset.windows(subject, cache=False, **overrides).label
        counts += np.bincount(np.where(label < 0, len(dataset.classes), label), minlength=len(counts))
    return dict(zip([*dataset.classes, ""], counts.tolist(), strict=True))


@pytest.mark.parametrize("acc", ["total_acc", "body_acc"])
def test_hapt_the_ucihar_way(real, acc):
    dataset = HAPT(real("hapt.zip"), protocol="ucihar", acc=acc)
    assert dataset.subjects() == tuple(str(i) for i in range(1, 31))
    counts = totals(dataset)
    assert sum(counts.values()) == 10_411
    assert [counts[name] for name in ACTIVITIES] == [1722, 1544, 1407, 1801, 1979, 1958]
    x = dataset.windows("1").x
    assert x.shape[1:] == (6, 128)
    gravity = np.linalg.norm(x[:, :3].mean(axis=2), axis=1).mean()
    assert gravity == pytest.approx(1.0, abs=0.05) if acc == "total_acc" else gravity < 0.1


def test_hapt_as_it_was_worn(real):
    dataset = HAPT(real("hapt.zip"))
    recordings = [recording for subject in dataset.subjects() for recording in dataset.recordings(subject)]
    labels = np.concatenate([recording.labels for recording in recordings])
    assert len(recordings) == 61
    twelve = HAPT(real("hapt.zip"), transitions=True)
    labelled = np.concatenate([r.labels for s in twelve.subjects() for r in twelve.recordings(s)]) >= 0
    assert (~labelled).mean() == pytest.approx(0.27, abs=0.005)
    assert (labels >= 0).sum() < labelled.sum()
    windows = dataset.windows("1")
    assert (windows.label == -1).any()
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
    kept = dataset.windows("4", unlabelled="drop")
    assert len(kept) == (windows.label >= 0).sum() < len(windows)
    assert np.linalg.norm(windows.x[:, :3].mean(axis=2), axis=1).mean() == pytest.approx(1.0, abs=0.1)
    assert dataset.windows("4").facts["gyro_corrupted_recordings"] == 33


def test_wisdm_in_time_order(real):
    dataset = WISDM2019(real("wisdm2019_watch_accel.zip"))
    assert dataset.subjects() == tuple(str(i) for i in range(1600, 1624))
    activities, longest = [], 0.0
    for subject in dataset.subjects():
        (recording,) = dataset.recordings(subject)
        assert (np.diff(recording.time_s) > 0).all()
        activities.append(len(np.unique(recording.labels)))
        longest = max(longest, np.diff(recording.time_s).max())
        windows = dataset.windows(subject)
        assert windows.x.shape[1:] == (3, 100)
        assert (np.flatnonzero(np.diff(windows.label)) + 1).tolist() == np.flatnonzero(windows.gap_before_s).tolist()
    assert sorted(activities) == [17, 17, *[18] * 22]
    assert 48 < longest / 3600 < 50


def test_extrasensory(real):
    dataset = ExtraSensory(real("extrasensory_features.zip"))
    assert len(dataset.subjects()) == 14
    assert list(dataset.subjects()) == sorted(dataset.subjects())
    counts = totals(dataset)
    assert sum(counts.values()) == 69_044
    assert counts[""] / 69_044 == pytest.approx(0.16, abs=0.005)
    assert len(ExtraSensory(real("extrasensory_features.zip"), columns="all").channels) == 225
    windows = dataset.windows(dataset.subjects()[4])  # records every five minutes
    assert np.median(np.diff(windows.time_s)) == 300
    assert (windows.gap_before_s > 0).sum() == 40
    assert np.isnan(windows.x).any()


def test_zip_and_folder_give_the_same_windows(real, tmp_path):
    with zipfile.ZipFile(real("wisdm2019_watch_accel.zip")) as archive:
        archive.extract("raw/watch/accel/data_1605_accel_watch.txt", tmp_path / "unpacked")
    packed = WISDM2019(real("wisdm2019_watch_accel.zip")).windows("1605")
    unpacked = WISDM2019(tmp_path / "unpacked").windows("1605")
    np.testing.assert_array_equal(packed.x, unpacked.x)
    np.testing.assert_array_equal(packed.gap_before_s, unpacked.gap_before_s)


def test_a_second_load_is_faster(real):
    dataset = WISDM2019(real("wisdm2019_watch_accel.zip"))

    def seconds():
        began = time.perf_counter()
        windows = dataset.windows("1609")
        return time.perf_counter() - began, windows

    first, made = seconds()
    second, again = seconds()
    print(f"first load {first:.3f} s, from the cache {second:.3f} s: {first / second:.1f} times faster")
    assert second < first / 2
    np.testing.assert_array_equal(made.x, again.x)
    assert made.facts == again.facts


def test_info_counts_what_the_windows_hold(real):
    rows = list(info(HAPT(real("hapt.zip"), protocol="ucihar")))
    assert len(rows) == 30
    assert sum(row["windows"] for row in rows) == 10_411
    assert sum(row["labels"]["walking"] for row in rows) == 1722
    assert all(row["gaps"] > 0 for row in rows)
