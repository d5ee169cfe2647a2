"""Synthetic wearers: mechanics, differences between wearers, reproducibility."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sight.datasets.synthetic import ACTIVITIES, Synthetic
from sight.registry import get

LYING, SITTING, STANDING, WALKING, STAIRS, RUNNING, CYCLING = range(7)


def record(subject="W01", rate_hz=50.0, **options):
    dataset = Synthetic(**options)
    dataset._override(rate_hz=rate_hz)
    return next(dataset.recordings(subject))


@pytest.fixture(scope="module")
def twin():
    """The recording of a wearer without individual differences or gaps."""
    return record(shift=0, gaps_per_hour=0, hours=2, seed=3)


def steady(recording, label, seconds=8.0):
    """Return slices of one activity without its first seconds, the transition."""
    edges = np.flatnonzero(np.diff(recording.labels, prepend=-9, append=-9))
    skip = round(seconds * recording.rate_hz)
    return [slice(a + skip, b) for a, b in pairwise(edges) if recording.labels[a] == label and b - a > 2 * skip]


def test_registered_with_all_facts():
    cls = get("datasets", "synthetic")
    assert cls is Synthetic
    dataset = cls(wearers=3)
    assert dataset.subjects() == ("W01", "W02", "W03")
    assert len(dataset.classes) == len(ACTIVITIES) == 7
    assert len(dataset.channels) == len(dataset.units) == 6
    assert dataset.licence
    assert dataset.citation


def test_a_wearer_is_determined_by_name_and_seed():
    a, b = record("W02", hours=0.05), record("W02", hours=0.05, wearers=40)
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.labels, b.labels)
    assert not np.array_equal(a.labels, record("W03", hours=0.05).labels) or not np.allclose(
        a.values[:100], record("W03", hours=0.05).values[:100]
    )
    assert not np.allclose(a.values[:100], record("W02", hours=0.05, seed=1).values[:100])


@pytest.mark.parametrize(
    ("label", "direction"), [(STANDING, (-1, 0, 0)), (SITTING, (-0.25, 0, 0.97)), (CYCLING, (-0.47, 0, 0.88))]
)
def test_direction_of_gravity_in_each_posture(twin, label, direction):
    mean = np.concatenate([twin.values[part, :3] for part in steady(twin, label)]).mean(axis=0)
    angle = np.degrees(np.arccos(mean @ direction / np.linalg.norm(mean) / np.linalg.norm(direction)))
    assert angle < 8


@pytest.mark.parametrize("label", [LYING, SITTING, STANDING])
def test_still_postures_measure_one_g_and_little_rotation(twin, label):
    still = np.concatenate([twin.values[part] for part in steady(twin, label)])
    assert np.abs(np.linalg.norm(still[:, :3], axis=1) - 1).mean() < 0.02
    assert np.median(np.abs(still[:, 3:])) < 5


@pytest.mark.parametrize(("label", "stride_hz"), [(WALKING, 0.92), (STAIRS, 0.80), (RUNNING, 1.38), (CYCLING, 1.15)])
def test_rotation_has_the_stride_rate(twin, label, stride_hz):
    peaks = []
    for part in steady(twin, label):
        turn = twin.values[part, 4] - twin.values[part, 4].mean()
        power = np.abs(np.fft.rfft(turn, n=1 << 15)) ** 2
        peaks.append(np.fft.rfftfreq(1 << 15, 1 / twin.rate_hz)[power.argmax()])
    assert np.median(peaks) == pytest.approx(stride_hz, rel=0.1)


def test_gyroscope_agrees_with_gravity_in_transitions():
    """Integrating the rotation from one posture gives the gravity of the next, for any mounting."""
    moved, missed = [], []
    for subject in ("W01", "W02", "W03"):
        recording = record(subject, hours=1.2, gaps_per_hour=0, shift=1)
        offset = recording.values[np.abs(recording.values[:, 3:]).max(axis=1) < 6, 3:].mean(axis=0)
        for change in np.flatnonzero(np.diff(recording.labels)) + 1:
            part = slice(change - 50, change + 200)
            if (
                recording.labels[change - 1] > STANDING
                or recording.labels[change] > STANDING
                or part.stop > len(recording.labels)
            ):
                continue
            acc, rate = recording.values[part, :3].astype(float), np.radians(recording.values[part, 3:] - offset)
            up = before = acc[:10].mean(axis=0)
            for omega in rate[5:-5]:
                up = up - np.cross(omega, up) / recording.rate_hz
                up *= np.linalg.norm(before) / np.linalg.norm(up)
            after = acc[-10:].mean(axis=0)
            moved.append(_angle(before, after))
            missed.append(_angle(up, after))
    assert len(moved) > 10
    assert np.median(moved) > 40
    assert np.median(missed) < 6


def _angle(a, b):
    return np.degrees(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1)))


def test_transitions_are_smooth(twin):
    calm = np.isin(twin.labels, (LYING, SITTING, STANDING))
    rate = np.linalg.norm(twin.values[calm, 3:], axis=1)
    assert np.percentile(rate, 99.9) < 500


def test_gaps_are_jumps_of_the_timestamps():
    recording = record(hours=3, gaps_per_hour=3, rate_hz=10.0)
    jumps = np.diff(recording.time_s)
    gaps = jumps[jumps > Synthetic.max_gap_s]
    assert len(gaps) >= 3
    assert gaps.min() > 29
    assert (gaps - 1 / recording.rate_hz).sum() == pytest.approx(recording.facts.details["missing_s"], abs=0.1)
    assert np.diff(record(hours=0.2, gaps_per_hour=0).time_s).max() == pytest.approx(0.02)


def test_windows_have_gaps_and_labels():
    dataset = Synthetic(hours=0.5, gaps_per_hour=8)
    windows = dataset.windows("W02", cache=False)
    assert windows.x.shape[1:] == (6, 100)
    assert (windows.gap_before_s > 0).sum() >= 1
    recording = next(dataset.recordings("W02"))
    for i in (0, 400, len(windows) - 1):
        first = np.searchsorted(recording.time_s, windows.time_s[i] - 1e-6)
        assert windows.label[i] == np.bincount(recording.labels[first : first + 100]).argmax()


def test_durations_and_order_of_bouts():
    labels = record(hours=8, gaps_per_hour=0, rate_hz=10.0).labels
    edges = np.flatnonzero(np.diff(labels, prepend=-9, append=-9))
    order, lasts = labels[edges[:-1]], np.diff(edges) / 10
    assert set(order) == set(range(7))
    walks = lasts[order == WALKING]
    assert walks.mean() > 1.15 * np.median(walks)
    assert lasts[:-1].min() >= 5 - 0.1
    assert not ((order[:-1] == LYING) & (order[1:] == CYCLING)).any()
    assert ((order[:-1] == STANDING) & (order[1:] == WALKING)).any()


def test_the_work_grows_with_the_length():
    """An hour is computed in one pass over arrays: it costs at most a few times what six minutes cost, per sample."""

    def seconds(hours):
        begin = time.process_time()
        record(hours=hours)
        return time.process_time() - begin

    seconds(0.1)
    assert min(seconds(1) for _ in range(3)) < 30 * max(min(seconds(0.1) for _ in range(3)), 0.01)


def features(dataset, subject):
    recording = next(dataset.recordings(subject))
    starts = np.arange(0, len(recording.values) - 100, 50)
    windows = recording.values[starts[:, None] + np.arange(100)]
    return np.hstack([windows.mean(axis=1), windows.std(axis=1)]), recording.labels[starts + 50]


def macro_f1(shift):
    """Return macro-F1 on three unseen wearers of a model of four others, and of own models on held-out data."""
    dataset = Synthetic(shift=shift)
    data = {subject: features(dataset, subject) for subject in dataset.subjects()[:7]}
    sources = [np.concatenate(parts) for parts in zip(*(data[s] for s in dataset.subjects()[:4]), strict=True)]
    source_model = fitted(*sources)
    cross, own = [], []
    for subject in dataset.subjects()[4:7]:
        x, y = data[subject]
        held_out = np.arange(len(y)) // 60 % 2 == 1
        cross.append(f1_score(y, source_model.predict(x), average="macro"))
        own.append(f1_score(y[held_out], fitted(x[~held_out], y[~held_out]).predict(x[held_out]), average="macro"))
    return np.mean(cross), np.mean(own)


def fitted(x, y):
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(x, y)


def test_shift_sets_the_difference_between_wearers():
    cross, own = macro_f1(shift=1.0)
    assert 0.6 < cross < 0.9
    assert own > 0.9
    cross, _ = macro_f1(shift=0.0)
    assert cross > 0.9


def test_unknown_wearers_and_invalid_options_are_rejected():
    with pytest.raises(ValueError, match="W13"):
        next(Synthetic().recordings("W13"))
    for options in ({"wearers": 0}, {"hours": 0}, {"shift": -1}, {"gaps_per_hour": -1}):
        with pytest.raises(ValueError, match="expected"):
            Synthetic(**options)
