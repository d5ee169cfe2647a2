"""One row for the recording: means over its valid days and nights."""

from collections import Counter
from typing import Any

from sight.results.method_name import method_name
from sight.results.output_tables import Table
from sight.results.output_tables.cells import mean, rounded
from sight.results.output_tables.daily import daily_columns, hour_columns
from sight.results.summary import ResultSummary

#: Columns before the means.
COLUMNS = (
    *("subject", "first_date", "last_date", "days", "complete_days", "valid_days", "valid_weekend_days"),
    *("nights", "valid_nights", "method", "model", "cut_points", "errors", "warnings"),
)
#: Columns of days without a mean here; `day_statistics.csv` has it if it makes sense.
LEFT_OUT = ("non_wear_h", "gap_h", "low_confidence_h", "m5_start_h", "l5_start_h")
#: Means over valid nights, by column of `nights.csv`.
OF_NIGHTS = {"night_period_h": "period_h", "night_sleep_h": "sleep_h", "night_efficiency": "efficiency"}


def subject_row(summary: ResultSummary) -> dict[str, Any]:
    daily, nights, info = summary.rows("daily"), summary.rows("nights"), summary.info
    valid = [row for row in daily if row["valid"]]
    weekend = [row for row in valid if row["weekday"] in ("Saturday", "Sunday")]
    weekdays = [row for row in valid if row["weekday"] and row not in weekend]
    dates = [row["date"] for row in daily if row["date"]]
    hours, _ = hour_columns(summary.classes)
    row = {
        "subject": info.get("subject", ""),
        "first_date": min(dates, default=None),
        "last_date": max(dates, default=None),
        "days": len(daily),
        "complete_days": sum(bool(row["complete"]) for row in daily),
        "valid_days": len(valid),
        "valid_weekend_days": len(weekend),
        "nights": None if summary.no_nights else len(nights),
        "valid_nights": None if summary.no_nights else sum(bool(row["valid"]) for row in nights),
        "method": method_name(summary.result),
        "model": info.get("model", {}).get("file", ""),
        "cut_points": summary.movement.cut_points.name if summary.movement and summary.movement.cut_points else None,
        "errors": summary.severities["error"],
        "warnings": summary.severities["warning"],
    }
    measures = [name for name in daily_columns(summary) if name.endswith(("_h", "_mg", "_min"))]
    row |= {name: mean(valid, name) for name in measures if name not in LEFT_OUT and not name.startswith("raw_")}
    if not summary.no_nights:
        row |= {name: mean([night for night in nights if night["valid"]], own) for name, own in OF_NIGHTS.items()}
    row |= {f"weekday_{name}": mean(weekdays, name) for name in hours}
    row |= {f"weekend_{name}": mean(weekend, name) for name in hours}
    bouts = Counter((bout["day"], bout["class"]) for bout in summary.rows("bouts"))
    for name in summary.classes:
        count = sum(bouts[day["day"], name] for day in valid)
        row[f"{name}_bouts_per_day"] = rounded(count / len(valid), 2) if valid else None
    return row


TABLE = Table(
    name="summary",
    description="one row: means over valid days and nights",
    fixed=COLUMNS,
    rows=lambda summary: [subject_row(summary)],
    columns=lambda summary: list(summary.rows("summary")[0]),
    kinds={
        **dict.fromkeys(("subject", "first_date", "last_date", "method", "model", "cut_points"), "text"),
        **dict.fromkeys(("days", "complete_days", "valid_days", "valid_weekend_days", "nights", "valid_nights"), "int"),
        **dict.fromkeys(("errors", "warnings"), "int"),
    },
)
