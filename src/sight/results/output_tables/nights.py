"""One row per night: sleep period, sleep in it, share worn."""

from typing import Any

import numpy as np

from sight.results.output_tables import Table
from sight.results.output_tables.cells import iso, rounded
from sight.results.output_tables.daily import WEEKDAYS
from sight.results.summary import ResultSummary


def night_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return one row for each night with enough data; cells of a sleep period that was not found are empty.

    A night is valid if its period was found and the sensor was worn long enough between noon and noon.
    """
    rows: list[dict[str, Any]] = []
    for number, night in enumerate(summary.nights, start=1):
        evening = summary.clock(night.noon_s)
        row: dict[str, Any] = {
            "night": number,
            "date": None if evening is None else evening.date().isoformat(),
            "weekday": None if evening is None else WEEKDAYS[evening.weekday()],
            "valid": night.is_found and summary.rules.is_valid_day(night.worn_s / 3600),
        }
        ends = {"onset": night.onset_s, "wake": night.wake_s}
        row |= {f"{name}_s": rounded(second) if night.is_found else None for name, second in ends.items()}
        row |= {name: iso(summary.clock(second)) if night.is_found else "" for name, second in ends.items()}
        period_s = night.wake_s - night.onset_s
        figures = {
            "period_h": period_s / 3600,
            "sleep_h": night.sleep_s / 3600,
            "efficiency": night.sleep_s / period_s,
            "wear_share": night.wear_share,
        }
        row |= {name: None if np.isnan(value) else rounded(value, 4) for name, value in figures.items()}
        rows.append(row | {"worn_h": rounded(night.worn_s / 3600, 4)})
    return rows


TABLE = Table(
    name="nights",
    description="one row per night: sleep period, sleep in it, share worn; no rows if nights are not computed",
    fixed=(
        *("night", "date", "weekday", "valid", "onset_s", "wake_s", "onset", "wake"),
        *("period_h", "sleep_h", "efficiency", "wear_share", "worn_h"),
    ),
    rows=night_rows,
    kinds={"night": "int", "date": "date", "weekday": "text", "valid": "bool", "onset": "time", "wake": "time"},
)
