"""Checks before Spark starts: format and columns of the arriving files."""

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from sight._util.atomic import write_atomic

#: Columns of every row.
KEY_COLUMNS = ("wearer", "window", "time_s")
#: Further columns of each kind of row; see docs/fleet.md.
VALUE_COLUMNS = {"features": ("z", "p"), "windows": ("x",), "samples": ("samples",)}
#: Lines of JSON that are examined; a single row may lack a column.
EXAMINED_LINES = 100
_PARQUET = b"PAR1"


def check_input(rows: str, out: str, *, kind: str, file_format: str) -> None:
    """Raise ValueError if the first file or the checkpoint contradicts kind or format, before a file is consumed.

    Only local folders are checked. Kind and format are stored in the output folder, which accepts no others afterwards.
    """
    if "://" not in rows and (files := _files(Path(rows))):
        _check_file(files[0], kind, file_format)
    if "://" not in out:
        _check_stored(Path(out) / "fleet.json", {"kind": kind, "format": file_format})


def _files(folder: Path) -> list[Path]:
    """List the files that Spark reads: it ignores names that begin with a dot or an underscore."""
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] not in "._")


def _check_file(path: Path, kind: str, file_format: str) -> None:
    with path.open("rb") as file:
        actual = "parquet" if file.read(len(_PARQUET)) == _PARQUET else "json"
    if actual != file_format:
        raise ValueError(
            f"Expected files of format {file_format}, got {path.name}, which is "
            f"{'Parquet' if actual == 'parquet' else 'no Parquet'}; give --format {actual}, or remove it."
        )
    columns = _parquet_columns(path) if actual == "parquet" else _json_columns(path)
    needed = (*KEY_COLUMNS, *VALUE_COLUMNS[kind])
    missing = [name for name in needed if name not in columns]
    if not missing:
        return
    fitting = [other for other, names in VALUE_COLUMNS.items() if set(names) <= columns]
    remedy = f"give --kind {fitting[0]}" if fitting and kind not in fitting else "see docs/fleet.md for the columns"
    raise ValueError(
        f"Rows of kind {kind} need the columns {', '.join(needed)}, but {path.name} has no "
        f"{' and no '.join(missing)}; {remedy}."
    )


def _parquet_columns(path: Path) -> set[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return set(pq.read_schema(path).names)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"{path.name} is not a complete Parquet file ({error}); remove it, and move files in only when complete."
        ) from None


def _json_columns(path: Path) -> set[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        rows = [_row(line) for line in islice(filter(str.strip, file), EXAMINED_LINES)]
    if not any(rows):
        raise ValueError(f"Expected a JSON object in each line, got none at the start of {path.name}; remove it.")
    return {name for row in rows for name in row}


def _row(line: str) -> Iterable[str]:
    try:
        row = json.loads(line)
    except ValueError:
        return ()
    return row if isinstance(row, dict) else ()


def _check_stored(path: Path, options: dict[str, str]) -> None:
    if not path.exists():
        write_atomic(path, json.dumps(options).encode())
        return
    stored = json.loads(path.read_text("utf-8"))
    for name, value in options.items():
        if stored.get(name, value) != value:
            raise ValueError(
                f"{path.parent} was started with --{name} {stored[name]}, got {value}; use the same, or a new output "
                f"folder."
            )
