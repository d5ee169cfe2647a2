"""Columns of `windows.parquet` and rows of `segments.csv` and `daily.csv`."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from sight.report import ResultSummary
from sight.report.result_summary import clock
from sight.segments import find_segments
from sight.types import Array

SEGMENT_COLUMNS = (
    *("start_s", "end_s", "start", "end", "duration_s", "class"),
    *("mean_confidence", "windows", "wear_share", "gap_before_s"),
)
DAILY_COLUMNS = (
    *("day", "date", "class", "minutes", "raw_minutes", "low_confidence_minutes"),
    *("day_wear_minutes", "day_non_wear_minutes", "day_gap_minutes"),
)
SECONDS_PER_DAY = 24 * 60 * 60


def window_columns(summary: ResultSummary) -> dict[str, Any]:
    """Return the columns of `windows.parquet`, name to (N,)."""
    result, w = summary.result, summary.result.windows
    names = np.array(summary.classes, dtype=object)
    columns: dict[str, Any] = {"time_s": w.time_s}
    if w.start is not None:
        columns["time"] = [summary.clock(second) for second in w.time_s.tolist()]
    columns |= {
        "window_s": np.full(len(w), w.window_s),
        "raw_class": names[summary.raw],
        "class": names[summary.refined],
        "confidence": summary.confidence,
    }
    columns |= {f"p_{name}": result.p[:, k] for k, name in enumerate(names)}
    columns |= {f"q_{name}": result.q[:, k] for k, name in enumerate(names)}
    columns |= {key: np.asarray(values) for key, values in result.trace.items()}
    columns |= {"gap_before_s": w.gap_before_s, "wear": summary.worn, "low_confidence": summary.uncertain}
    if summary.truth is not None:
        columns["label"] = np.array([*summary.classes, None], dtype=object)[summary.truth]
    return columns


def segment_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return the rows of `segments.csv`."""
    w = summary.result.windows
    table = find_segments(summary.refined, w.time_s, w.window_s, w.stride_s, w.gap_before_s)
    first = np.cumsum(table.windows) - table.windows
    rows: list[dict[str, Any]] = []
    for i, (start, end, k, count) in enumerate(zip(*(column.tolist() for column in table), strict=True)):
        own = slice(first[i], first[i] + count)
        rows.append(
            {
                "start_s": _rounded(start),
                "end_s": _rounded(end),
                "start": _iso(summary.clock(start)),
                "end": _iso(summary.clock(end)),
                "duration_s": _rounded(end - start),
                "class": summary.classes[k],
                "mean_confidence": _rounded(summary.confidence[own].mean(), 4),
                "windows": count,
                "wear_share": _rounded(summary.worn[own].mean(), 4),
                "gap_before_s": _rounded(w.gap_before_s[first[i]]),
            }
        )
    return rows


def daily_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return the rows of `daily.csv`, one per day and class; columns of the whole day start with `day_`."""
    gaps = summary.gaps
    rows = []
    for number, day, start, end in days(summary):
        seconds = _overlap(summary.start_s, summary.end_s, start, end)
        worn = np.where(summary.worn, seconds, 0.0)
        of_day = {
            "day_wear_minutes": worn.sum(),
            "day_non_wear_minutes": seconds.sum() - worn.sum(),
            "day_gap_minutes": _overlap(gaps[:, 0], gaps[:, 1], start, end).sum(),
        }
        for k, name in enumerate(summary.classes):
            own = summary.refined == k
            of_class = {
                "minutes": worn[own].sum(),
                "raw_minutes": worn[summary.raw == k].sum(),
                "low_confidence_minutes": worn[own & summary.uncertain].sum(),
            }
            minutes = {key: _rounded(value / 60) for key, value in (of_class | of_day).items()}
            rows.append({"day": number, "date": "" if day is None else day.isoformat(), "class": name} | minutes)
    return rows


class Day(NamedTuple):
    """Day of a stream: its number, its date if known, and the seconds of the stream at which it begins and ends."""

    number: int  # 1 for the first day; days without windows are counted
    date: date | None
    start_s: float
    end_s: float


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


def _overlap(start: Array, end: Array, low: float, high: float) -> Array:
    return np.asarray(np.clip(np.minimum(end, high) - np.maximum(start, low), 0, None))


def _iso(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(timespec="milliseconds")


def _rounded(value: float, digits: int = 3) -> float:
    return round(float(value), digits)
