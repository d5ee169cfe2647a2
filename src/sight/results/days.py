"""Days of a stream: split at local midnight, or every 24 hours if the start time is unknown."""

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import numpy as np

from sight.types import Array

SECONDS_PER_DAY = 24 * 60 * 60


class Day(NamedTuple):
    """Day of a stream: its number, its date if known, and the seconds of the stream at which it begins and ends."""

    number: int  # 1 for the first day; days without windows are counted
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


def find_days(start_s: Array, end_s: Array, start: datetime | None) -> list[Day]:
    """Return the days that have windows, which represent the seconds `start_s` to `end_s` of the stream, (N,).

    `start` is the wall clock at second 0, None if it is unknown.
    """
    found: list[Day] = []
    second = float(start_s[0]) if len(start_s) else None
    while second is not None:
        number = max(_day_number(float(start_s[0]), second, start), found[-1].number + 1 if found else 1)
        day = _day(float(start_s[0]), number, start)
        found.append(day)
        later = int(np.searchsorted(start_s, day.end_s))
        second = float(start_s[later]) if later < len(start_s) else None
        if end_s[later - 1] > day.end_s:  # the last window of the day reaches into the next one
            second = day.end_s
    return found


def clock(start: datetime, seconds: float) -> datetime:
    """Add elapsed seconds to a wall-clock time, also across a change to or from summer time."""
    if start.tzinfo is None:
        return start + timedelta(seconds=float(seconds))
    return (start.astimezone(UTC) + timedelta(seconds=float(seconds))).astimezone(start.tzinfo)


def _day_number(first: float, second: float, start: datetime | None) -> int:
    if start is None:
        return int((second - first) // SECONDS_PER_DAY) + 1
    return (clock(start, second).date() - clock(start, first).date()).days + 1


def _day(first: float, number: int, start: datetime | None) -> Day:
    if start is None:
        begin = first + SECONDS_PER_DAY * (number - 1)
        return Day(number, None, begin, begin + SECONDS_PER_DAY)
    today = clock(start, first).date() + timedelta(days=number - 1)
    begin, end = (_seconds_to_midnight(start, day) for day in (today, today + timedelta(days=1)))
    return Day(number, today, begin, end)


def _seconds_to_midnight(start: datetime, day: date) -> float:
    """Return the elapsed seconds from `start` to the midnight at which `day` begins, with summer time considered."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=start.tzinfo)
    return midnight.timestamp() - start.timestamp() if start.tzinfo else (midnight - start).total_seconds()
