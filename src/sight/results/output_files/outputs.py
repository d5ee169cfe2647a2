"""Output files of a run: tables, report and run information.

The files hold every window: non-wear time, gaps and low confidence are columns, never removed rows.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sight import __version__
from sight._util.atomic import staged_files, write_json
from sight.results.method_name import method_name
from sight.results.output_files.csv import to_cell, write_csv
from sight.results.output_files.info import WINDOWS, files, info_facts
from sight.results.output_tables import all_tables
from sight.results.output_tables.cells import iso
from sight.results.output_tables.windows import window_columns
from sight.results.report import write_report
from sight.results.summary import ResultSummary
from sight.types import Result

WINDOWS_CSV = "windows.csv"


def write_outputs(
    summary: ResultSummary, folder: str | Path, *, others: Sequence[Result] = (), csv: bool = False
) -> dict[str, Path]:
    """Write all output files of a result, or none of them on error, and return their paths by name.

    Parameters
    ----------
    summary
        The result, with its rules and information.
    folder
        Output folder; created if needed. Files of an earlier run are replaced; a folder with `info.json` is complete.
    others
        Predictions of other methods on the same stream, shown in the report.
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
    names = [WINDOWS_CSV, *files()] if csv else [*files()]
    with staged_files(folder, names) as draft:
        _write_windows(draft, summary, csv=csv)
        for table in all_tables():
            write_csv(draft / table.file, table.columns_of(summary), summary.rows(table.name))
        write_report(draft / "report.html", summary, others=others)
        write_json(draft / "info.json", info_facts(summary))
    if not csv:
        (folder / WINDOWS_CSV).unlink(missing_ok=True)  # of an earlier run
    return {name: folder / name for name in names}


def _write_windows(folder: Path, summary: ResultSummary, *, csv: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, texts = window_columns(summary), ("raw_class", "class", "label")
    types = dict.fromkeys(texts, pa.string())
    table = pa.table({key: pa.array(column, types.get(key)) for key, column in columns.items()})
    metadata = {"method": method_name(summary.result), "sight_version": __version__}
    pq.write_table(table.replace_schema_metadata(metadata), folder / WINDOWS)
    if not csv:
        return
    from pyarrow import csv as arrow_csv

    local = {"time": [iso(moment) for moment in columns["time"]]} if "time" in columns else {}
    flags = [key for key, column in columns.items() if isinstance(column, np.ndarray) and column.dtype.kind == "b"]
    cells = {
        key: [None if value is None else to_cell(value) for value in columns[key]]
        for key in (*texts, *flags)
        if key in columns
    }
    types |= dict.fromkeys(flags, pa.string())
    table = pa.table({key: pa.array(column, types.get(key)) for key, column in (columns | local | cells).items()})
    arrow_csv.write_csv(table, folder / WINDOWS_CSV, arrow_csv.WriteOptions(quoting_style="needed"))
