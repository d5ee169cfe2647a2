"""The plan of the example week, and the samples of a bout."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from tools.week_recording import DAYS, GAP, NON_WEAR, SLEEP, plan, samples


def test_the_plan_covers_the_week_without_overlaps():
    bouts = list(plan())
    assert bouts[0][0] == 0
    assert bouts[-1][1] == DAYS * 86400
    for (_, end, _), (start, _, _) in pairwise(bouts):
        assert abs(start - end) < 1e-6
    hours = {
        name: sum(b - a for a, b, kind in bouts if kind == name) / 3600 for name in (NON_WEAR, GAP, "jogging", SLEEP)
    }
    # A night of 8 h, 9.5 h before days at the weekend, of which two are spent without the device, and a lost hour
    assert [round(value, 2) for value in hours.values()] == [6.8 + 7.5 + 6.5, 3.25, 0.6 + 0.8, 7 * 8 + 3 - 1 - 13.3]


def test_a_bout_repeats_recorded_samples_at_another_rate():
    recorded = {"walking": np.stack([np.arange(10.0)] * 3, axis=1)}
    found = samples("walking", np.arange(200) / 100, recorded, 20.0, np.random.default_rng(0))
    assert found.min() >= 0
    assert found.max() <= 9
    assert abs(np.median(np.diff(found[:, 0])) - 0.2) < 1e-9


def test_an_arm_asleep_rests_in_several_directions():
    found = samples(SLEEP, np.arange(3600 * 10) / 10, {}, 20.0, np.random.default_rng(0)).reshape(-1, 50, 3)
    still = (found.std(axis=1) < 0.01).all(axis=1)
    assert 0.9 < still.mean() < 1
    means = found.mean(axis=1)[still]
    assert np.abs(np.linalg.norm(means, axis=1) - 1).max() < 0.01
    assert np.ptp(means, axis=0).min() > 0.3
