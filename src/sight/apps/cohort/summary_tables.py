"""Tables over all recordings of a cohort, computed by DuckDB from their Parquet files.

Times are summed as whole milliseconds, so that sums do not depend on the number of threads.
"""

import glob
import shutil
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from sight.apps.cohort.participants import Participants, join_participants
from sight.apps.cohort.results_folder import ResultsFolder, cohort_tables
from sight.results.output_files.csv import FORMULA, to_cell

#: Flags of a recording that should be inspected, each with the condition on its row in `recordings`.
FLAGS = {
    "short": "recorded_hours < 0.5 * (SELECT median(recorded_hours) FROM whole)",
    "little_wear": "wear_hours < 0.5 * recorded_hours",
    "gaps": "gap_hours > 0.05 * (recorded_hours + gap_hours)",
    "saturated": "list_contains(note_kinds, 'saturated')",
    "low_confidence": "low_confidence_share > 0.3",
    "no_clock": "start IS NULL",
    "errors": "errors > 0",
    "warnings": "warnings > 0",
}

_FLAG_CASES = ", ".join(f"CASE WHEN {condition} THEN '{flag}' END" for flag, condition in FLAGS.items())

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
described AS (
    SELECT recording, facts.subject, facts.file, stream.start AS start,
        coalesce(stream.facts.saturated_share, 0) AS saturated_share, quality.errors, quality.warnings,
        string_split(quality.note_kinds, ' ') AS note_kinds
    FROM facts JOIN quality USING (recording)
),
whole AS (SELECT * FROM described JOIN totals USING (recording))
SELECT * EXCLUDE (note_kinds), concat_ws(' ', {_FLAG_CASES}) AS flags
FROM whole ORDER BY recording
"""

#: Name of the time in bed among the classes of `time_use`.
IN_BED = "in bed"

TIME_USE = f"""
WITH whole AS (SELECT recording, coalesce(sum(ms) FILTER (wear), 0) AS worn FROM timed GROUP BY recording),
of_class AS (
    SELECT recording, CASE WHEN in_bed THEN '{IN_BED}' ELSE class END AS class, sum(ms) AS own
    FROM timed WHERE wear GROUP BY ALL
),
listed AS (
    FROM classes UNION ALL SELECT '{IN_BED}', NULL WHERE EXISTS (FROM timed WHERE wear AND in_bed)
),
used AS (
    SELECT class, place, worn, coalesce(own, 0) AS ms
    FROM whole CROSS JOIN listed LEFT JOIN of_class USING (recording, class)
)
SELECT class, count(*) FILTER (ms > 0) AS recordings,
    round(sum(ms) / 3600000, 3) AS hours,
    round(sum(ms) / nullif(sum(worn), 0), 4) AS share_of_wear,
    round(quantile_cont(ms / nullif(worn, 0), 0.1), 4) AS share_p10,
    round(quantile_cont(ms / nullif(worn, 0), 0.5), 4) AS share_median,
    round(quantile_cont(ms / nullif(worn, 0), 0.9), 4) AS share_p90
FROM used GROUP BY class, place ORDER BY place NULLS LAST
"""

#: Tables that are computed from the windows of all recordings, name to query.
QUERIES = {"transitions": TRANSITIONS, "recordings": RECORDINGS, "time_use": TIME_USE}

_FACTS = {
    "recording": "VARCHAR",
    "subject": "VARCHAR",
    "file": "VARCHAR",
    "method": "VARCHAR",
    "classes": "VARCHAR[]",
    "stream": "STRUCT(start VARCHAR, facts STRUCT(saturated_share DOUBLE))",
}


def write_summary(folder: ResultsFolder, names: Sequence[str], participants: Participants | None = None) -> None:
    """Write every table over these recordings as Parquet and CSV; remove the tables if there are no recordings."""
    if not names:
        shutil.rmtree(folder.summary, ignore_errors=True)
        return
    with closing(_windows_view(folder, names)) as connection:
        connection.read_json([_literal(folder.facts(name)) for name in names], columns=_FACTS).create_view("facts")
        for statement in (
            "CREATE MACRO hours(ms) AS round(coalesce(ms, 0) / 3600000, 4)",
            "CREATE VIEW timed AS SELECT *, CAST(round(1000 * duration_s) AS BIGINT) AS ms, "
            "CAST(round(1000 * gap_before_s) AS BIGINT) AS gap_ms FROM windows",
            "CREATE TABLE classes AS SELECT unnest(classes) AS class, generate_subscripts(classes, 1) AS place "
            "FROM (SELECT classes FROM facts LIMIT 1)",
        ):
            connection.execute(statement)
        for table in cohort_tables():  # recordings whose intensity is unknown lack its columns
            files = [_literal(folder.table(table, name)) for name in names]
            connection.read_parquet(files, union_by_name=True).create(table)
        for table, query in QUERIES.items():
            connection.execute(f"CREATE TABLE {table} AS {query}")
        if participants is not None:
            join_participants(connection, participants, cohort_tables())
        for table in table_names():
            for form in ("parquet", "csv"):
                folder.write(folder.summary / f"{table}.{form}", partial(_copy, connection, table))


def table_names() -> list[str]:
    return [*QUERIES, *cohort_tables()]


def run_query(folder: ResultsFolder, sql: str, csv: Path | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return column names and rows of a DuckDB query over `windows` and the tables of the summary.

    If `csv` is given, the rows are written to this file and not returned. The query reads no file outside of the folder
    and writes none; statements other than queries raise ValueError.
    """
    import duckdb

    with closing(_connect(folder)) as connection:
        try:
            _restrict(connection, folder, csv)
            kinds = [statement.type for statement in connection.extract_statements(sql)]
            if kinds != [duckdb.StatementType.SELECT]:
                raise ValueError(f"Expected one query that returns rows, such as FROM summary, got {sql[:200]!r}.")
            relation = connection.sql(sql)
            if csv is not None:
                _without_formulas(relation).write_csv(str(csv))
            return list(relation.columns), [] if csv else relation.fetchall()
        except duckdb.Error as error:
            raise ValueError(f"DuckDB cannot run the query: {error}") from None


def _connect(folder: ResultsFolder) -> Any:
    if not (folder.summary / "recordings.parquet").is_file():
        raise ValueError(f"There is no summary in {folder.root}; run: sight cohort run FOLDER --out {folder.root}")
    import duckdb

    with closing(duckdb.connect()) as reader:
        path = _literal(folder.summary / "recordings.parquet")
        names = [name for (name,) in reader.read_parquet(path).project("recording").fetchall()]
    connection = _windows_view(folder, names)
    for table in table_names():
        connection.read_parquet(_literal(folder.summary / f"{table}.parquet")).create_view(table)
    return connection


def _restrict(connection: Any, folder: ResultsFolder, csv: Path | None) -> None:
    """Permit files of a folder and the file that is written, and no extensions; this cannot be undone."""
    root = folder.root.absolute()
    files = [] if csv is None else [csv.absolute()]
    for name, paths in (("directories", [root, _literal(root)]), ("paths", files)):
        quoted = ", ".join("'{}'".format(str(path).replace("'", "''")) for path in paths)
        connection.execute(f"SET allowed_{name} = [{quoted}]")
    for setting in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
        connection.execute(f"SET {setting} = false")
    connection.execute("SET lock_configuration = true")


def _windows_view(folder: ResultsFolder, names: Sequence[str]) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.read_parquet([_literal(folder.windows(name)) for name in names]).create_view("windows")
    return connection


def _copy(connection: Any, table: str, draft: Any) -> None:
    if draft.suffix == ".csv":
        _without_formulas(connection.table(table)).write_csv(str(draft))
        return
    escaped = str(draft).replace("'", "''")
    connection.execute(f"COPY (FROM {table}) TO '{escaped}' (FORMAT parquet, COMPRESSION zstd)")


def _without_formulas(relation: Any) -> Any:
    """Return a relation whose texts and names a spreadsheet does not take for formulas, and TRUE and FALSE as text."""
    first = " OR ".join(f"starts_with({{0}}, chr({ord(character)}))" for character in FORMULA)
    changed = f"CASE WHEN {first} THEN concat(chr(39), {{0}}) ELSE {{0}} END"
    columns = []
    for name, kind in zip(relation.columns, relation.types, strict=True):
        value = changed.format(_quoted(name)) if str(kind) == "VARCHAR" else _quoted(name)
        if str(kind) == "BOOLEAN":
            value = f"upper(CAST({value} AS VARCHAR))"
        columns.append(f"{value} AS {_quoted(to_cell(name))}")
    return relation.project(", ".join(columns))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(path: Any) -> str:
    return glob.escape(str(path))
