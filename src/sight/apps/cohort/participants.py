"""Table of participants, joined with the tables of a cohort."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sight._util.text import choices

#: What became of a participant or of a recording.
MATCHED, UNREADABLE, NO_RECORDING, NO_PARTICIPANT = "matched", "unreadable", "no recording", "no participant"


@dataclass(frozen=True, kw_only=True)
class Participants:
    """Columns of a table of participants for the recordings of a cohort."""

    id_column: str
    table: Any  # pandas: "recording", then the columns of the file except the id
    matches: list[dict[str, str | None]]  # participant, recording and status: of all participants and all recordings

    def names(self, status: str) -> list[str]:
        """Return the participants of a status, or the recordings without one."""
        rows = (row for row in self.matches if row["status"] == status)
        return [str(row["participant"] or row["recording"]) for row in rows]


def read_participants(
    path: Path, subjects: Mapping[str, str], id_column: str | None = None, failed: Collection[str] = ()
) -> Participants:
    """Read a CSV file with one row per participant; columns are separated by commas, semicolons or tabs.

    `subjects` maps all recordings to their subjects; an id may be either. Those in `failed` could not be read. Without
    `id_column`, the column with the most of these names is taken. ValueError if no column has any, or if an id occurs
    twice.
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
    return Participants(id_column=column, table=joined, matches=list(_matches(index, rows, failed)))


def _matches(
    index: Mapping[str, int], rows: Mapping[str, int | None], failed: Collection[str]
) -> Iterator[dict[str, str | None]]:
    recordings: dict[int | None, list[str]] = {}
    for name, row in sorted(rows.items()):
        recordings.setdefault(row, []).append(name)
    for participant, row in index.items():
        for name in recordings.get(row, ()):
            yield {"participant": participant, "recording": name, "status": UNREADABLE if name in failed else MATCHED}
        if row not in recordings:
            yield {"participant": participant, "recording": None, "status": NO_RECORDING}
    for name in recordings.get(None, ()):
        yield {"participant": None, "recording": name, "status": NO_PARTICIPANT}


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
