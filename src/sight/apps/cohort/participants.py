"""Table of participants, joined with the tables of a cohort."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sight._util.text import choices


@dataclass(frozen=True, kw_only=True)
class Participants:
    """Columns of a table of participants for the recordings of a cohort."""

    id_column: str
    table: Any  # pandas: "recording", then the columns of the file except the id
    without_row: list[str]  # recordings that the file does not have
    without_recording: list[str]  # ids of rows without a recording


def read_participants(path: Path, subjects: Mapping[str, str], id_column: str | None = None) -> Participants:
    """Read a CSV file with one row per participant; columns are separated by commas, semicolons or tabs.

    `subjects` maps recordings to their subjects; an id may be either. Without `id_column`, the column with the most of
    these names is taken. ValueError if no column has any, or if an id occurs twice.
    """
    table = _read_csv(path, str)
    column = id_column or _id_column(path, table, subjects)
    if column not in table:
        raise ValueError(f"{path} has no column {column!r}; {choices(column, map(str, table.columns))}")
    ids = table[column].str.strip()
    repeated = ids[ids.duplicated() & ids.notna()]
    if len(repeated):
        raise ValueError(f"{path}: {repeated.iloc[0]!r} occurs twice in column {column!r}; keep one row for each.")
    index = {text: row for row, text in enumerate(ids) if isinstance(text, str)}
    rows = {name: index.get(name, index.get(subject)) for name, subject in subjects.items()}
    matched = {name: row for name, row in rows.items() if row is not None}
    # Numbers stay numbers: the file is read again with types, only the id as text.
    typed = _read_csv(path, {column: str})
    joined = typed.drop(columns=column).iloc[list(matched.values())].assign(recording=list(matched))
    return Participants(
        id_column=column,
        table=joined,
        without_row=sorted(set(rows) - set(matched)),
        without_recording=[text for text, row in index.items() if row not in matched.values()],
    )


def join_participants(connection: Any, participants: Participants, tables: Sequence[str]) -> None:
    """Add the columns of the participants to tables; a name that a table has already gets `participant_` before it."""
    import pyarrow as pa

    taken = {name.lower() for table in tables for name in connection.table(table).columns} - {"recording"}
    names = {name: f"participant_{name}" for name in participants.table.columns if str(name).lower() in taken}
    frame = participants.table.rename(columns=names)
    connection.from_arrow(pa.Table.from_pandas(frame, preserve_index=False)).create("participants")
    for table in tables:
        connection.execute(f"CREATE TABLE joined AS SELECT * FROM {table} LEFT JOIN participants USING (recording)")
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"ALTER TABLE joined RENAME TO {table}")


def _read_csv(path: Path, types: Any) -> Any:
    import pandas as pd

    try:
        with path.open(encoding="utf-8-sig") as file:
            separator = max(",;\t", key=file.readline().count)
        return pd.read_csv(path, sep=separator, dtype=types, encoding="utf-8-sig")
    except ValueError as error:  # of pandas too
        raise ValueError(f"{path} is not a table of participants ({error}); expected CSV with a header.") from None


def _id_column(path: Path, table: Any, subjects: Mapping[str, str]) -> str:
    known = {*subjects, *subjects.values()}
    found = {str(name): table[name].str.strip().isin(known).sum() for name in table.columns}
    best = max(found, key=found.__getitem__, default="")
    if not best or not found[best]:
        raise ValueError(
            f"No column of {path} has names of recordings, such as {next(iter(subjects))!r}; add one, and name it with "
            f"--id if it is not found."
        )
    return best
