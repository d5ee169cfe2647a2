"""Questions to a cohort in SQL."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from sight.cohort.results_folder import Store
from sight.cohort.summary_tables import views


def ask(out: Path, sql: str, csv: Path | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Answer a query over the views `windows`, `days`, `recordings`, `transitions` and `time_use`.

    Parameters
    ----------
    out
        Folder of the cohort.
    sql
        A query in the dialect of DuckDB.
    csv
        File for the answer; rows are then written there and not returned.
    """
    import duckdb

    with closing(views(Store(Path(out)))) as connection:
        try:
            answer = connection.sql(sql)
            if answer is None:
                raise ValueError(f"Expected a query that gives rows, got {sql!r}.")
            if csv is not None:
                answer.write_csv(str(csv))
                return list(answer.columns), []
            return list(answer.columns), answer.fetchall()
        except duckdb.Error as error:
            raise ValueError(f"DuckDB does not understand the query: {error}") from None
