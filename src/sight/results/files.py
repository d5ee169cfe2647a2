"""Output files of a run: tables, report and run information.

The files hold every window: non-wear time, gaps and low confidence are columns, never removed rows.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sight import __version__
from sight._util.atomic import staged_files, write_json
from sight.results.csv_cells import to_cell
from sight.results.info import FILES, info_facts
from sight.results.report import write_report
from sight.results.tables import (
    LOW_CONFIDENCE,
    NONWEAR_COLUMNS,
    SEGMENT_COLUMNS,
    ResultSummary,
    TableRules,
    bout_columns,
    bout_rows,
    count_bouts,
    daily_columns,
    daily_rows,
    nonwear_rows,
    segment_rows,
    subject_row,
    window_columns,
)
from sight.results.tables.cells import iso
from sight.types import Result

__all__ = ["FILES", "info_facts", "summary_row", "write_outputs"]

WINDOWS_CSV = "windows.csv"


def write_outputs(
    result: Result,
    folder: str | Path,
    *,
    info: Mapping[str, Any],
    others: Sequence[Result] = (),
    low_confidence: float = LOW_CONFIDENCE,
    rules: TableRules | None = None,
    csv: bool = False,
) -> dict[str, Path]:
    """Write all output files of a result, or none of them on error, and return their paths by name.

    Parameters
    ----------
    result
        The stream and its predictions.
    folder
        Output folder; created if needed. Files of an earlier run are replaced; a folder with `info.json` is complete.
    info
        Information that the result does not have: "title" and "subject" are shown at the top of the report, mappings
        such as "input" (facts of the file) and "model" (its card) are copied to `info.json`.
    others
        Predictions of other methods on the same stream, shown in the report.
    low_confidence
        Windows are marked if the probability of their class is below this value.
    rules
        Which days are valid and how long bouts last at least.
    csv
        Whether to write `windows.csv` as well.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            'Output files need pyarrow, which is not installed; run: pip install "sight-har[data]".', name="pyarrow"
        )
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"Expected a folder for the output files, but {folder} is a file; name another place.")
    summary = ResultSummary(result, low_confidence, rules)
    daily, bouts = daily_rows(summary), bout_rows(summary)
    row = summary_row(summary, daily, bouts, info)
    facts = dict(info)
    title = {"title": str(facts.pop("title"))} if "title" in facts else {}
    names = [WINDOWS_CSV, *FILES] if csv else [*FILES]
    with staged_files(folder, names) as draft:
        _write_windows(draft, summary, csv=csv)
        _write_csv(draft / "segments.csv", SEGMENT_COLUMNS, segment_rows(summary))
        _write_csv(draft / "daily.csv", daily_columns(summary), daily)
        _write_csv(draft / "bouts.csv", bout_columns(summary), bouts)
        _write_csv(draft / "nonwear.csv", NONWEAR_COLUMNS, nonwear_rows(summary))
        _write_csv(draft / "summary.csv", list(row), [row])
        report = draft / "report.html"
        write_report(report, result, others=others, facts=facts, low_confidence=low_confidence, rules=rules, **title)
        write_json(draft / "info.json", info_facts(summary, info))
    if not csv:
        (folder / WINDOWS_CSV).unlink(missing_ok=True)  # of an earlier run
    return {name: folder / name for name in names}


def summary_row(
    summary: ResultSummary,
    daily: Sequence[Mapping[str, Any]],
    bouts: Sequence[Mapping[str, Any]],
    info: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the row of `summary.csv`; `info` as in `write_outputs`."""
    facts = {
        "subject": info.get("subject", ""),
        "method": summary.result.name,
        "model": info.get("model", {}).get("file", ""),
        "warnings": len(summary.result.windows.warnings),
    }
    return subject_row(daily, count_bouts(bouts), summary.classes, facts)


def _write_windows(folder: Path, summary: ResultSummary, *, csv: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, texts = window_columns(summary), ("raw_class", "class", "label")
    types = dict.fromkeys(texts, pa.string())
    table = pa.table({key: pa.array(column, types.get(key)) for key, column in columns.items()})
    metadata = {"method": summary.result.method, "sight_version": __version__}
    pq.write_table(table.replace_schema_metadata(metadata), folder / "windows.parquet")
    if not csv:
        return
    from pyarrow import csv as arrow_csv

    local = {"time": [iso(moment) for moment in columns["time"]]} if "time" in columns else {}
    cells = {key: [to_cell(value) for value in columns[key]] for key in texts if key in columns}
    table = pa.table({key: pa.array(column, types.get(key)) for key, column in (columns | local | cells).items()})
    arrow_csv.write_csv(table, folder / WINDOWS_CSV, arrow_csv.WriteOptions(quoting_style="needed"))


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=columns, lineterminator="\n")
        writer.writerow({key: to_cell(key) for key in columns})
        writer.writerows({key: to_cell(value) for key, value in row.items()} for row in rows)
