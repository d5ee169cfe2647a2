"""One row per measure of the days: mean, median and range over valid days, weekdays and weekends, missing data."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from sight.results.movement import LEVELS
from sight.results.output_tables import Row, Table
from sight.results.output_tables.cells import mean, rounded
from sight.results.output_tables.daily import IN_BED, daily_columns, hour_columns
from sight.results.output_tables.hourly import IN_BED as IN_BED_MIN, minute_columns
from sight.results.summary import ResultSummary
from sight.types import Array

#: Columns of days that are no measures.
NO_MEASURE = ("day", "date", "weekday", "complete", "valid", "m5_start_h", "l5_start_h")
#: Days of a week from Monday to Friday, and at the weekend.
WEEKDAYS, WEEKEND = 5, 2


def statistics_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return a row for each number of `daily.csv`; cells without a valid day are empty."""
    valid = [row for row in summary.rows("daily") if row["valid"]]
    weekend = [row for row in valid if row["weekday"] in ("Saturday", "Sunday")]
    weekdays = [row for row in valid if row["weekday"] and row not in weekend]
    adjusted = adjusted_means(summary, [row["day"] for row in valid])
    rows = []
    for name in daily_columns(summary):
        if name in NO_MEASURE:
            continue
        values = [row[name] for row in valid if row.get(name) is not None]
        on_weekdays, at_weekend = mean(weekdays, name), mean(weekend, name)
        both = on_weekdays is not None and at_weekend is not None
        rows.append(
            {
                "measure": name,
                "days": len(values),
                "mean": mean(valid, name),
                "median": rounded(median(values), 4) if values else None,
                "min": min(values, default=None),
                "max": max(values, default=None),
                "weekday_mean": on_weekdays,
                "weekend_mean": at_weekend,
                "weighted_mean": _weighted(on_weekdays, at_weekend) if both else None,
                "adjusted_mean": adjusted.get(name),
            }
        )
    return rows


def adjusted_means(summary: ResultSummary, valid: Sequence[int]) -> dict[str, float]:
    """Return the means over valid days if time without wear is filled, by column of `daily.csv`.

    The time of an hour in which the sensor was not worn is filled with the mean of the worn time of the same clock hour
    over valid days. Empty without a valid day, or if an hour of the clock was never worn on one.
    """
    hourly = [row for row in summary.rows("hourly") if row["day"] in set(valid)]
    if not hourly:
        return {}
    hour = np.array([row["hour"] for row in hourly])
    length, worn = (np.array([row[name] for row in hourly]) for name in ("hour_min", "wear_min"))
    missing = np.maximum(length - worn, 0.0)
    worn_by_hour = np.bincount(hour, weights=worn, minlength=24)
    if (worn_by_hour[hour] == 0).any():
        return {}

    def filled(minutes: Array) -> float:
        share = np.bincount(hour, weights=minutes, minlength=24) / np.maximum(worn_by_hour, 1e-9)
        return float((minutes + missing * share[hour]).sum()) / len(valid)

    found = {}
    for (daily, name), scale in _additive(summary, hourly[0]).items():
        found[daily] = rounded(filled(np.array([row[name] for row in hourly])) * scale, 4)
    if "enmo_mg" in hourly[0]:
        enmo = np.array([row["enmo_mg"] or 0.0 for row in hourly])
        found["enmo_mg"] = rounded(filled(enmo * worn) * len(valid) / float(length.sum()), 2)
    return found


def _additive(summary: ResultSummary, row: Row) -> dict[tuple[str, str], float]:
    """Return pairs of a column of a day and that of its hours, with the factor from minutes."""
    hours, _ = hour_columns(summary.classes)
    pairs = dict.fromkeys(zip((IN_BED, *hours), (IN_BED_MIN, *minute_columns(summary)), strict=True), 1 / 60)
    pairs |= {(name, name): 1.0 for name in LEVELS}
    return {pair: scale for pair, scale in pairs.items() if pair[1] in row}


def _weighted(on_weekdays: float | None, at_weekend: float | None) -> float:
    return rounded((WEEKDAYS * (on_weekdays or 0.0) + WEEKEND * (at_weekend or 0.0)) / (WEEKDAYS + WEEKEND), 4)


TABLE = Table(
    name="day_statistics",
    description="one row per measure of the days: mean, median and range over valid days, filled for missing data",
    fixed=(
        *("measure", "days", "mean", "median", "min", "max"),
        *("weekday_mean", "weekend_mean", "weighted_mean", "adjusted_mean"),
    ),
    rows=statistics_rows,
    kinds={"measure": "text", "days": "int"},
)
