"""What is looked at before Spark starts: whether the files hold the rows that were announced."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from sight.atomic import write_atomic

#: Columns of every row: who, which and when.
KEYS = ("wearer", "window", "time_s")
#: Columns of each kind beyond them; see docs/fleet.md.
VALUES = {"features": ("z", "p"), "windows": ("x",), "samples": ("samples",)}
#: Lines of JSON that are looked at; a row may lack something, so many lacking the same would not tell one more.
LINES = 100
_PARQUET = b"PAR1"


def check(rows: str, out: str, *, kind: str, file_format: str) -> None:
    """Refuse a kind or format that the files or the checkpoint contradict, before a file is consumed.

    Parameters
    ----------
    rows, out
        Folder of arriving files, and folder of the results; what is not local is believed.
    kind, file_format
        What rows hold, and how files are written; kept in the output folder for its whole life.
    """
    if "://" not in rows and (files := _files(Path(rows))):
        _check_file(files[0], kind, file_format)
    if "://" not in out:
        _keep(Path(out) / "fleet.json", {"kind": kind, "format": file_format})


def _files(folder: Path) -> list[Path]:
    """List what Spark would read: it leaves out names that begin with a dot or an underscore."""
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._")


def _check_file(path: Path, kind: str, file_format: str) -> None:
    with path.open("rb") as file:
        found = "parquet" if file.read(len(_PARQUET)) == _PARQUET else "json"
    if found != file_format:
        told = "Parquet" if found == "parquet" else "no Parquet"
        raise ValueError(
            f"Expected files of format {file_format}, got {path.name}, which is {told}; "
            f"give --format {found}, or remove it."
        )
    columns = _parquet_columns(path) if found == "parquet" else _json_columns(path)
    missing = [name for name in (*KEYS, *VALUES[kind]) if name not in columns]
    if not missing:
        return
    fitting = [other for other, names in VALUES.items() if set(names) <= columns]
    remedy = f"give --kind {fitting[0]}" if fitting and kind not in fitting else "see docs/fleet.md for the columns"
    raise ValueError(
        f"Rows of kind {kind} need the columns {', '.join((*KEYS, *VALUES[kind]))}, but {path.name} has no "
        f"{' and no '.join(missing)}; {remedy}."
    )


def _parquet_columns(path: Path) -> set[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return set(pq.read_schema(path).names)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path.name} is no whole Parquet file ({error}); remove it, move files in whole.") from None


def _json_columns(path: Path) -> set[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        rows = [_row(line) for line in islice(filter(str.strip, file), LINES)]
    if not any(rows):
        raise ValueError(f"Expected a JSON object in each line, got none at the head of {path.name}; remove it.")
    return {name for row in rows for name in row}


def _row(line: str) -> Iterable[str]:
    try:
        row = json.loads(line)
    except ValueError:
        return ()
    return row if isinstance(row, dict) else ()


def _keep(path: Path, wanted: dict[str, str]) -> None:
    """Write what a checkpoint is begun with, or refuse to go on with anything else."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(wanted).encode())
        return
    begun = json.loads(path.read_text("utf-8"))
    for name, value in wanted.items():
        if begun.get(name, value) != value:
            raise ValueError(
                f"{path.parent} was begun with --{name} {begun[name]}, got {value}; its files are consumed: "
                f"keep it, or begin a new output folder."
            )
