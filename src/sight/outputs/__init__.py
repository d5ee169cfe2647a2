"""Output files of a run: windows, segments, days, report and run information.

The files hold every window: non-wear time, gaps and low confidence are columns, never removed rows.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sight._version import __version__
from sight.atomic import staged_files, write_json
from sight.outputs.csv_cells import to_cell
from sight.outputs.info import FILES, info_facts
from sight.outputs.tables import DAILY_COLUMNS, SEGMENT_COLUMNS, daily_rows, days, segment_rows, window_columns
from sight.report import LOW_CONFIDENCE, ResultSummary, write_report
from sight.types import Result

__all__ = ["DAILY_COLUMNS", "FILES", "SEGMENT_COLUMNS", "days", "info_facts", "window_columns", "write_outputs"]


def write_outputs(
    result: Result,
    folder: str | Path,
    *,
    info: Mapping[str, Any],
    others: Sequence[Result] = (),
    low_confidence: float = LOW_CONFIDENCE,
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
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            'Output files need pyarrow, which is not installed; run: pip install "sight-har[data]".', name="pyarrow"
        )
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"Expected a folder for the output files, but {folder} is a file; name another place.")
    summary = ResultSummary(result, low_confidence)
    facts = dict(info)
    title = {"title": str(facts.pop("title"))} if "title" in facts else {}
    with staged_files(folder, tuple(FILES)) as draft:
        _write_windows(draft / "windows.parquet", summary)
        _write_csv(draft / "segments.csv", SEGMENT_COLUMNS, segment_rows(summary))
        _write_csv(draft / "daily.csv", DAILY_COLUMNS, daily_rows(summary))
        report = draft / "report.html"
        write_report(report, result, others=others, facts=facts, low_confidence=low_confidence, **title)
        write_json(draft / "info.json", info_facts(summary, info))
    return {name: folder / name for name in FILES}


def _write_windows(path: Path, summary: ResultSummary) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = dict.fromkeys(("raw_class", "class", "label"), pa.string())
    table = pa.table({key: pa.array(column, types.get(key)) for key, column in window_columns(summary).items()})
    metadata = {"method": summary.result.method, "sight_version": __version__}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: to_cell(value) for key, value in row.items()} for row in rows)
