"""One row for the recording: means over its valid days."""

from collections import Counter
from typing import Any

from sight.results.summary import ResultSummary
from sight.results.tables import Table
from sight.results.tables.cells import mean, rounded
from sight.results.tables.daily import hour_columns

#: Columns before the means.
COLUMNS = (
    *("subject", "first_date", "last_date", "days", "complete_days", "valid_days", "valid_weekend_days"),
    *("method", "model", "warnings"),
)


def subject_row(summary: ResultSummary) -> dict[str, Any]:
    daily, info = summary.rows("daily"), summary.info
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
        "method": summary.result.name,
        "model": info.get("model", {}).get("file", ""),
        "warnings": len(summary.result.windows.warnings),
    }
    row |= {name: mean(valid, name) for name in ("wear_h", "enmo_mg", "mad_mg") if not daily or name in daily[0]}
    row |= {name: mean(valid, name) for name in hours}
    row |= {f"weekday_{name}": mean(weekdays, name) for name in hours}
    row |= {f"weekend_{name}": mean(weekend, name) for name in hours}
    bouts = Counter((bout["day"], bout["class"]) for bout in summary.rows("bouts"))
    for name in summary.classes:
        count = sum(bouts[day["day"], name] for day in valid)
        row[f"{name}_bouts_per_day"] = rounded(count / len(valid), 2) if valid else None
    return row


TABLE = Table(
    name="summary",
    description="one row: means over valid days",
    fixed=COLUMNS,
    rows=lambda summary: [subject_row(summary)],
    columns=lambda summary: list(summary.rows("summary")[0]),
    kinds={
        **dict.fromkeys(("subject", "first_date", "last_date", "method", "model"), "text"),
        **dict.fromkeys(("days", "complete_days", "valid_days", "valid_weekend_days", "warnings"), "int"),
    },
)
