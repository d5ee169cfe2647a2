"""Tables over a cohort, made by DuckDB from the Parquet files of its recordings.

Times are added as whole milliseconds, so sums are the same to the bit however many threads add them.
"""

from __future__ import annotations

import glob
import shutil
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from sight.cohort.results_folder import Store

#: Marks of a recording that deserves a look, each with the condition on its row in `recordings`.
FLAGS = {
    "short": "recorded_hours < 24",
    "little_wear": "wear_hours < 0.5 * recorded_hours",
    "gaps": "gap_hours > 0.05 * (recorded_hours + gap_hours)",
    "clipped": "saturated_share > 0.001",
    "unsure": "low_confidence_share > 0.3",
    "no_clock": "start IS NULL",
    "warnings": "warnings > 0",
}

_MARKS = ", ".join(f"CASE WHEN {condition} THEN '{flag}' END" for flag, condition in FLAGS.items())

DAYS = """
WITH of_day AS (
    SELECT recording, day, min(date) AS date,
        sum(ms) FILTER (wear) AS wear, sum(ms) FILTER (NOT wear) AS off, sum(gap_ms) AS gap
    FROM timed GROUP BY ALL
),
refined AS (
    SELECT recording, day, class, sum(ms) AS worn, sum(ms) FILTER (low_confidence) AS unsure
    FROM timed WHERE wear GROUP BY ALL
),
raw AS (SELECT recording, day, raw_class AS class, sum(ms) AS raw FROM timed WHERE wear GROUP BY ALL)
SELECT recording, day, date, class,
    minutes(worn) AS minutes,
    minutes(raw) AS raw_minutes,
    minutes(unsure) AS low_confidence_minutes,
    minutes(wear) AS day_wear_minutes,
    minutes(off) AS day_non_wear_minutes,
    minutes(gap) AS day_gap_minutes
FROM of_day CROSS JOIN classes
LEFT JOIN refined USING (recording, day, class)
LEFT JOIN raw USING (recording, day, class)
ORDER BY recording, day, place
"""

TRANSITIONS = """
SELECT recording, previous_class AS from_class, class AS to_class, count(*) AS windows
FROM windows WHERE previous_class IS NOT NULL
GROUP BY ALL ORDER BY ALL
"""

RECORDINGS = f"""
WITH totals AS (
    SELECT recording, min(date) AS first_date, max(day) AS days, count(*) AS windows,
        hours(sum(ms)) AS recorded_hours,
        hours(sum(ms) FILTER (wear)) AS wear_hours,
        hours(sum(gap_ms)) AS gap_hours,
        count(*) FILTER (gap_ms > 0) AS gaps,
        count(*) FILTER (class <> previous_class) AS changes_of_class,
        round(count(*) FILTER (class <> raw_class) / count(*), 4) AS changed_share,
        round(count(*) FILTER (low_confidence) / count(*), 4) AS low_confidence_share
    FROM timed GROUP BY recording
),
told AS (
    SELECT recording, subject, file, stream.start AS start,
        coalesce(stream.facts.saturated_share, 0) AS saturated_share,
        coalesce(len(stream.facts.warnings), 0) AS warnings
    FROM facts
),
whole AS (SELECT * FROM told JOIN totals USING (recording))
SELECT *, concat_ws(' ', {_MARKS}) AS flags
FROM whole ORDER BY recording
"""

TIME_USE = """
WITH used AS (
    SELECT recording, class, sum(minutes) AS minutes, sum(day_wear_minutes) AS worn FROM days GROUP BY ALL
)
SELECT class, count(*) FILTER (minutes > 0) AS recordings,
    round(sum(CAST(round(1000 * minutes) AS BIGINT)) / 60000, 3) AS hours,
    round(sum(CAST(round(1000 * minutes) AS BIGINT)) / nullif(sum(CAST(round(1000 * worn) AS BIGINT)), 0), 4)
        AS share_of_wear,
    round(quantile_cont(minutes / nullif(worn, 0), 0.1), 4) AS share_p10,
    round(quantile_cont(minutes / nullif(worn, 0), 0.5), 4) AS share_median,
    round(quantile_cont(minutes / nullif(worn, 0), 0.9), 4) AS share_p90
FROM used JOIN classes USING (class) GROUP BY class, place ORDER BY place
"""

#: Name to query; a later one may use an earlier.
TABLES = {"days": DAYS, "transitions": TRANSITIONS, "recordings": RECORDINGS, "time_use": TIME_USE}

_FACTS = {
    "recording": "VARCHAR",
    "subject": "VARCHAR",
    "file": "VARCHAR",
    "classes": "VARCHAR[]",
    "stream": "STRUCT(start VARCHAR, facts STRUCT(saturated_share DOUBLE, warnings VARCHAR[]))",
}


def summarise(store: Store, names: Sequence[str]) -> None:
    """Write every table as Parquet and CSV over these recordings; without any there is no summary.

    Parameters
    ----------
    store
        Folder of the cohort.
    names
        Finished recordings.
    """
    if not names:
        shutil.rmtree(store.summary, ignore_errors=True)
        return
    with closing(_over(store, names)) as connection:
        connection.read_json([_literal(store.facts(name)) for name in names], columns=_FACTS).create_view("facts")
        for statement in (
            "CREATE MACRO minutes(ms) AS round(coalesce(ms, 0) / 60000, 3)",
            "CREATE MACRO hours(ms) AS round(coalesce(ms, 0) / 3600000, 4)",
            "CREATE VIEW timed AS SELECT *, CAST(round(1000 * duration_s) AS BIGINT) AS ms, "
            "CAST(round(1000 * gap_before_s) AS BIGINT) AS gap_ms FROM windows",
            "CREATE TABLE classes AS SELECT unnest(classes) AS class, generate_subscripts(classes, 1) AS place "
            "FROM (SELECT classes FROM facts LIMIT 1)",
        ):
            connection.execute(statement)
        for table, query in TABLES.items():
            connection.execute(f"CREATE TABLE {table} AS {query}")
            for form in ("parquet", "csv"):
                store.write(store.summary / f"{table}.{form}", lambda draft, t=table: _copy(connection, t, draft))  # type: ignore[misc]


def views(store: Store) -> Any:
    """Open a database with a view of the windows of all recordings and of each table of the summary."""
    if not (store.summary / "recordings.parquet").is_file():
        raise ValueError(f"There is no summary in {store.root}; run: sight cohort run FOLDER --out {store.root}")
    import duckdb

    with closing(duckdb.connect()) as reader:
        path = _literal(store.summary / "recordings.parquet")
        names = [name for (name,) in reader.read_parquet(path).project("recording").fetchall()]
    connection = _over(store, names)
    for table in TABLES:
        connection.read_parquet(_literal(store.summary / f"{table}.parquet")).create_view(table)
    return connection


def _over(store: Store, names: Sequence[str]) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.read_parquet([_literal(store.windows(name)) for name in names]).create_view("windows")
    return connection


def _copy(connection: Any, table: str, draft: Any) -> None:
    escaped = str(draft).replace("'", "''")
    form = "FORMAT parquet, COMPRESSION zstd" if draft.suffix == ".parquet" else "FORMAT csv, HEADER"
    connection.execute(f"COPY (FROM {table}) TO '{escaped}' ({form})")


def _literal(path: Any) -> str:
    """Write a path so that none of its characters stands for others."""
    return glob.escape(str(path))
