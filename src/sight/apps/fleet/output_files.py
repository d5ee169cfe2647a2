"""Predictions of a fleet, read without Spark.

A driver that dies leaves files that belong to no finished trigger. Spark's sink logs the files that count; a reader
that ignores this log would see some windows twice.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote


def finished_files(folder: str | Path) -> list[Path]:
    """List the Parquet files of finished triggers in the output folder of `sight fleet`, oldest first."""
    predictions = Path(folder) / "predictions"
    log = predictions / "_spark_metadata"
    if not log.is_dir():
        raise FileNotFoundError(f"There are no predictions of a fleet in {folder}; expected {log}.")
    numbered = {int(path.name.partition(".")[0]): path for path in log.iterdir() if path.name[:1].isdigit()}
    # A compacted entry repeats all earlier ones.
    compact = [path for path in log.glob("*.compact") if path.name[:1].isdigit()]
    newest = max((int(path.name.partition(".")[0]) for path in compact), default=-1)
    entries = [log / f"{newest}.compact"] if compact else []
    entries += [numbered[number] for number in sorted(numbered) if number > newest]
    return [predictions / name for entry in entries for name in _names(entry)]


def read_predictions(folder: str | Path) -> Any:
    """Return all predictions of finished triggers as one pyarrow table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [pq.read_table(path, partitioning=None) for path in finished_files(folder)]
    return pa.concat_tables(tables) if tables else pa.table({})


def _names(entry: Path) -> list[str]:
    version, *lines = entry.read_text("utf-8").splitlines()
    if version != "v1":
        raise ValueError(f"Expected version v1 of Spark's log of files, got {version!r} in {entry}; upgrade sight.")
    return [unquote(json.loads(line)["path"]).rpartition("/")[2] for line in lines if line]
