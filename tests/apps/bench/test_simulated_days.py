"""Streams of days: shares, bout lengths, recorded order, and subjects that lack windows."""

from __future__ import annotations

import numpy as np
import pytest

from sight.apps.bench import simulated_days
from sight.apps.bench.simulated_days import BOUT, DAY, DOMINATED, LENGTH, day_stream
from sight.apps.bench.stream_orders import stream_index
from sight.apps.bench.trials import Setting, Trial

#: Five classes with 40 windows each, in two recorded segments.
LABELS = np.tile(np.repeat(np.arange(5), 20), 2)
SEEDS = range(200)


def classes_of(kind: str, seeds=SEEDS, **roles: int) -> np.ndarray:
    """Return the classes of many streams, (streams, length)."""
    return np.array([LABELS[day_stream(LABELS, kind, seed, **roles)] for seed in seeds])


def bout_lengths(classes: np.ndarray, own: int) -> list[int]:
    """Return the lengths of the bouts of a class that neither start nor end a stream."""
    found = []
    for stream in classes:
        edges = np.flatnonzero(np.diff(stream)) + 1
        inner = [part for part in np.split(stream, edges)[1:-1] if part[0] == own]
        found += [len(part) for part in inner]
    return found


@pytest.mark.parametrize("kind", DOMINATED)
@pytest.mark.parametrize("dominating", [0, 3])
def test_one_class_fills_its_share_at_every_position(kind, dominating):
    found, share = classes_of(kind, dominating=dominating), DOMINATED[kind]
    assert found.shape == (len(SEEDS), LENGTH)
    own = found == dominating
    assert own.mean() == pytest.approx(share, abs=0.03)
    assert own[:, :100].mean() == pytest.approx(share, abs=0.08)  # neither more nor less at the start
    others = [(found == k).mean() for k in range(5) if k != dominating]
    assert others == pytest.approx([(1 - share) / 4] * 4, abs=0.02)


def test_bouts_are_exponential():
    found = classes_of("day-60", dominating=2)
    for own, mean in ((2, BOUT * 0.6 / 0.4), (0, BOUT)):
        lengths = np.array(bout_lengths(found, own))
        assert lengths.mean() == pytest.approx(mean, rel=0.1)
        assert lengths.std() == pytest.approx(mean, rel=0.15)  # standard deviation and mean are equal
    edges = np.diff(found, axis=1) != 0
    assert ((found[:, 1:] == 2) | (found[:, :-1] == 2))[edges].all()  # every other bout is of the dominating class


def test_time_use_of_a_waking_day():
    found = classes_of("time-use", dominating=1, standing=4)
    shares = np.bincount(found.ravel(), minlength=5) / found.size
    assert sum(simulated_days.TIME_USE) == pytest.approx(1)
    assert shares == pytest.approx([0.17 / 3, 0.64, 0.17 / 3, 0.17 / 3, 0.19], abs=0.03)


def test_partial_streams_have_a_third_of_the_classes_in_equal_shares():
    found = classes_of("partial")
    assert {len(np.unique(stream)) for stream in found} == {2}
    assert set(np.unique(found)) == set(range(5))  # which ones depends on the seed
    assert [(found == k).mean() for k in range(5)] == pytest.approx([0.2] * 5, abs=0.06)
    assert np.mean([n for k in range(5) for n in bout_lengths(found, k)]) == pytest.approx(BOUT, rel=0.1)
    sixteen = np.repeat(np.arange(16), 5)
    assert len(np.unique(sixteen[day_stream(sixteen, "partial", 0)])) == 5


def test_a_week_has_five_weekdays_and_a_weekend():
    found = classes_of("week", dominating=0)
    assert found.shape[1] == 7 * DAY
    shares = (found == 0).reshape(len(SEEDS), 7, DAY).mean(axis=(0, 2))
    assert shares == pytest.approx([0.7] * 5 + [0.4] * 2, abs=0.04)


@pytest.mark.parametrize("kind", simulated_days.ORDERS)
def test_windows_of_a_class_keep_their_recorded_order_and_repeat(kind):
    index = day_stream(LABELS, kind, 7, dominating=1, standing=2)
    for own in np.unique(LABELS[index]):
        windows = np.flatnonzero(own == LABELS)
        taken = index[LABELS[index] == own]
        assert taken.tolist() == np.resize(windows, len(taken)).tolist()
    assert (day_stream(LABELS, kind, 7, dominating=1, standing=2) == index).all()
    assert (day_stream(LABELS, kind, 8, dominating=1, standing=2) != index).any()


def test_subjects_that_lack_windows_have_no_stream():
    few = np.repeat([0, 1, 2, -1], [40, 4, 40, 40])
    assert day_stream(few, "day-80", 0, dominating=1) is None
    found = day_stream(few, "day-80", 0, dominating=0)
    assert set(few[found]) == {0, 2}  # neither the rare class nor unlabelled windows
    assert day_stream(few, "time-use", 0, dominating=0, standing=1) is None
    assert day_stream(few, "time-use", 0, dominating=0, standing=2) is None  # no other class left
    for one in (np.zeros(50, int), np.full(50, -1), np.array([], int)):
        assert day_stream(one, "day-60", 0, dominating=0) is None
        assert day_stream(one, "partial", 0) is None
        assert day_stream(one, "week", 0, dominating=0) is None


def test_orders_name_their_classes():
    plan = {"name": "s", "dataset": "d", "options": {}, "pairs": ()}
    setting = Setting(**plan, sedentary=("sit", "stand still"), standing="stand still")

    def index(order: str, target: str = "B"):
        trial = Trial(sources=("A",), target=target, seed=0, encoder="cnn", order=order)
        return stream_index(LABELS, trial, setting, ["walk", "sit", "stand still", "run", "lie"])

    most = {order: int(np.bincount(LABELS[index(order)]).argmax()) for order in ("day-94 sit", "day-94 stand still")}
    assert most == {"day-94 sit": 1, "day-94 stand still": 2}
    assert np.bincount(LABELS[index("week")]).argmax() == np.bincount(LABELS[index("time-use")]).argmax() == 1
    # The lengths of bouts depend on the target, so that shares average out over targets.
    assert (index("day-80 sit") != index("day-80 sit", target="C")).any()
