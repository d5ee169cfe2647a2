"""Nights against a literal transcription of the published steps, and on made days."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sight.recordings.signal.nights import find_nights, find_sleep, in_bed
from sight.types import EPOCH_S, Epochs
from tests.helpers.made_nights import HOUR_S, made_epochs

#: Hours of successive noons of a recording that begins at midnight.
NOONS = [(HOUR_S * (24 * day - 12), HOUR_S * (24 * day + 12)) for day in range(6)]


def hours(nights):
    return [(round(n.onset_s / HOUR_S, 2), round(n.wake_s / HOUR_S, 2)) if n.is_found else None for n in nights]


def published_period(angle):
    """Return the first epoch of the sleep period of a day of angles and the one after it, in slow loops."""
    change = [abs(b - a) for a, b in pairwise(angle)]
    medians = [np.median(change[i - 29 : i + 30]) for i in range(29, len(change) - 29)]
    threshold = min(max(15 * np.percentile(medians, 10), 0.13), 0.5)
    rest, blocks = [median < threshold for median in medians], []
    start = None
    for i, still in enumerate([*rest, False]):
        if still and start is None:
            start = i
        if not still and start is not None:
            if i - start > 30 * 12:
                blocks.append([start, i])
            start = None
    joined = []
    for block in blocks:
        if joined and block[0] - joined[-1][1] < 60 * 12:
            joined[-1][1] = block[1]
        else:
            joined.append(block)
    first, last = max(joined, key=lambda block: block[1] - block[0])
    return first + 29, last + 29 + 1  # the last difference is that to the next epoch


def published_sleep(angle):
    """Return whether each epoch belongs to five minutes without a change of more than five degrees."""
    asleep = [False] * len(angle)
    for i in range(len(angle) - 59):
        if all(abs(b - a) <= 5 for a, b in zip(angle[i : i + 59], angle[i + 1 : i + 60], strict=True)):
            asleep[i : i + 60] = [True] * 60
    return asleep


@pytest.mark.parametrize("seed", range(6))
def test_the_period_is_that_of_the_published_steps(seed):
    rng = np.random.default_rng(seed)
    angle = rng.normal(0, 12, 24 * 720)
    for low, high in ((3, 4.2), (10.3, 12.5), (12.9, 16 + seed / 3), (17.4, 18.2)):  # pauses of 24 and 60 minutes
        own = slice(int(720 * low), int(720 * high))
        length = own.stop - own.start
        angle[own] = np.repeat(rng.normal(0, 30, length // 90 + 1), 90)[:length] + rng.normal(0, 0.08, length)
    epochs = Epochs(
        time_s=EPOCH_S * np.arange(len(angle)),
        enmo_mg=np.zeros(len(angle)),
        mad_mg=np.zeros(len(angle)),
        angle_deg=angle,
        wear=np.ones(len(angle), bool),
    )
    (night,) = find_nights(epochs, [(0.0, 24 * HOUR_S)])
    first, last = published_period(angle)
    assert (night.onset_s, night.wake_s) == (EPOCH_S * first, EPOCH_S * last)
    asleep = np.array(published_sleep(angle))
    assert find_sleep(epochs).tolist() == asleep.tolist()
    assert night.sleep_s == EPOCH_S * asleep[first:last].sum()


def test_nights_of_several_days():
    nights = find_nights(made_epochs(72, nights=[(23, 31), (47.5, 54)]), NOONS)
    assert hours(nights) == [None, (23, 31), (47.5, 54), None]
    assert [round(night.worn_s / HOUR_S) for night in nights] == [12, 24, 24, 12]
    assert [night.wear_share for night in nights[1:3]] == [1, 1]


def test_sleep_ends_at_every_turn_but_long_rest_counts():
    quiet, restless = (find_nights(made_epochs(40, nights=[(22, 30)], turns_min=turns), NOONS)[1] for turns in (20, 4))
    assert quiet.sleep_s / (quiet.wake_s - quiet.onset_s) > 0.99
    assert restless.sleep_s < 0.05 * (restless.wake_s - restless.onset_s)
    assert hours([quiet]) == hours([restless])


def test_sleep_by_day_is_found_whole():
    nights = find_nights(made_epochs(80, nights=[(33, 40), (57, 64.5)]), NOONS)  # from 9:00 to 16:00 and 16:30
    assert [found for found in hours(nights) if found] == [(33, 40), (57, 64.5)]


def test_a_sensor_on_a_table_is_no_night():
    day = find_nights(made_epochs(48, nights=[(23, 30)], unworn=[(13, 19)]), NOONS)[1]
    assert hours([day]) == [(23, 30)]
    away = find_nights(made_epochs(48, nights=[(20, 21)], unworn=[(22.5, 30.5)]), NOONS)[1]
    assert not away.is_found  # the hour of rest is not taken for the night, which was spent without the sensor
    assert away.worn_s == 16 * HOUR_S


def test_missing_data_are_no_rest_but_a_short_hole_does_not_end_the_night():
    whole = find_nights(made_epochs(48, nights=[(23, 31)], gaps=[(26, 26.5)]), NOONS)[1]
    assert hours([whole]) == [(23, 31)]
    assert whole.wear_share == pytest.approx(7.5 / 8, abs=0.01)
    torn = find_nights(made_epochs(48, nights=[(23, 31)], gaps=[(24, 27.5)]), NOONS)[1]
    assert not torn.is_found or hours([torn]) == [(pytest.approx(27.5, abs=0.1), 31)]


def test_little_data_is_not_examined():
    assert [round(night.noon_s / HOUR_S) for night in find_nights(made_epochs(29), NOONS)] == [-12, 12]
    assert len(find_nights(made_epochs(17), NOONS)) == 1  # five hours after noon


def test_in_bed_is_the_time_of_found_periods():
    nights = find_nights(made_epochs(72, nights=[(23, 31)]), NOONS)
    assert in_bed(nights, HOUR_S * np.array([22, 24, 30, 32, 50])).tolist() == [False, True, True, False, False]
    assert not in_bed([], np.arange(3.0)).any()
