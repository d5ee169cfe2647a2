"""Days as lanes: class indices at regular times of the local day, for plots and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from sight.results.tables import Day, ResultSummary, days
from sight.results.tables.days import SECONDS_PER_DAY
from sight.types import Array


class Lane(NamedTuple):
    """A day at regular times of its clock."""

    title: str
    window: Array  # index of the window at each time, -1 without data


def day_lanes(summary: ResultSummary, columns: int, most_days: int) -> Iterator[Lane]:
    """Yield the first days, sampled at `columns` times from 0 to 24 h of the local clock."""
    for day in days(summary)[:most_days]:
        moment = _moments(summary, day, (np.arange(columns) + 0.5) * SECONDS_PER_DAY / columns)
        window = np.searchsorted(summary.start_s, moment, side="right") - 1
        known = (window >= 0) & (moment < np.minimum(summary.end_s[window], day.end_s))
        title = f"Day {day.number}" if day.date is None else f"{day.date:%a} {day.date.day} {day.date:%b}"
        yield Lane(title, np.where(known, window, -1))


def _moments(summary: ResultSummary, day: Day, clock_s: Array) -> Array:
    """Return the seconds of the stream at times of the local clock, in seconds since midnight.

    On a day on which the clock is set forward, times that it skips are NaN; set back, repeated times count once.
    """
    midnight = summary.clock(day.start_s)
    if midnight is None or day.end_s - day.start_s == SECONDS_PER_DAY:
        return day.start_s + clock_s
    found = np.full(len(clock_s), np.nan)
    for index, seconds in enumerate(clock_s.tolist()):
        local = midnight + timedelta(seconds=seconds)  # Python adds on the clock, not in elapsed time
        elapsed = day.start_s + local.timestamp() - midnight.timestamp()
        if summary.clock(elapsed).replace(tzinfo=None) == local.replace(tzinfo=None):  # type: ignore[union-attr]
            found[index] = elapsed
    return found
