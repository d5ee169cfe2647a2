"""Diaries: CSV files of labelled time ranges.

Two layouts are read. ``start,end,label`` has one row per activity. ``time,label`` has one row per change: each label is
valid until the next row, the last one until the end of the recording. Times are seconds since the start of the
recording, or ISO 8601; times without a zone are local to the recording. An empty label means "unlabelled". A column
``subject`` makes one file a diary of several subjects. Other columns are ignored.
"""

import csv
import re
import zipfile
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

LAYOUTS = (("start", "end", "label"), ("time", "label"))

Row: TypeAlias = tuple[int, dict[str, str]]  # line number, column to cell


class Annotation(NamedTuple):
    """Labelled time range in seconds since the start of the recording, with its line in the file."""

    start_s: float
    end_s: float
    label: str
    line: int


def find_diary(place: str | Path, *, subject: str, recording: str) -> Path:
    """Return the diary of a recording; raise ValueError if it does not exist.

    `place` is a file, a folder of files named after the recordings, or a pattern with ``{subject}`` or ``{recording}``.
    """
    pattern = _pattern(place)
    path = Path(pattern.replace("{subject}", subject).replace("{recording}", recording))
    if not path.is_file():
        raise ValueError(f"There is no diary {path} for the recording {recording}; write it, or name another place.")
    return path


def diary_expression(place: str | Path) -> str:
    r"""Return the regular expression of the names of all diaries at a place; see `find_diary`.

    >>> diary_expression("diaries/{subject}.csv")
    'diaries/[^/]+\\.csv'
    """
    return re.sub(r"\\{(subject|recording)\\}", "[^/]+", re.escape(_pattern(place)))


def _pattern(place: str | Path) -> str:
    return (Path(place) / "{recording}.csv").as_posix() if Path(place).is_dir() else Path(place).as_posix()


def count_labels(path: Path) -> Counter[tuple[str, str]]:
    """Return how many rows of a diary have each subject and label; the subject is empty without such a column."""
    rows = _read_rows(path)[1]
    return Counter((row.get("subject", "").strip(), row.get("label", "").strip()) for _, row in rows)


def read_diary(
    path: Path,
    start: datetime | None,
    span_s: tuple[float, float],
    *,
    subject: str | None = None,
    clock_times_only: bool = False,
    may_miss: bool = False,
) -> list[Annotation]:
    """Return the rows of a diary for one recording, in time order.

    `start` is the wall clock at 0 s of the recording, None if unknown; `span_s` are its first and last second. Rows of
    other subjects are left out if `subject` is given and the file has a column ``subject``. A diary that several
    recordings share needs `clock_times_only`. Raises ValueError if a row ends before it starts, if rows overlap, or,
    without `may_miss`, if no row overlaps the recording.
    """
    layout, table = _read_rows(path)
    if subject is not None:
        own = subject.casefold()
        table = [row for row in table if "subject" not in row[1] or row[1]["subject"].strip().casefold() == own]
    starts = [_seconds(path, row, layout[0], start, clock_times_only) for row in table]
    if layout == LAYOUTS[0]:
        ends = [_seconds(path, row, "end", start, clock_times_only) for row in table]
    else:
        ends = [*starts[1:], max(span_s[1], *starts[-1:], 0.0)]
    rows = []
    for (line, row), first, last in zip(table, starts, ends, strict=False):
        if last < first:
            raise ValueError(f"{path.name}, line {line}: ends {first - last:g} s before it starts; correct the times.")
        rows.append(Annotation(first, last, row.get("label", "").strip(), line))
    rows.sort()
    _check_overlaps(path, rows, span_s, subject, may_miss)
    return rows


def _check_overlaps(
    path: Path, rows: list[Annotation], span_s: tuple[float, float], subject: str | None, may_miss: bool
) -> None:
    start_s, end_s = span_s
    if not may_miss and not any(row.start_s < end_s and row.end_s > start_s for row in rows):
        of_subject = f" for {subject}" if subject is not None and not rows else ""
        covered = f"covers {rows[0].start_s:g} s to {rows[-1].end_s:g} s" if rows else f"has no rows{of_subject}"
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


def _read_rows(path: Path) -> tuple[tuple[str, ...], list[Row]]:
    try:
        columns, rows = _read_cells(path)
    except (UnicodeDecodeError, csv.Error) as error:
        if zipfile.is_zipfile(path):
            raise ValueError(f"{path} is an Excel workbook; save the diary as CSV in UTF-8.") from None
        if isinstance(error, UnicodeDecodeError):
            raise ValueError(f"{path} is not text in UTF-8; save the diary as CSV in UTF-8.") from None
        raise ValueError(f"{path.name}: a line cannot be read ({error}); repair or remove it.") from None
    layout = next((layout for layout in LAYOUTS if set(layout) <= set(columns)), None)
    if layout is None:
        raise ValueError(
            f"{path.name}: expected columns start,end,label or time,label, got {', '.join(columns) or 'none'}."
        )
    return layout, rows


def _read_cells(path: Path) -> tuple[list[str], list[Row]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        delimiter = next((mark for mark in ",;\t" if mark in header), ",")
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter)
        columns = [column.strip().lower() for column in next(reader, [])]
        return columns, [(reader.line_num, dict(zip(columns, row, strict=False))) for row in reader if any(row)]


def _seconds(path: Path, row: Row, column: str, start: datetime | None, clock_times_only: bool) -> float:
    line, cells = row
    text = cells.get(column, "").strip()
    try:
        seconds = float(text)
    except ValueError:
        return _clock_seconds(f"{path.name}, line {line}", column, text, start)
    if not np.isfinite(seconds):
        raise ValueError(f"{path.name}, line {line}: expected a finite {column}, got {text}.")
    if clock_times_only:
        raise ValueError(
            f"{path.name}, line {line}: {text} s since the start is ambiguous, because several recordings share this "
            f"diary; write clock times such as 2025-01-31T08:30:00, or one diary for each recording."
        )
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
