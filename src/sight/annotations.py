"""Annotations (diaries): labelled time ranges in a CSV file, converted to one label per window.

Two layouts are read. ``start,end,label`` has one row per activity. ``time,label`` has one row per change: each label is
valid until the next row, the last one until the end of the recording. Times are seconds since the start of the
recording, or ISO 8601; times without a zone are local to the recording. An empty label means "unlabelled". Other
columns are ignored.
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

LAYOUTS = (("start", "end", "label"), ("time", "label"))


class Annotation(NamedTuple):
    """Labelled time range in seconds since the start of the recording, with its line in the file."""

    start_s: float
    end_s: float
    label: str
    line: int


def label_windows(
    path: str | Path, windows: Windows, classes: Sequence[str], label_map: Mapping[str, str] | None = None
) -> Array:
    """Return the class index of each window: the class that covers most of it, -1 if most of it is unlabelled.

    Parameters
    ----------
    path
        CSV file, separated by comma, semicolon or tab.
    windows
        Windows of the annotated recording.
    classes
        Names of the K classes, compared without case.
    label_map
        Labels of the file to class names; an empty class name marks a label as unlabelled. See `read_label_map`.

    Raises
    ------
    ValueError
        If a label is unknown, a row ends before it starts, rows overlap, or no row overlaps the recording.
    """
    path = Path(path)
    start_s = float(windows.time_s[0]) if len(windows) else 0
    end_s = float(windows.time_s[-1] + windows.window_s) if len(windows) else 0
    rows = sorted(_read_annotations(path, windows.start, end_s))
    if not any(row.start_s < end_s and row.end_s > start_s for row in rows):
        covered = f"covers {rows[0].start_s:g} s to {rows[-1].end_s:g} s" if rows else "has no rows"
        raise ValueError(
            f"{path.name} {covered}, but the recording lasts from {start_s:g} s to {end_s:g} s; "
            f"check the dates and the time zone."
        )
    for row, following in pairwise(rows):
        if following.start_s < row.end_s:
            overlap_s = min(row.end_s, following.end_s) - following.start_s
            raise ValueError(
                f"{path.name}: lines {row.line} and {following.line} overlap by {overlap_s:g} s; "
                f"give one activity at a time."
            )
    return _majority(rows, _class_indices(path, rows, classes, label_map or {}), len(classes), windows)


def _read_annotations(path: Path, start: datetime | None, end_s: float) -> list[Annotation]:
    """Read the rows of a file; `start` is the wall clock at 0 s, `end_s` where the last row of ``time,label`` ends."""
    columns, rows = _read_table(path)
    layout = next((layout for layout in LAYOUTS if set(layout) <= set(columns)), None)
    if layout is None:
        raise ValueError(
            f"{path.name}: expected columns start,end,label or time,label, got {', '.join(columns) or 'none'}."
        )
    starts = [_seconds(path, line, row, layout[0], start) for line, row in rows]
    if layout == LAYOUTS[0]:
        ends = [_seconds(path, line, row, "end", start) for line, row in rows]
    else:
        ends = [*starts[1:], max(end_s, *starts[-1:], 0.0)]
    annotations = []
    for (line, row), first, last in zip(rows, starts, ends, strict=False):
        if last < first:
            raise ValueError(f"{path.name}, line {line}: ends {first - last:g} s before it starts; correct the times.")
        annotations.append(Annotation(first, last, row.get("label", "").strip(), line))
    return annotations


def read_label_map(path: str | Path) -> dict[str, str]:
    """Read a TOML file of ``"label in the file" = "class name"``; an empty class name means unlabelled.

    The entries stand at the top level or in a table ``[labels]``, as in the map of a folder dataset.
    """
    path = Path(path)
    label_map = tomllib.loads(path.read_text(encoding="utf-8"))
    label_map = label_map["labels"] if isinstance(label_map.get("labels"), dict) else label_map
    for label, name in label_map.items():
        if not isinstance(name, str):
            raise ValueError(f'{path.name}: expected "label" = "class", got {label} = {name!r}; give one text each.')
    return label_map


def _read_table(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Return the column names and each non-empty row with its line number."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        delimiter = next((mark for mark in ",;\t" if mark in header), ",")
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter)
        try:
            columns = [column.strip().lower() for column in next(reader, [])]
            return columns, [(reader.line_num, dict(zip(columns, row, strict=False))) for row in reader if any(row)]
        except csv.Error as error:
            raise ValueError(f"{path.name}: a line cannot be read ({error}); repair or remove it.") from None


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
    # Python subtracts two times of one zone as wall clocks: an hour wrong across a change to or from summer time.
    if start.tzinfo is not None:
        moment, start = moment.astimezone(UTC), start.astimezone(UTC)
    return (moment - start).total_seconds()


def _class_indices(
    path: Path, rows: Sequence[Annotation], classes: Sequence[str], label_map: Mapping[str, str]
) -> Array:
    index = {name.casefold(): k for k, name in enumerate(classes)}
    for label, name in label_map.items():
        if name and name.casefold() not in index:
            raise ValueError(
                f"{label!r} is mapped to {name!r}, which is not a class; the classes are {', '.join(classes)}."
            )
    index |= {label.casefold(): index[name.casefold()] if name else UNLABELLED for label, name in label_map.items()}
    index.setdefault("", UNLABELLED)
    for row in rows:
        if row.label.casefold() not in index:
            raise ValueError(
                f"{path.name}, line {row.line}: {row.label!r} is not a class; the classes are {', '.join(classes)}. "
                f"Map other labels to these in a TOML file."
            )
    return np.array([index[row.label.casefold()] for row in rows], dtype=np.int64)


def _majority(rows: Sequence[Annotation], indices: Array, n_classes: int, windows: Windows) -> Array:
    """Return the class with the largest overlap with each window, -1 where unlabelled time is longer."""
    ranges = np.array([(row.start_s, row.end_s) for row in rows]).reshape(-1, 2)
    first, last = windows.time_s, windows.time_s + windows.window_s
    covered = np.zeros((len(windows), n_classes))
    for k in np.unique(indices[indices != UNLABELLED]):
        own = ranges[indices == k]
        # Labelled seconds up to a time are piecewise linear, so the overlap is a difference of two interpolations.
        total = np.cumsum(own[:, 1] - own[:, 0])
        seconds = np.column_stack([np.append(0.0, total[:-1]), total]).ravel()
        covered[:, k] = np.interp(last, own.ravel(), seconds) - np.interp(first, own.ravel(), seconds)
    unlabelled_s = windows.window_s - covered.sum(axis=1)
    is_labelled = covered.max(axis=1, initial=0.0) >= np.maximum(unlabelled_s, 1e-9)
    return np.where(is_labelled, covered.argmax(axis=1), UNLABELLED)
