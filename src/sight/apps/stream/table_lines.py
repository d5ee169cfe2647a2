"""Rows of a table that arrive line by line, read as `sight.recordings.recording_files` reads a file."""

import csv
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from sight._util.unit_conversion import factor
from sight.models.card import ModelCard
from sight.recordings.columns import check_columns, find_columns, match_channels
from sight.recordings.local_times import LocalTimes, time_zone
from sight.recordings.reading_options import Expected, ReadOptions
from sight.recordings.recording_files import channel_units, unit_warnings
from sight.recordings.signal.sampling_rate import estimate_rate
from sight.recordings.timestamp_units import check_plausible_rate
from sight.recordings.timestamps import number_format
from sight.types import Array

logger = logging.getLogger(__name__)

#: Rows that wait at the beginning, until the unit of times and the sampling rate can be detected.
HEAD_ROWS = 32
#: A rate estimated from the first rows that is this close to the model's is the model's; jitter spoils the estimate.
RATE_ERROR = 0.05


class Samples(NamedTuple):
    """Samples of a sensor: values (n, C), and times (n,) in seconds or None."""

    values: Array
    time_s: Array | None


class TableLines:
    """Reader of the rows below a header, to the model's channels and units.

    The first rows are held back until the format of their times is known. `rate_hz` is their sampling rate; None until
    they have arrived, and without times.
    """

    def __init__(self, header: Sequence[str], delimiter: str, card: ModelCard, options: ReadOptions) -> None:
        mapping = find_columns(header, options.columns, card.channels)
        check_columns("The header", mapping, header)
        time = mapping.pop("time", None)
        found = match_channels(tuple(mapping), card.channels)
        if found is None:
            raise ValueError(
                f"The header {', '.join(header)[:200]} does not name the channels of the model, "
                f"{', '.join(card.channels)}; map its columns with columns (--columns {card.channels[0]}=...)."
            )
        units = dict(zip(mapping, channel_units(mapping, options, Expected.by(card)), strict=True))
        for warning in unit_warnings(mapping, tuple(units.values())):
            logger.warning("%s", warning)
        self._factors = np.array(
            [factor(units[name], to) for name, to in zip(found, card.units, strict=True)], np.float32
        )
        self._columns = [header.index(mapping[name]) for name in found]
        self._time = None if time is None else header.index(time)
        self._name, self._delimiter, self._card, self._options = time or "", delimiter, card, options
        self._clock = _Clock(options, delimiter)
        self._values: list[list[float]] = []
        self._times: list[float | datetime] = []
        self.rate_hz: float | None = None
        taken = (f"{to} = {mapping[name]} ({units[name]})" for name, to in zip(found, card.channels, strict=True))
        logger.info("columns: %s.", ", ".join([*([f"time = {time}"] if time else []), *taken]))

    def add(self, line: str) -> None:
        cells = split_cells(line, self._delimiter)
        if max(*self._columns, self._time or 0) >= len(cells):
            raise ValueError(f"{len(cells)} cells")
        values = [_number(cells[column], self._delimiter) for column in self._columns]
        if self._time is not None:
            self._times.append(self._clock.parse(cells[self._time].strip()))
        self._values.append(values)

    def take(self, end: bool = False) -> Samples | None:
        """Return the rows that wait; None while the first ones are too few, unless the input has ended."""
        begun = self._time is None or self._clock.begun
        if not self._values or not (begun or end or len(self._values) >= HEAD_ROWS):
            return None
        times = None
        if self._time is not None:
            if not begun:
                self._clock.begin(self._name, self._times, self._options.rate or self._card.rate_hz)
            times = self._clock.seconds(self._times)
            if not begun and self._options.rate is None and len(times) > 1:
                self._set_rate(times)
        with np.errstate(over="ignore"):  # values beyond float32 become infinity, which the clock drops
            values = np.array(self._values, np.float32)
        self._values, self._times = [], []
        return Samples(values if (self._factors == 1).all() else values * self._factors, times)

    def _set_rate(self, times: Array) -> None:
        rate, expected = estimate_rate(times), self._card.rate_hz
        check_plausible_rate(rate, expected, "The input")
        self.rate_hz = expected if abs(rate / expected - 1) <= RATE_ERROR else float(f"{rate:.3g}")


class _Clock:
    """Times in the order of arrival, to seconds; since 1970 if they are dates."""

    def __init__(self, options: ReadOptions, delimiter: str) -> None:
        self._options, self._delimiter = options, delimiter
        self._local = LocalTimes(None if options.tz is None else time_zone(options.tz))
        self._scale = 1.0  # seconds of a unit of numbers
        self.begun = False

    def parse(self, text: str) -> float | datetime:
        try:
            if self._options.time_format:
                return datetime.strptime(text, self._options.time_format)
            try:
                return _number(text, self._delimiter)
            except ValueError:
                return datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"time {text!r}; expected a number or a time such as 2024-05-01 12:00:00.25; set the format of text "
                f"with time_format (--time-format)"
            ) from None

    def begin(self, name: str, times: Sequence[float | datetime], expected_hz: float) -> None:
        numbers = np.array([time for time in times if isinstance(time, float)])
        self._scale = number_format(name, numbers, self._options.time_unit, expected_hz).unit_ns / 1e9
        self.begun = True

    def seconds(self, times: Sequence[float | datetime]) -> Array:
        is_local = np.array([isinstance(time, datetime) and time.tzinfo is None for time in times])
        seconds = np.zeros(len(times))
        seconds[~is_local] = [
            time * self._scale if isinstance(time, float) else time.timestamp()
            for time, local in zip(times, is_local, strict=True)
            if not local
        ]
        moments = np.array([time for time, local in zip(times, is_local, strict=True) if local], "M8[ns]")
        seconds[is_local] = self._local.to_utc(moments.view(np.int64)) / 1e9
        return seconds


def split_cells(line: str, delimiter: str = ",") -> list[str]:
    """Return the cells of a line; raise ValueError if it is not CSV."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:  # a carriage return inside a line, or a cell that is too long
        raise ValueError(f"no CSV: {error}") from None


def _number(cell: str, delimiter: str) -> float:
    """Return the number in a cell, NaN if it is empty; decimals may have a comma if it does not separate cells."""
    text = cell.strip()
    return float(text if delimiter == "," else text.replace(",", ".")) if text else float("nan")
