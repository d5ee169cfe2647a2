"""Lines of text as samples: JSON or CSV, whichever comes; what cannot be read is counted, never fatal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from sight.types import Array

#: Names a column of time may have in the header of a CSV.
TIME_NAMES = ("time_s", "time", "t", "timestamp")
#: A line longer than this is no line; what sends it speaks another language.
LONGEST_LINE = 1 << 20


class Samples(NamedTuple):
    """Some samples of a sensor: values (n, C), and times (n,) in seconds or None."""

    values: Array
    time_s: Array | None


class Lines:
    """Reads samples from lines, and remembers what it could not read.

    Parameters
    ----------
    channels
        The model's, in order.
    tell
        Called with one sentence for the first line that cannot be read.

    Notes
    -----
    JSON: ``{"time_s": 0.02, "values": [x, y, z]}`` for a sample, lists of both for a chunk, ``time_s`` optional.
    CSV: one sample a line, by the names of a header line or by position, a time in front optional.

    Examples
    --------
    >>> lines = Lines(("x", "y"))
    >>> [samples] = lines.read(['{"time_s": 0.5, "values": [1, 2]}', "0.6,3,4", "garbage"])
    >>> samples.values.tolist(), samples.time_s.tolist(), lines.malformed
    ([[1.0, 2.0], [3.0, 4.0]], [0.5, 0.6], 1)
    """

    def __init__(self, channels: Sequence[str], tell: Callable[[str], None] | None = None) -> None:
        self.channels = tuple(channels)
        self.number = 0
        self.malformed = 0
        self._tell = tell
        self._time: int | None = None
        self._columns: list[int] | None = None

    def read(self, lines: Iterable[str]) -> list[Samples]:
        """Return the samples of some lines, as few chunks as there can be."""
        parts = [part for line in lines if (part := self._one(line.strip())) is not None]
        joined = []
        for timed, some in groupby(parts, key=lambda part: part.time_s is not None):
            values, times = zip(*some, strict=True)
            joined.append(Samples(np.concatenate(values), np.concatenate(times) if timed else None))
        return joined

    def _one(self, line: str) -> Samples | None:
        self.number += 1
        if not line or line.startswith("#"):
            return None
        try:
            return self._json(json.loads(line)) if line[0] in "{[" else self._csv(line.split(","))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            self._wrong(line, error)
            return None

    def _json(self, told: Any) -> Samples:
        told = told if isinstance(told, dict) else {"values": told}
        with np.errstate(over="ignore"):  # beyond float32 is infinity, which the clock drops
            values = np.atleast_2d(np.array(told["values"], np.float32))
        if values.ndim != 2 or values.shape[1] != len(self.channels):
            raise ValueError(f"{values.shape[-1]} values")
        time_s = told.get("time_s")
        times = None if time_s is None else np.atleast_1d(np.array(time_s, np.float64))
        if times is not None and times.shape != (len(values),):
            raise ValueError(f"{times.size} times for {len(values)} samples")
        return Samples(values, times)

    def _csv(self, cells: list[str]) -> Samples | None:
        if self._header(cells):
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

    def _header(self, cells: list[str]) -> bool:
        """Take a line that names all channels as the header."""
        names = [cell.strip().strip('"') for cell in cells]
        if not set(self.channels) <= set(names):
            return False
        self._columns = [names.index(channel) for channel in self.channels]
        self._time = next((names.index(name) for name in TIME_NAMES if name in names), None)
        return True

    def _wrong(self, line: str, error: Exception) -> None:
        self.malformed += 1
        if self._tell is not None and self.malformed == 1:
            shown = line if len(line) <= 60 else f"{line[:57]}..."
            self._tell(
                f"line {self.number} is no sample of {', '.join(self.channels)} and was left out ({error}): {shown!r}; "
                f"expected JSON with time_s and values, or CSV. Further such lines are only counted."
            )


def _number(cell: str) -> float:
    return float(cell) if cell.strip() else float("nan")


def split(blocks: Iterable[bytes]) -> Iterator[list[str]]:
    r"""Cut blocks of bytes into lines; what follows the last line end waits for the next block.

    Examples
    --------
    >>> list(split([b"1,2\n3,", b"4\n5,6"]))
    [['1,2'], ['3,4'], ['5,6']]
    """
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        if len(rest) > LONGEST_LINE:
            whole, rest = [*whole, rest[:LONGEST_LINE]], b""
        if whole:
            yield [line.decode("utf-8", "replace") for line in whole]
    if rest:
        yield [rest.decode("utf-8", "replace")]
