"""Nights: the sleep period of each night and the sleep in it, from the arm angle at the wrist."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import nan
from typing import NamedTuple

import numpy as np

from sight.types import EPOCH_S, Array, Epochs

#: Epochs of the rolling median: five minutes have 60 epochs and 59 differences of angles.
MEDIAN = 59
#: The threshold of rest is this many times this percentile of a night, within these limits in degrees.
FACTOR, PERCENTILE, LIMITS_DEG = 15, 10, (0.13, 0.50)
#: Rest lasts longer than this, and a shorter interruption is part of it, in epochs: 30 and 60 minutes.
SHORTEST, INTERRUPTION = 360, 720
#: In sleep the angle does not change by more than this, in degrees, for at least this many epochs: five minutes.
CHANGE_DEG, SUSTAINED = 5.0, 60
#: A night with fewer hours of data between noon and noon is not examined.
LEAST_H = 6.0
#: If a period ends later than this before noon, rest is looked for from 18:00 to 18:00 instead, in seconds.
NEAR_NOON_S, LATER_S = 3600.0, 6 * 3600.0
#: A period of rest with a smaller share of wear is not a night.
LEAST_WEAR = 0.5


class Night(NamedTuple):
    """The time from one local noon to the next, and the sleep period in it; NaN if none was found."""

    noon_s: float  # start, in seconds as in `Windows.time_s`
    worn_s: float  # worn time between noon and noon
    onset_s: float = nan
    wake_s: float = nan
    sleep_s: float = nan  # sleep inside the period
    wear_share: float = nan  # share of the period in which the sensor was worn

    @property
    def is_found(self) -> bool:
        return self.onset_s == self.onset_s


def find_nights(epochs: Epochs, noons_s: Iterable[tuple[float, float]]) -> list[Night]:
    """Return the nights between local noons, pairs in time order, without those that have little data.

    Notes
    -----
    The sleep period is found by HDCZA (van Hees et al. 2018): the absolute differences of the z angle between
    successive epochs, their rolling median over five minutes, a threshold of 15 times its 10th percentile between noon
    and noon (0.13 to 0.50 degrees), blocks of more than 30 minutes below it, joined across less than 60 minutes, and
    of these the longest. Sleep inside the period is time in which the angle does not change by more than 5 degrees for
    at least 5 minutes (van Hees et al. 2015).

    Missing data count as movement. A period that ends less than an hour before noon or later is looked for again from
    18:00 to 18:00, for sleep by day. Two rules are ours: a block that was worn for less than half of its time is not a
    night, and no period is reported if the sensor was not worn for longer than the period lasts, because that time may
    have been the night.

    References
    ----------
    van Hees et al., Estimating sleep parameters using an accelerometer without sleep diary, Scientific Reports 8, 12975
    (2018), doi:10.1038/s41598-018-31266-z

    van Hees et al., A novel, open access method to assess sleep duration using a wrist-worn accelerometer, PLoS ONE 10
    (2015), doi:10.1371/journal.pone.0142533
    """
    nights: list[Night] = []
    examined_s = -np.inf
    for noon_s, next_s in noons_s:
        grid = _Grid.of(epochs, noon_s, next_s, examined_s)
        if EPOCH_S * grid.known.sum() < 3600 * LEAST_H:
            continue
        period = _longest_rest(grid)
        if period and grid.time_s(period.stop) > next_s - NEAR_NOON_S:
            later = _Grid.of(epochs, noon_s + LATER_S, next_s + LATER_S, examined_s)
            if moved := _longest_rest(later):
                grid, period = later, moved
        night = Night(noon_s, EPOCH_S * float(epochs.wear[_between(epochs, noon_s, next_s)].sum()))
        if period:
            night = night._replace(
                onset_s=grid.time_s(period.start),
                wake_s=grid.time_s(period.stop),
                sleep_s=EPOCH_S * float(_sustained(grid.change)[period].sum()),
                wear_share=float(grid.worn[period].mean()),
            )
            examined_s = night.wake_s
        nights.append(night)
    return nights


def in_bed(nights: Sequence[Night], time_s: Array) -> Array:
    """Return for each time whether it lies in a sleep period, (n,) bool."""
    periods = [(night.onset_s, night.wake_s) for night in nights if night.is_found]
    onsets, wakes = np.array(periods).reshape(-1, 2).T
    begun = np.searchsorted(onsets, time_s, side="right")
    return np.asarray(begun > np.searchsorted(wakes, time_s, side="right"))


class _Grid(NamedTuple):
    """Epochs from one moment to another without holes."""

    start_s: float
    known: Array  # whether there are data, (n,) bool
    worn: Array  # (n,) bool
    change: Array  # absolute difference of the angle to the next epoch in degrees, (n,), infinite if unknown
    median: Array  # rolling median of `change`, (n,)

    @classmethod
    def of(cls, epochs: Epochs, start_s: float, end_s: float, after_s: float) -> "_Grid":
        """Return the epochs of a time; those before `after_s` count as missing."""
        from scipy.ndimage import median_filter

        margin = MEDIAN * EPOCH_S
        own = _between(epochs, max(start_s - margin, after_s), end_s + margin)
        place = np.rint((epochs.time_s[own] - start_s + margin) / EPOCH_S).astype(np.int64)
        angle = np.full(round((end_s - start_s) / EPOCH_S) + 2 * MEDIAN + 2, nan)
        worn = np.zeros(len(angle), bool)
        angle[place], worn[place] = epochs.angle_deg[own], epochs.wear[own]
        change = np.abs(np.diff(angle))
        change[np.isnan(change)] = np.inf
        inside = slice(MEDIAN, len(angle) - MEDIAN - 2)
        median = median_filter(change, MEDIAN, mode="nearest")
        return cls(start_s, ~np.isnan(angle[inside]), worn[inside], change[inside], median[inside])

    def time_s(self, epoch: int) -> float:
        return float(self.start_s + EPOCH_S * epoch)


def _between(epochs: Epochs, start_s: float, end_s: float) -> slice:
    low, high = np.searchsorted(epochs.time_s, (start_s - EPOCH_S / 2, end_s - EPOCH_S / 2))
    return slice(int(low), int(high))


def _longest_rest(grid: _Grid) -> slice | None:
    """Return the longest block of rest that was worn; None if there is none, or if it may not be the night."""
    finite = grid.median[np.isfinite(grid.median)]
    if not len(finite):
        return None
    threshold = np.clip(FACTOR * np.percentile(finite, PERCENTILE), *LIMITS_DEG)
    still = np.zeros(len(grid.median), bool)
    blocks = [block for block in runs_of(grid.median < threshold) if block.stop - block.start > SHORTEST]
    for block in blocks:
        still[block] = True
    for block, following in pairwise(blocks):
        if following.start - block.stop < INTERRUPTION:
            still[block.stop : following.start] = True
    worn = [block for block in runs_of(still) if grid.worn[block].mean() >= LEAST_WEAR]
    longest = max(worn, key=_length, default=None)
    recorded = np.flatnonzero(grid.known)
    unworn = ~grid.worn[recorded[0] : recorded[-1] + 1]
    if longest is None or _length(longest) < max(map(_length, runs_of(unworn)), default=0):
        return None
    return slice(longest.start, longest.stop + 1)  # the last difference is that to the next epoch


def find_sleep(epochs: Epochs) -> Array:
    """Return for each epoch whether the angle does not change by more than 5 degrees for five minutes, (M,) bool."""
    change = np.append(np.abs(np.diff(epochs.angle_deg)), np.inf)
    change[:-1][np.diff(epochs.time_s) > 1.5 * EPOCH_S] = np.inf
    return _sustained(change)


def _sustained(change: Array) -> Array:
    asleep = np.zeros(len(change), bool)
    # A change follows the last epoch of a run, so the epoch after it begins the next one.
    ends = np.append(np.flatnonzero(change > CHANGE_DEG) + 1, len(change))
    for start, end in zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
        asleep[start:end] = end - start >= SUSTAINED
    return asleep


def runs_of(where: Array) -> Iterator[slice]:
    """Yield the runs of True.

    >>> list(runs_of(np.array([True, False, True, True])))
    [slice(0, 1, None), slice(2, 4, None)]
    """
    steps = np.diff(np.concatenate(([0], where.astype(np.int8), [0])))
    for start, stop in zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True):
        yield slice(start, stop)


def _length(block: slice) -> int:
    return int(block.stop - block.start)
