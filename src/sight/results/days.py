"""Days of a stream: from local midnight, from the start of the recording, or from waking to waking."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from math import floor
from typing import NamedTuple

import numpy as np

from sight.types import Array

SECONDS_PER_DAY = 24 * 60 * 60
#: Days in a longer gap are not listed; and no day is longer than this.
LONGEST_GAP_S, LONGEST_DAY_S = 400 * SECONDS_PER_DAY, 1.5 * SECONDS_PER_DAY


class Day(NamedTuple):
    """Day of a stream: its number, its date if known, and the seconds of the stream at which it begins and ends."""

    number: int  # 1 for the first day; days that are not listed are counted
    date: date | None
    start_s: float
    end_s: float

    @property
    def name(self) -> str:
        """Weekday and date, or the number of the day if the date is unknown."""
        return f"Day {self.number}" if self.date is None else f"{self.date:%a} {self.date.day} {self.date:%b}"

    @property
    def is_weekend(self) -> bool:
        return self.date is not None and self.date.weekday() >= 5


def find_days(
    start_s: Array, end_s: Array, start: datetime | None, *, midnight: bool = True, begins_s: Sequence[float] = ()
) -> list[Day]:
    """Return all days from the first window to the last; windows represent the seconds `start_s` to `end_s`, (N,).

    Days in a gap of more than 400 days are left out: the clock of the device jumped.

    `start` is the wall clock at second 0, None if it is unknown. Days begin at local midnight or, without `midnight`,
    at the time of day of the first window. If `begins_s` are given, they begin at these moments, and every 24 hours
    before and after them; if the clock is unknown, every 24 hours from the first window on.
    """
    if not len(start_s):
        return []
    first = float(start_s[0])
    if start is None or len(begins_s):
        day_of = _by_begins(first, start, begins_s)
    else:
        day_of = _by_clock(first, start, timedelta(0) if midnight else _time_of_day(clock(start, first)))
    found = [day_of(1)]
    while (end := found[-1].end_s) < end_s.max():
        number, later = found[-1].number + 1, int(np.searchsorted(start_s, end))
        if later < len(start_s) and start_s[later] - end > LONGEST_GAP_S:
            number += int((start_s[later] - end) / LONGEST_DAY_S)
            while day_of(number).end_s <= start_s[later]:
                number += 1
        found.append(day_of(number))
    return found


def clock(start: datetime, seconds: float) -> datetime:
    """Add elapsed seconds to a wall-clock time, also across a change to or from summer time."""
    if start.tzinfo is None:
        return start + timedelta(seconds=float(seconds))
    return (start.astimezone(UTC) + timedelta(seconds=float(seconds))).astimezone(start.tzinfo)


def seconds_to(start: datetime, day: date, time_of_day: timedelta = timedelta(0)) -> float:
    """Return the elapsed seconds from `start` to a time of the clock on a day, with summer time considered."""
    moment = (datetime(day.year, day.month, day.day) + time_of_day).replace(tzinfo=start.tzinfo)
    return moment.timestamp() - start.timestamp() if start.tzinfo else (moment - start).total_seconds()


def _by_clock(first: float, start: datetime, begin: timedelta) -> Callable[[int], Day]:
    first_date = (clock(start, first).replace(tzinfo=None) - begin).date()

    def day_of(number: int) -> Day:
        today = first_date + timedelta(days=number - 1)
        return Day(number, today, seconds_to(start, today, begin), seconds_to(start, today + timedelta(days=1), begin))

    return day_of


def _time_of_day(moment: datetime) -> timedelta:
    return timedelta(hours=moment.hour, minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond)


def _by_begins(first: float, start: datetime | None, begins_s: Sequence[float]) -> Callable[[int], Day]:
    begins = list(begins_s) or [first]
    if first < begins[0]:
        first_index = floor((first - begins[0]) / SECONDS_PER_DAY)
    else:
        first_index = bisect_right(begins, first) - 1
        first_index += floor((first - begins[-1]) / SECONDS_PER_DAY) if first >= begins[-1] else 0

    def begin_of(index: int) -> float:
        """Return where a day begins by its place in `begins`, continued by days of 24 hours at both ends."""
        place = min(max(index, 0), len(begins) - 1)
        return begins[place] + SECONDS_PER_DAY * (index - place)

    def day_of(number: int) -> Day:
        begin, end = (begin_of(first_index + number - 1 + k) for k in (0, 1))
        return Day(number, clock(start, begin).date() if start else None, begin, end)

    return day_of
