"""Registered tables of a recording of a cohort as Parquet, computed by the modules that `sight adapt` uses.

They depend on the rules of days and bouts. With other rules they are computed again from the stored windows.
"""

import json
from dataclasses import asdict
from datetime import date
from functools import partial
from typing import Any

from sight.apps.cohort.results_folder import ResultsFolder, cohort_tables
from sight.apps.cohort.stored_windows import read_result
from sight.results.output_tables import Table, table
from sight.results.output_tables.rules import TableRules
from sight.results.summary import ResultSummary


def read_summary(folder: ResultsFolder, name: str, facts: dict[str, Any], rules: TableRules) -> ResultSummary:
    model = {"file": folder.read_metadata()["model"]["file"]}
    result = read_result(folder.windows(name), facts, folder.epochs(name))
    return ResultSummary(result, rules, {"subject": facts["subject"], "model": model})


def write_tables(folder: ResultsFolder, name: str, summary: ResultSummary) -> None:
    """Write all tables of a recording; equal tables give equal bytes."""
    import pyarrow.parquet as pq

    for kind in cohort_tables():
        content = _to_arrow(table(kind), summary, name)
        folder.write(folder.table(kind, name), partial(pq.write_table, content, compression="zstd"))


def has_tables(folder: ResultsFolder, name: str, rules: TableRules) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [folder.table(kind, name) for kind in cohort_tables()]
    try:  # the last one is written last
        metadata = pq.read_schema(paths[-1]).metadata or {}
    except (OSError, pa.ArrowException):
        return False
    return metadata.get(b"rules") == _rules_text(rules).encode() and all(path.is_file() for path in paths)


def _to_arrow(table: Table, summary: ResultSummary, name: str) -> Any:
    import pyarrow as pa

    types = {"int": pa.int64(), "bool": pa.bool_(), "text": pa.string(), "date": pa.date32(), "time": pa.string()}
    rows = summary.rows(table.name)
    columns = {"recording": pa.array([name] * len(rows), pa.string())}
    for column in table.columns_of(summary):
        kind = table.kinds.get(column, "number")
        values = [row.get(column) for row in rows]
        if kind == "date":
            values = [None if text is None else date.fromisoformat(text) for text in values]
        columns[column] = pa.array(values, types.get(kind, pa.float64()))
    return pa.table(columns).replace_schema_metadata({"rules": _rules_text(summary.rules)})


def _rules_text(rules: TableRules) -> str:
    return json.dumps(asdict(rules), sort_keys=True)
