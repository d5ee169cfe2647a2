"""One row per clock hour of each day: wear, time in bed, intensity, minutes of each class."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sight.results.days import Day
from sight.results.movement import LEVELS
from sight.results.output_tables import Table
from sight.results.output_tables.cells import rounded
from sight.results.output_tables.daily import class_columns, overlap
from sight.results.summary import ResultSummary

COLUMNS = ("day", "date", "hour", "hour_min", "wear_min")
#: Column of nights, if they are computed.
IN_BED = "in_bed_min"


def minute_columns(summary: ResultSummary) -> list[str]:
    return class_columns(summary.classes, "min", (*COLUMNS, IN_BED, *LEVELS))


def hourly_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return a row for each hour of the clock of each day, also for hours without data.

    An hour that repeats, because the clocks change or the day does not begin at a full hour, is one row.
    """
    names, rows = minute_columns(summary), []
    for day in summary.days:
        own = np.flatnonzero(overlap(summary.start_s, summary.end_s, day.start_s, day.end_s))
        parts: dict[int, list[tuple[float, float]]] = {}
        for hour, start_s, end_s in _hours(summary, day):
            parts.setdefault(hour, []).append((start_s, end_s))
        for hour, spans in sorted(parts.items()):
            seconds = sum(overlap(summary.start_s[own], summary.end_s[own], *span) for span in spans)
            worn, awake = (np.where(mask[own], seconds, 0.0) for mask in (summary.worn, summary.awake))
            minutes = {"hour_min": sum(end - start for start, end in spans) / 60, "wear_min": worn.sum() / 60}
            minutes |= {} if summary.no_nights else {IN_BED: (worn.sum() - awake.sum()) / 60}
            of_class = np.bincount(summary.refined[own], weights=awake, minlength=len(names)) / 60
            values = minutes | _intensity(summary, spans) | dict(zip(names, of_class.tolist(), strict=True))
            row: dict[str, Any] = {"day": day.number, "date": day.date and day.date.isoformat(), "hour": hour}
            rows.append(row | {key: None if value is None else rounded(value, 3) for key, value in values.items()})
    return rows


def hourly_columns(summary: ResultSummary) -> list[str]:
    in_bed = [] if summary.no_nights else [IN_BED]
    return [*COLUMNS, *in_bed, *_intensity(summary, [(0.0, 0.0)]), *minute_columns(summary)]


def _intensity(summary: ResultSummary, spans: list[tuple[float, float]]) -> dict[str, float | None]:
    """Return ENMO and the minutes of its levels over all spans; empty if there are no epochs."""
    found = {} if summary.movement is None else summary.movement.figures(*spans)
    found.pop("mad_mg", None)
    return found


def _hours(summary: ResultSummary, day: Day) -> Iterator[tuple[int, float, float]]:
    """Yield the hours of a day: number on the clock (since the start of the day if it is unknown), start and end."""
    start_s = day.start_s
    while start_s < day.end_s - 1e-6:
        at = summary.clock(start_s)
        into_s = (start_s - day.start_s) % 3600 if at is None else 60 * at.minute + at.second + at.microsecond / 1e6
        end_s = min(start_s + 3600 - into_s, day.end_s)
        yield int((start_s - day.start_s + 1e-6) // 3600) if at is None else at.hour, start_s, end_s
        start_s = end_s


TABLE = Table(
    name="hourly",
    description="one row per clock hour of each day: wear, time in bed, intensity, minutes of each class",
    fixed=COLUMNS,
    rows=hourly_rows,
    columns=hourly_columns,
    kinds={"day": "int", "date": "date", "hour": "int"},
)
