"""One row per local day: wear, gaps, intensity, hours of each class."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from sight.results.summary import ResultSummary
from sight.results.tables import Table
from sight.results.tables.cells import rounded
from sight.types import Array

#: Names of the days, the same in every locale.
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Columns before those of the intensity of movement and of the classes.
COLUMNS = ("day", "date", "weekday", "complete", "valid", "wear_h", "non_wear_h", "gap_h", "low_confidence_h")


def hour_columns(classes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of the columns with the hours of each class, refined and raw."""
    refined = [f"class_{name}_h" if f"{name}_h" in COLUMNS else f"{name}_h" for name in classes]
    return refined, [f"raw_{name}_h" for name in classes]


def daily_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return one row for each day that has windows.

    Hours of classes, low confidence and intensity are those of worn time. Whether a day is valid depends on its wear
    time before rounding.
    """
    refined_names, raw_names = hour_columns(summary.classes)
    gaps, count = summary.gaps, len(summary.classes)
    slack = 2 * max(summary.result.windows.window_s, summary.result.windows.stride_s)
    rows = []
    for day in summary.days:
        seconds = _overlap(summary.start_s, summary.end_s, day.start_s, day.end_s)
        worn = np.where(summary.worn, seconds, 0.0)
        wear_h = worn.sum() / 3600
        hours = {
            "wear_h": wear_h,
            "non_wear_h": seconds.sum() / 3600 - wear_h,
            "gap_h": _overlap(gaps[:, 0], gaps[:, 1], day.start_s, day.end_s).sum() / 3600,
            "low_confidence_h": worn[summary.uncertain].sum() / 3600,
        }
        begun = summary.start_s[0] <= day.start_s + slack
        row: dict[str, Any] = {
            "day": day.number,
            "date": None if day.date is None else day.date.isoformat(),
            "weekday": None if day.date is None else WEEKDAYS[day.date.weekday()],
            "complete": bool(begun and summary.end_s[-1] >= day.end_s - slack),
            "valid": summary.rules.is_valid_day(wear_h),
        }
        row |= {name: rounded(value, 4) for name, value in hours.items()}
        row |= {name: _mean(values, worn) for name, values in summary.intensity.items()}
        row |= _hours(refined_names, np.bincount(summary.refined, weights=worn, minlength=count))
        row |= _hours(raw_names, np.bincount(summary.raw, weights=worn, minlength=count))
        rows.append(row)
    return rows


def _overlap(start: Array, end: Array, low: float, high: float) -> Array:
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
    description="one row per local day: hours of each class, wear, non-wear, gaps, intensity of movement",
    fixed=COLUMNS,
    rows=daily_rows,
    columns=lambda summary: [*COLUMNS, *summary.intensity, *chain(*hour_columns(summary.classes))],
    kinds={"day": "int", "date": "date", "weekday": "text", "complete": "bool", "valid": "bool"},
)
