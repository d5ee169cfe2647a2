"""Days of a stream, and the rows of `daily.csv`: one for each local day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from sight.results.tables.cells import rounded
from sight.results.tables.result_summary import ResultSummary, clock
from sight.types import Array

SECONDS_PER_DAY = 24 * 60 * 60
#: Names of the days, the same in every locale.
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Columns of `daily.csv` before those of the intensity of movement and of the classes.
DAILY_COLUMNS = (
    *("day", "date", "weekday", "complete", "valid"),
    *("wear_h", "non_wear_h", "gap_h", "low_confidence_h"),
)


class Day(NamedTuple):
    """Day of a stream: its number, its date if known, and the seconds of the stream at which it begins and ends."""

    number: int  # 1 for the first day; days without windows are counted
    date: date | None
    start_s: float
    end_s: float


def hour_columns(classes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of the columns with the hours of each class, refined and raw.

    Examples
    --------
    >>> hour_columns(["walking", "wear"])
    (['walking_h', 'class_wear_h'], ['raw_walking_h', 'raw_wear_h'])
    """
    refined = [f"class_{name}_h" if f"{name}_h" in DAILY_COLUMNS else f"{name}_h" for name in classes]
    return refined, [f"raw_{name}_h" for name in classes]


def daily_columns(summary: ResultSummary) -> list[str]:
    """Return the columns of `daily.csv`."""
    refined, raw = hour_columns(summary.classes)
    return [*DAILY_COLUMNS, *summary.intensity, *refined, *raw]


def daily_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return the rows of `daily.csv`, one for each day that has windows.

    Hours of classes, low confidence and intensity are those of worn time.
    """
    refined_names, raw_names = hour_columns(summary.classes)
    gaps, count = summary.gaps, len(summary.classes)
    slack = 2 * max(summary.result.windows.window_s, summary.result.windows.stride_s)
    rows = []
    for day in days(summary):
        seconds = overlap(summary.start_s, summary.end_s, day.start_s, day.end_s)
        worn = np.where(summary.worn, seconds, 0.0)
        wear_h = worn.sum() / 3600
        hours = {
            "wear_h": wear_h,
            "non_wear_h": seconds.sum() / 3600 - wear_h,
            "gap_h": overlap(gaps[:, 0], gaps[:, 1], day.start_s, day.end_s).sum() / 3600,
            "low_confidence_h": worn[summary.uncertain].sum() / 3600,
        }
        begun = summary.start_s[0] <= day.start_s + slack
        facts: dict[str, Any] = {
            "day": day.number,
            "date": None if day.date is None else day.date.isoformat(),
            "weekday": None if day.date is None else WEEKDAYS[day.date.weekday()],
            "complete": bool(begun and summary.end_s[-1] >= day.end_s - slack),
            "valid": bool(wear_h >= summary.rules.valid_day_h - 1e-9),
        }
        facts |= {name: rounded(value, 4) for name, value in hours.items()}
        facts |= {name: _mean(values, worn) for name, values in summary.intensity.items()}
        facts |= _hours(refined_names, np.bincount(summary.refined, weights=worn, minlength=count))
        facts |= _hours(raw_names, np.bincount(summary.raw, weights=worn, minlength=count))
        rows.append(facts)
    return rows


def days(summary: ResultSummary) -> list[Day]:
    """Return the days that have windows, split at local midnight, or every 24 hours if the start time is unknown."""
    found: list[Day] = []
    second = float(summary.start_s[0]) if len(summary) else None
    while second is not None:
        number = max(_day_number(summary, second), found[-1].number + 1 if found else 1)
        day = _day(summary, number)
        found.append(day)
        later = int(np.searchsorted(summary.start_s, day.end_s))
        if summary.end_s[later - 1] > day.end_s:  # the last window of the day reaches into the next one
            second = day.end_s
        else:
            second = float(summary.start_s[later]) if later < len(summary) else None
    return found


def overlap(start: Array, end: Array, low: float, high: float) -> Array:
    """Return the length of each interval inside the range from `low` to `high`."""
    return np.asarray(np.clip(np.minimum(end, high) - np.maximum(start, low), 0, None))


def _hours(names: Sequence[str], seconds: Array) -> dict[str, float]:
    return {name: rounded(value / 3600, 4) for name, value in zip(names, seconds.tolist(), strict=True)}


def _mean(values: Array, weights: Array) -> float | None:
    """Return the weighted mean of the finite values, None if there are none."""
    weights = np.where(np.isfinite(values), weights, 0.0)
    total = weights.sum()
    return rounded(float(np.nan_to_num(values) @ weights / total), 2) if total else None


def _day_number(summary: ResultSummary, second: float) -> int:
    """Return the number of the day of a second of the stream."""
    start, first = summary.result.windows.start, float(summary.start_s[0])
    if start is None:
        return int((second - first) // SECONDS_PER_DAY) + 1
    return (clock(start, second).date() - clock(start, first).date()).days + 1


def _day(summary: ResultSummary, number: int) -> Day:
    start, first = summary.result.windows.start, float(summary.start_s[0])
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
