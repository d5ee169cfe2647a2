"""A wearer's diary: annotations in a CSV file to one label a window.

Two forms are read. ``start,end,label``: one row an activity. ``time,label``: one row a change; each label holds until
the next row, the last to the end. Times are seconds since the start of the recording, or ISO 8601; without a zone
they are local to the recording. An empty label means "not known". Other columns are ignored.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sight.types import UNLABELLED, Array, Windows

FORMS = (("start", "end", "label"), ("time", "label"))


class Entry(NamedTuple):
    """One annotated stretch, seconds since the start of the recording, and the line it stands on."""

    start_s: float
    end_s: float
    label: str
    line: int


def diary_labels(
    path: str | Path, windows: Windows, classes: Sequence[str], names: Mapping[str, str] | None = None
) -> Array:
    """Label windows from a diary: the class that covers most of a window, -1 where mostly nothing is known.

    Parameters
    ----------
    path
        The CSV file; comma, semicolon or tab.
    windows
        Windows of the recording that the diary tells of.
    classes
        Names of the K classes; case does not matter.
    names
        The diary's words to names of classes; an empty name drops the word. `read_names` reads it from TOML.

    Raises
    ------
    ValueError
        If a label is unknown, a row ends before it starts, rows overlap, or none meets the recording.
    """
    path = Path(path)
    begin_s, end_s = (
        (float(windows.time_s[0]), float(windows.time_s[-1] + windows.window_s)) if len(windows) else (0, 0)
    )
    entries = sorted(read_diary(path, start=windows.start, end_s=end_s))
    if not any(entry.start_s < end_s and entry.end_s > begin_s for entry in entries):
        told = f"tells of {entries[0].start_s:g} s to {entries[-1].end_s:g} s" if entries else "has no rows"
        raise ValueError(
            f"{path.name} {told}, but the recording lasts from {begin_s:g} s to {end_s:g} s; "
            f"check the dates and the time zone."
        )
    for before, after in pairwise(entries):
        if after.start_s < before.end_s:
            raise ValueError(
                f"{path.name}: lines {before.line} and {after.line} overlap by "
                f"{min(before.end_s, after.end_s) - after.start_s:g} s; one activity at a time."
            )
    return _cover(entries, _class_indices(path, entries, classes, names or {}), len(classes), windows)


def read_diary(path: str | Path, *, start: datetime | None, end_s: float) -> list[Entry]:
    """Read the rows of a diary in the order of the file.

    Parameters
    ----------
    path
        The CSV file.
    start
        Wall clock at 0 s; needed where the diary tells clock times.
    end_s
        End of the recording, where the last row of ``time,label`` ends.
    """
    path = Path(path)
    columns, rows = _table(path)
    form = next((form for form in FORMS if set(form) <= set(columns)), None)
    if form is None:
        raise ValueError(
            f"{path.name}: expected columns start,end,label or time,label, got {', '.join(columns) or 'none'}."
        )
    begins = [_seconds(path, line, row, form[0], start) for line, row in rows]
    if form == FORMS[0]:
        ends = [_seconds(path, line, row, "end", start) for line, row in rows]
    else:
        ends = [*begins[1:], max(end_s, *begins[-1:], 0.0)]
    entries = []
    for (line, row), begin, end in zip(rows, begins, ends, strict=False):
        if end < begin:
            raise ValueError(f"{path.name}, line {line}: ends {begin - end:g} s before it starts; correct the times.")
        entries.append(Entry(begin, end, row.get("label", "").strip(), line))
    return entries


def read_names(path: str | Path) -> dict[str, str]:
    """Read a TOML file of ``"word in the diary" = "name of a class"``; an empty name drops the word.

    The table may stand by itself or be called ``[labels]``, as in the map of a folder.
    """
    path = Path(path)
    names = tomllib.loads(path.read_text(encoding="utf-8"))
    names = names["labels"] if isinstance(names.get("labels"), dict) else names
    for word, name in names.items():
        if not isinstance(name, str):
            raise ValueError(f'{path.name}: expected "word" = "class", got {word} = {name!r}; write one text for each.')
    return names


def _table(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Column names, and each row that is not empty with the line it ends on."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        delimiter = next((mark for mark in ",;\t" if mark in header), ",")
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter)
        columns = [column.strip().lower() for column in next(reader, [])]
        return columns, [(reader.line_num, dict(zip(columns, row, strict=False))) for row in reader if any(row)]


def _seconds(path: Path, line: int, row: Mapping[str, str], column: str, start: datetime | None) -> float:
    text = row.get(column, "").strip()
    try:
        seconds = float(text)
    except ValueError:
        return _clock_seconds(f"{path.name}, line {line}", column, text, start)
    if not np.isfinite(seconds):
        raise ValueError(f"{path.name}, line {line}: expected a finite {column}, got {text}.")
    return seconds


def _clock_seconds(where: str, column: str, text: str, start: datetime | None) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{where}: expected {column} in seconds or as 2025-01-31T08:30:00, got {text!r}; correct the cell."
        ) from None
    if start is None:
        raise ValueError(
            f"{where}: {text} is a clock time, but the recording has no date; give seconds since its start."
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=start.tzinfo)
    if start.tzinfo is None and moment.tzinfo is not None:
        raise ValueError(f"{where}: {text} has a time zone, but the recording has none; leave the zone out.")
    # Two times of one zone subtract as wall clocks, an hour wrong across a change to or from summer time.
    if start.tzinfo is not None:
        moment, start = moment.astimezone(UTC), start.astimezone(UTC)
    return (moment - start).total_seconds()


def _class_indices(path: Path, entries: Sequence[Entry], classes: Sequence[str], names: Mapping[str, str]) -> Array:
    known = {name.casefold(): k for k, name in enumerate(classes)}
    for word, name in names.items():
        if name and name.casefold() not in known:
            raise ValueError(f"{word!r} is mapped to {name!r}, which is no class; known are {', '.join(classes)}.")
    known |= {word.casefold(): known[name.casefold()] if name else UNLABELLED for word, name in names.items()}
    known.setdefault("", UNLABELLED)
    for entry in entries:
        if entry.label.casefold() not in known:
            raise ValueError(
                f"{path.name}, line {entry.line}: {entry.label!r} is no class; known are {', '.join(classes)}. "
                f"Map other words to these in a TOML file."
            )
    return np.array([known[entry.label.casefold()] for entry in entries], dtype=np.int64)


def _cover(entries: Sequence[Entry], indices: Array, n_classes: int, windows: Windows) -> Array:
    """Overlap of each window with each class, as the difference of a rising function of covered seconds."""
    spans = np.array([(entry.start_s, entry.end_s) for entry in entries]).reshape(-1, 2)
    begin, end = windows.time_s, windows.time_s + windows.window_s
    covered = np.zeros((len(windows), n_classes))
    for k in np.unique(indices[indices != UNLABELLED]):
        span = spans[indices == k]
        total = np.cumsum(span[:, 1] - span[:, 0])
        seconds = np.column_stack([np.append(0.0, total[:-1]), total]).ravel()
        covered[:, k] = np.interp(end, span.ravel(), seconds) - np.interp(begin, span.ravel(), seconds)
    unknown = windows.window_s - covered.sum(axis=1)
    known = covered.max(axis=1, initial=0.0) >= np.maximum(unknown, 1e-9)
    return np.where(known, covered.argmax(axis=1), UNLABELLED)
