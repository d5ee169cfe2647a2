"""Row of `summary.csv`: means over the valid days of a subject."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sight.results.tables.cells import rounded
from sight.results.tables.days import hour_columns
from sight.results.tables.result_summary import ResultSummary
from sight.types import Warning

#: Columns of `summary.csv` before the means.
SUMMARY_COLUMNS = (
    *("subject", "first_date", "last_date", "days", "complete_days", "valid_days", "valid_weekend_days"),
    *("method", "model", "warnings"),
)
Rows = Sequence[Mapping[str, Any]]


def subject_row(
    daily: Rows, bouts: Mapping[tuple[int, str], int], classes: Sequence[str], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the row of `summary.csv`; means are None if there is no valid day.

    Parameters
    ----------
    daily
        Rows of `daily.csv`.
    bouts
        Number of bouts by day and class, as `count_bouts` returns it.
    classes
        Names of the classes.
    facts
        Values of "subject", "method", "model" and "warnings" (a count).
    """
    valid = [row for row in daily if row["valid"]]
    weekend = [row for row in valid if row["weekday"] in ("Saturday", "Sunday")]
    weekdays = [row for row in valid if row["weekday"] and row not in weekend]
    dates = [row["date"] for row in daily if row["date"]]
    hours, _ = hour_columns(classes)
    row = {
        "first_date": min(dates, default=None),
        "last_date": max(dates, default=None),
        "days": len(daily),
        "complete_days": sum(bool(row["complete"]) for row in daily),
        "valid_days": len(valid),
        "valid_weekend_days": len(weekend),
        **facts,
    }
    means = {name: mean(valid, name) for name in ("wear_h", "enmo_mg", "mad_mg") if not daily or name in daily[0]}
    means |= {name: mean(valid, name) for name in hours}
    means |= {f"weekday_{name}": mean(weekdays, name) for name in hours}
    means |= {f"weekend_{name}": mean(weekend, name) for name in hours}
    for name in classes:
        count = sum(bouts.get((row["day"], name), 0) for row in valid)
        means[f"{name}_bouts_per_day"] = rounded(count / len(valid), 2) if valid else None
    return {name: row[name] for name in SUMMARY_COLUMNS} | means


def count_bouts(bouts: Rows) -> dict[tuple[int, str], int]:
    """Return the number of bouts by day and class, from the rows of `bouts.csv`."""
    return Counter((bout["day"], bout["class"]) for bout in bouts)


def mean(rows: Rows, name: str) -> float | None:
    """Return the mean of a column over rows, None if it has no value."""
    values = [row[name] for row in rows if row[name] is not None]
    return rounded(sum(values) / len(values), 4) if values else None


def warnings_of(summary: ResultSummary, daily: Rows) -> list[Warning]:
    """Return the warnings about a recording: those of reading it, and one if it is long but has no valid day."""
    warnings = list(summary.result.windows.warnings)
    needed = summary.rules.valid_day_h
    span_h = float(summary.end_s[-1] - summary.start_s[0]) / 3600 if len(summary) else 0.0
    if span_h >= needed and not any(row["valid"] for row in daily):
        most = max((row["wear_h"] for row in daily), default=0.0)
        text = (
            f"No day is valid: the sensor was worn for at most {most:.1f} h a day, and a valid day needs {needed:g} h. "
            f"Means over days are empty."
        )
        remedy = "a shorter valid day can be chosen with --valid-day."
        warnings.append(Warning(kind="valid-days", severity="warning", text=text, remedy=remedy))
    return warnings
