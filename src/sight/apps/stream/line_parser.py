"""Parser for lines of JSON or CSV with samples; malformed lines are counted and skipped."""

import json
import logging
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

from sight._util.unit_conversion import ACCELERATION, ROTATION, check_unit, factor
from sight.apps.stream.table_lines import Samples, TableLines, split_cells
from sight.models.card import ModelCard
from sight.recordings.reading_options import ReadOptions

logger = logging.getLogger(__name__)

#: A longer line is cut off; it cannot be a sample.
LONGEST_LINE = 1 << 20
#: Largest absolute time in seconds, as in the service: beyond it, times of neighbouring samples would be equal.
LATEST_S = 1e10


class LineParser:
    """Parser of sample lines to the model's channels and units; counts malformed lines and logs the first.

    JSON: ``{"time_s": 0.02, "values": [x, y, z]}`` for a sample, lists of both for a chunk; ``time_s`` is optional.
    CSV: one sample a line. A header makes it a table that is read as a file is (`TableLines`); without one, columns
    are the channels in order, a leading time in seconds is optional, and of the options only `unit`, `gyro_unit` and
    `skip` apply. A first line that is a header but does not name all channels raises ValueError: its columns may be of
    another sensor.
    """

    def __init__(self, card: ModelCard, options: ReadOptions | None = None) -> None:
        self.card, self.options = card, options or ReadOptions()
        self.channels = card.channels
        self.number = 0
        self.malformed = 0
        self._begun = False
        self._table: TableLines | None = None
        self._factors = self._unit_factors()

    @property
    def rate_hz(self) -> float | None:
        """Sampling rate of the first rows of a table; None if it is not known."""
        return None if self._table is None else self._table.rate_hz

    def parse(self, lines: Iterable[str], end: bool = False) -> list[Samples]:
        """Return the samples of lines, joined into as few chunks as possible; `end` also those that wait for more."""
        if self.options.start is not None:
            raise ValueError(
                "start (--start) applies to files; times of a stream are those of the sensor. Leave it out."
            )
        parts: list[Samples] = []
        for line in lines:
            parts += self._parse_line(line.strip(" \r\n"))
        if self._table is not None and (rows := self._table.take(end)) is not None:
            parts.append(rows)
        joined = []
        for timed, group in groupby(parts, key=lambda part: part.time_s is not None):
            values, times = zip(*group, strict=True)
            joined.append(Samples(np.concatenate(values), np.concatenate(times) if timed else None))
        return joined

    def _parse_line(self, line: str) -> list[Samples]:
        self.number += 1
        if not line.strip() or line.startswith("#") or self.number <= (self.options.skip or 0):
            return []
        is_json, first, self._begun = line[0] in "{[", not self._begun, True
        parts: list[Samples] = []
        try:
            if not is_json and (header := self._header(line, first)) is not None:
                parts, self._table = self._waiting(), header
            elif is_json:
                parts = [*self._waiting(), self._parse_json(json.loads(line))]
            elif self._table is not None:
                self._table.add(line)
            else:
                parts = [self._parse_csv(line.split(","))]
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            if first and isinstance(error, _OtherHeaderError):
                raise ValueError(f"Line {self.number}: {error}") from None
            self._skip(line, error)
        return parts

    def _waiting(self) -> list[Samples]:
        rows = None if self._table is None else self._table.take(end=True)
        return [] if rows is None else [rows]

    def _header(self, line: str, first: bool) -> TableLines | None:
        delimiter = max(",;\t", key=line.count)
        names = [cell.strip().strip("\ufeff").strip('"') for cell in split_cells(line, delimiter)]
        if len(names) < len(self.channels) or not any(names) or any(map(_is_number, names)):
            if first and self.options.columns:
                raise _OtherHeaderError("expected a header, because --columns is set, got a sample; leave it out.")
            return None
        try:
            return TableLines(names, delimiter, self.card, self.options)
        except ValueError as error:
            raise _OtherHeaderError(str(error)) from None

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
        return Samples(self._converted(values), _checked_times(times))

    def _parse_csv(self, cells: list[str]) -> Samples:
        count = len(self.channels)
        if len(cells) not in (count, count + 1):
            raise ValueError(f"{len(cells)} cells")
        with np.errstate(over="ignore"):
            values = np.array([[float(cell) if cell.strip() else np.nan for cell in cells[-count:]]], np.float32)
        times = np.array([float(cells[0])]) if len(cells) > count else None
        return Samples(self._converted(values), _checked_times(times))

    def _converted(self, values: Any) -> Any:
        return values if self._factors is None else values * self._factors

    def _unit_factors(self) -> Any:
        """Return what converts samples without a header to the units of the model; None if nothing does."""
        unit, gyro_unit = self.options.unit, self.options.gyro_unit
        acceleration = None if unit is None else check_unit(unit, ACCELERATION, "unit")
        rotation = None if gyro_unit is None else check_unit(gyro_unit, ROTATION, "gyro_unit")
        own = [((acceleration if to in ACCELERATION else rotation) or to, to) for to in self.card.units]
        factors = np.array([factor(unit, to) for unit, to in own], np.float32)
        return None if (factors == 1).all() else factors

    def _skip(self, line: str, error: Exception) -> None:
        self.malformed += 1
        if self.malformed == 1:
            excerpt = line if len(line) <= 60 else f"{line[:57]}..."
            logger.warning(
                "line %d was skipped, it is no sample of %s (%s): %r; expected JSON with time_s and values, or CSV. "
                "Further malformed lines are only counted.",
                self.number, ", ".join(self.channels), error, excerpt,
            )  # fmt: skip


class _OtherHeaderError(ValueError):
    """A header that does not name all channels."""


def _checked_times(time_s: Any) -> Any:
    if time_s is not None and (np.abs(time_s) > LATEST_S).any():
        raise ValueError(f"a time beyond {LATEST_S:g} s")
    return time_s


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def split_lines(blocks: Iterable[bytes]) -> Iterator[list[str]]:
    """Split blocks of bytes into lines; an incomplete last line waits for the next block."""
    pending = b""
    for block in blocks:
        *lines, pending = (pending + block).split(b"\n")
        if len(pending) > LONGEST_LINE:
            lines, pending = [*lines, pending[:LONGEST_LINE]], b""
        if lines:
            yield [line.decode("utf-8", "replace") for line in lines]
    if pending:
        yield [pending.decode("utf-8", "replace")]
