"""Parser for lines of JSON or CSV with samples; malformed lines are counted and skipped."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from sight.types import Array

logger = logging.getLogger(__name__)

#: Names of the time column in a CSV header.
TIME_NAMES = ("time_s", "time", "t", "timestamp")
#: A longer line is cut off; it cannot be a sample.
LONGEST_LINE = 1 << 20


class Samples(NamedTuple):
    """Samples of a sensor: values (n, C), and times (n,) in seconds or None."""

    values: Array
    time_s: Array | None


class LineParser:
    """Parser of sample lines that counts malformed ones and logs the first.

    Parameters
    ----------
    channels
        Channels of the model, in order.

    Notes
    -----
    JSON: ``{"time_s": 0.02, "values": [x, y, z]}`` for a sample, lists of both for a chunk; ``time_s`` is optional.
    CSV: one sample a line, with columns named by a header line or by position; a leading time is optional. A first line
    that is a header but does not name all channels raises ValueError: its columns may be of another sensor.

    Examples
    --------
    >>> parser = LineParser(("x", "y"))
    >>> [samples] = parser.parse(['{"time_s": 0.5, "values": [1, 2]}', "0.6,3,4", "garbage"])
    >>> samples.values.tolist(), samples.time_s.tolist(), parser.malformed
    ([[1.0, 2.0], [3.0, 4.0]], [0.5, 0.6], 1)
    """

    def __init__(self, channels: Sequence[str]) -> None:
        self.channels = tuple(channels)
        self.number = 0
        self.malformed = 0
        self._begun = False
        self._time: int | None = None
        self._columns: list[int] | None = None

    def parse(self, lines: Iterable[str]) -> list[Samples]:
        """Return the samples of lines, joined into as few chunks as possible."""
        parts = [part for line in lines if (part := self._parse_line(line.strip())) is not None]
        joined = []
        for timed, group in groupby(parts, key=lambda part: part.time_s is not None):
            values, times = zip(*group, strict=True)
            joined.append(Samples(np.concatenate(values), np.concatenate(times) if timed else None))
        return joined

    def _parse_line(self, line: str) -> Samples | None:
        self.number += 1
        if not line or line.startswith("#"):
            return None
        cells = None if line[0] in "{[" else line.split(",")
        if cells and not self._begun:
            self._refuse_other_header(cells)
        self._begun = True
        try:
            return self._parse_json(json.loads(line)) if cells is None else self._parse_csv(cells)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            self._skip(line, error)
            return None

    def _parse_json(self, content: Any) -> Samples:
        content = content if isinstance(content, dict) else {"values": content}
        with np.errstate(over="ignore"):  # values beyond float32 become infinity, which the clock drops
            values = np.atleast_2d(np.array(content["values"], np.float32))
        if values.ndim != 2 or values.shape[1] != len(self.channels):
            raise ValueError(f"{values.shape[-1]} values")
        time_s = content.get("time_s")
        times = None if time_s is None else np.atleast_1d(np.array(time_s, np.float64))
        if times is not None and times.shape != (len(values),):
            raise ValueError(f"{times.size} times for {len(values)} samples")
        return Samples(values, times)

    def _parse_csv(self, cells: list[str]) -> Samples | None:
        if self._read_header(cells):
            return None
        count = len(self.channels)
        columns, time = self._columns, self._time
        if columns is None:
            if len(cells) not in (count, count + 1):
                raise ValueError(f"{len(cells)} cells")
            time = 0 if len(cells) > count else None
            columns = list(range(len(cells) - count, len(cells)))
        if max(columns) >= len(cells):
            raise ValueError(f"{len(cells)} cells")
        with np.errstate(over="ignore"):
            values = np.array([[_number(cells[column]) for column in columns]], np.float32)
        return Samples(values, None if time is None else np.array([float(cells[time])]))

    def _read_header(self, cells: list[str]) -> bool:
        """Store the columns if the line names all channels; return whether it does."""
        names = _names(cells)
        if not set(self.channels) <= set(names):
            return False
        self._columns = [names.index(channel) for channel in self.channels]
        self._time = next((names.index(name) for name in TIME_NAMES if name in names), None)
        return True

    def _refuse_other_header(self, cells: list[str]) -> None:
        """Raise ValueError if a line is a header that does not name all channels."""
        names = _names(cells)
        missing = [channel for channel in self.channels if channel not in names]
        if missing and len(names) >= len(self.channels) and any(names) and not any(map(_is_number, names)):
            raise ValueError(
                f"Line {self.number} is a header that does not name {', '.join(missing)}: {', '.join(names)[:200]}; "
                f"rename the columns, or use --replay FILE with --columns."
            )

    def _skip(self, line: str, error: Exception) -> None:
        self.malformed += 1
        if self.malformed == 1:
            excerpt = line if len(line) <= 60 else f"{line[:57]}..."
            logger.warning(
                "line %d was skipped, it is no sample of %s (%s): %r; expected JSON with time_s and values, or CSV. "
                "Further malformed lines are only counted.",
                self.number, ", ".join(self.channels), error, excerpt,
            )  # fmt: skip


def _names(cells: list[str]) -> list[str]:
    """Return the cells of a header without quotes and byte order mark."""
    return [cell.strip().strip('"\ufeff') for cell in cells]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(cell: str) -> float:
    return float(cell) if cell.strip() else float("nan")


def split_lines(blocks: Iterable[bytes]) -> Iterator[list[str]]:
    r"""Split blocks of bytes into lines; an incomplete last line waits for the next block.

    Examples
    --------
    >>> list(split_lines([b"1,2\n3,", b"4\n5,6"]))
    [['1,2'], ['3,4'], ['5,6']]
    """
    pending = b""
    for block in blocks:
        *lines, pending = (pending + block).split(b"\n")
        if len(pending) > LONGEST_LINE:
            lines, pending = [*lines, pending[:LONGEST_LINE]], b""
        if lines:
            yield [line.decode("utf-8", "replace") for line in lines]
    if pending:
        yield [pending.decode("utf-8", "replace")]
