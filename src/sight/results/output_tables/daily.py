"""One row per day: wear, gaps, time in bed, intensity, hours of each class."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from sight.results.days import Day
from sight.results.output_tables import Table
from sight.results.output_tables.cells import rounded
from sight.results.summary import ResultSummary
from sight.types import Array

#: Names of the days, the same in every locale.
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Columns before those of the intensity of movement and of the classes.
COLUMNS = ("day", "date", "weekday", "complete", "valid", "wear_h", "non_wear_h", "gap_h", "low_confidence_h")
#: Column of nights, if they are computed.
IN_BED = "in_bed_h"


def hour_columns(classes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of the columns with the hours of each class, refined and raw."""
    return class_columns(classes, "h", (*COLUMNS, IN_BED)), [f"raw_{name}_h" for name in classes]


def class_columns(classes: Sequence[str], unit: str, taken: Sequence[str]) -> list[str]:
    """Return a column for each class; one whose name is `taken` begins with "class_"."""
    return [f"class_{name}_{unit}" if f"{name}_{unit}" in taken else f"{name}_{unit}" for name in classes]


def daily_columns(summary: ResultSummary) -> list[str]:
    """Return all columns; those of nights, intensity and its levels only if these are known."""
    in_bed = [] if summary.no_nights else [IN_BED]
    return [*COLUMNS, *in_bed, *_intensity_columns(summary), *chain(*hour_columns(summary.classes))]


def daily_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return one row for each day from the first window to the last.

    Hours of classes, low confidence, time in bed and intensity are those of worn time, and classes do not count in bed.
    Whether a day is valid depends on its wear time before rounding.
    """
    refined_names, raw_names = hour_columns(summary.classes)
    gaps, count = summary.gaps, len(summary.classes)
    slack = 2 * max(summary.result.windows.window_s, summary.result.windows.stride_s)
    rows = []
    for day in summary.days:
        seconds = overlap(summary.start_s, summary.end_s, day.start_s, day.end_s)
        worn, awake = (np.where(mask, seconds, 0.0) for mask in (summary.worn, summary.awake))
        wear_h = worn.sum() / 3600
        hours = {
            "wear_h": wear_h,
            "non_wear_h": seconds.sum() / 3600 - wear_h,
            "gap_h": overlap(gaps[:, 0], gaps[:, 1], day.start_s, day.end_s).sum() / 3600,
            "low_confidence_h": worn[summary.uncertain].sum() / 3600,
        }
        hours |= {} if summary.no_nights else {IN_BED: wear_h - awake.sum() / 3600}
        begun = summary.start_s[0] <= day.start_s + slack
        row: dict[str, Any] = {
            "day": day.number,
            "date": None if day.date is None else day.date.isoformat(),
            "weekday": None if day.date is None else WEEKDAYS[day.date.weekday()],
            "complete": bool(begun and summary.end_s[-1] >= day.end_s - slack),
            "valid": summary.rules.is_valid_day(wear_h),
        }
        row |= {name: rounded(value, 4) for name, value in hours.items()}
        row |= _intensity(summary, day, worn)
        row |= _hours(refined_names, np.bincount(summary.refined, weights=awake, minlength=count))
        row |= _hours(raw_names, np.bincount(summary.raw, weights=awake, minlength=count))
        rows.append(row)
    return rows


def _intensity(summary: ResultSummary, day: Day, worn: Array) -> dict[str, float | None]:
    """Return the columns of intensity: of epochs if there are any, else the mean of windows."""
    if summary.movement is None:
        return {name: _mean(values, worn) for name, values in summary.intensity.items()}
    span = day.start_s, day.end_s
    found = summary.movement.figures(span) | summary.movement.day_figures(*span)
    for name in ("m5_start_h", "l5_start_h"):
        if found[name] is not None and (at := summary.clock(day.start_s + 3600 * found[name])) is not None:
            found[name] = at.hour + at.minute / 60 + at.second / 3600
    return {name: None if value is None else rounded(value, 2) for name, value in found.items()}


def _intensity_columns(summary: ResultSummary) -> list[str]:
    if summary.movement is None:
        return list(summary.intensity)
    return [*summary.movement.figures((0.0, 0.0)), *summary.movement.day_figures(0.0, 0.0)]


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


TABLE = Table(
    name="daily",
    description="one row per day: hours of each class, wear, non-wear, gaps, time in bed, intensity of movement",
    fixed=COLUMNS,
    rows=daily_rows,
    columns=daily_columns,
    kinds={"day": "int", "date": "date", "weekday": "text", "complete": "bool", "valid": "bool"},
)
