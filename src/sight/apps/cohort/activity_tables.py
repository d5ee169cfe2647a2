"""Days, bouts and non-wear of each recording of a cohort as Parquet, and the tables over all of them.

The tables of a recording hold every bout, and no rule about valid days, so that another rule needs no new run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from sight.apps.cohort.results_folder import TABLE_KINDS
from sight.apps.cohort.window_table import INTENSITY_COLUMNS
from sight.results.tables import (
    BOUT_COLUMNS,
    DAILY_COLUMNS,
    NONWEAR_COLUMNS,
    ResultSummary,
    TableRules,
    bout_rows,
    daily_rows,
    hour_columns,
    nonwear_rows,
    subject_row,
)

TEXTS = ("recording", "weekday", "start", "end", "class", "kind")


def tables_of(summary: ResultSummary, name: str) -> dict[str, Any]:
    """Return the tables of a recording (pyarrow), by kind; the same columns for all recordings of a cohort."""
    hours = [column for columns in hour_columns(summary.classes) for column in columns]
    daily = [
        row | {"date": None if row["date"] is None else date.fromisoformat(row["date"])} for row in daily_rows(summary)
    ]
    return {
        "daily": _table(name, (*DAILY_COLUMNS, *INTENSITY_COLUMNS, *hours), daily),
        "bouts": _table(name, BOUT_COLUMNS, bout_rows(summary, all_lengths=True)),
        "nonwear": _table(name, NONWEAR_COLUMNS, nonwear_rows(summary)),
    }


def write_table(path: Path, table: Any) -> None:
    """Write a table; equal tables give equal bytes."""
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd")


def create_tables(connection: Any, files: Mapping[str, Sequence[str]], rules: TableRules, model: str) -> None:
    """Create the tables of each kind over all recordings, and `summary` with one row for each, by the rules.

    `connection` has the view `facts`; `files` are the Parquet files of each kind, `model` is the name of the model.
    """
    for kind in TABLE_KINDS:
        connection.read_parquet(list(files[kind])).create_view(f"all_{kind}")
    shortest = "".join(
        f" WHEN class = {_quoted(name)} THEN {seconds!r}" for name, seconds in rules.min_bout_of_class_s.items()
    )
    least = f"CASE{shortest} ELSE {rules.min_bout_s!r} END" if shortest else repr(rules.min_bout_s)
    for kind, query in {
        "daily": f"SELECT * REPLACE (wear_h >= {rules.valid_day_h!r} AS valid) FROM all_daily ORDER BY recording, day",
        "bouts": f"FROM all_bouts WHERE end_s - start_s >= {least} - 1e-6 ORDER BY recording, start_s",
        "nonwear": "FROM all_nonwear ORDER BY recording, start_s",
    }.items():
        connection.execute(f"CREATE TABLE {kind} AS {query}")
    connection.from_arrow(_subject_rows(connection, model)).create("summary")


def _subject_rows(connection: Any, model: str) -> Any:
    """Return the rows of `summary` (pyarrow)."""
    import pyarrow as pa

    daily: dict[str, list[dict[str, Any]]] = {}
    for row in connection.table("daily").to_arrow_table().to_pylist():
        text = None if row["date"] is None else row["date"].isoformat()
        daily.setdefault(row["recording"], []).append(row | {"date": text})
    bouts: dict[str, dict[tuple[int, str], int]] = {}
    counted = connection.sql("SELECT recording, day, class, count(*) FROM bouts GROUP BY ALL").fetchall()
    for name, day, label, count in counted:
        bouts.setdefault(name, {})[day, label] = count
    ((classes,),) = connection.sql("SELECT classes FROM facts LIMIT 1").fetchall()
    described = connection.sql(
        "SELECT recording, subject, method, len(warnings) FROM facts ORDER BY recording"
    ).fetchall()
    rows = []
    for name, subject, method, warnings in described:
        facts = {"subject": subject, "method": method, "model": model, "warnings": warnings}
        rows.append({"recording": name} | subject_row(daily.get(name, []), bouts.get(name, {}), classes, facts))
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return pa.table({key: pa.array([row.get(key) for row in rows], _summary_type(key)) for key in columns})


def _table(name: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Any:
    import pyarrow as pa

    types = dict.fromkeys(TEXTS, pa.string()) | dict.fromkeys(("complete", "valid"), pa.bool_())
    types |= {"day": pa.int32(), "date": pa.date32()}
    own = [{"recording": name, **row} for row in rows]
    return pa.table(
        {key: pa.array([row.get(key) for row in own], types.get(key, pa.float64())) for key in ("recording", *columns)}
    )


def _summary_type(column: str) -> Any:
    import pyarrow as pa

    if column in ("recording", "subject", "first_date", "last_date", "method", "model"):
        return pa.string()
    return pa.int64() if column.endswith("days") or column == "warnings" else pa.float64()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
