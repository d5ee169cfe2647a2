"""Users' own recordings: tables (CSV, Parquet, Excel) and device files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sight._util.growing_array import GrowingArray
from sight._util.units import ACCELERATION, ROTATION, check_unit
from sight.recordings.columns import check_columns, check_label_column, find_columns, is_rotation, stated_unit
from sight.recordings.labels import class_indices, label_codes
from sight.recordings.read_options import Expected, ReadOptions
from sight.recordings.signal.sampling_rate import estimate_rate
from sight.recordings.tables import Table
from sight.recordings.time_units import check_plausible_rate, check_plausible_span
from sight.recordings.timestamps import (
    TimeFormat,
    number_format,
    offset_warnings,
    text_format,
    to_nanoseconds,
    to_seconds,
)
from sight.types import Array, Recording, RecordingFacts, Warning

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".xlsx")
DEVICES = (".cwa", ".gt3x", ".bin", ".cwa.gz", ".gt3x.gz", ".bin.gz")
#: Endings of the files that `read` accepts, in lower case.
READABLE = TABLES + DEVICES
DEFAULTS, ANYTHING = ReadOptions(), Expected()


def read(
    path: Path | str, options: ReadOptions = DEFAULTS, expected: Expected = ANYTHING, *, subject: str | None = None
) -> Recording:
    """Read a file that ends with one of `READABLE`; `subject` is the name of the file by default.

    Raises ValueError if the file cannot be read, if its timestamps span more than a year, or if they give a rate far
    from the expected one and `options.rate` does not confirm it.
    """
    path = Path(path)
    if path.name.lower().endswith(TABLES):
        return read_table(Table(path), options, expected, subject=subject)
    if path.name.lower().endswith(DEVICES):
        from sight.recordings.devices import read_device

        return read_device(path, options, subject=subject)
    raise ValueError(f"{path}: expected a file that ends with {', '.join(READABLE)}; convert it to one of these.")


def read_table(
    table: Table, options: ReadOptions = DEFAULTS, expected: Expected = ANYTHING, *, subject: str | None = None
) -> Recording:
    """Read a table with one sample per row; the other parameters are those of `read`."""
    mapping = find_columns(table.columns, options.columns, expected.channels)
    check_columns(table.where, mapping, table.columns)
    time_column = mapping.pop("time", None)
    if options.label_column is not None:
        check_label_column(table.where, options.label_column, table.columns)
    form = None if time_column is None else _time_format(table, time_column, options, expected)
    if form is None and options.rate is None:
        raise ValueError(
            f"{table.where}: no column looks like time among {', '.join(table.columns)}; "
            f"map one with columns (--columns time=...), or set the sampling rate with rate (--rate)."
        )
    content = _read_content(table, list(mapping.values()), time_column, form, options.label_column)
    facts: dict[str, Any] = {"file": table.path.name}
    start, warnings = None, list[Warning]()
    if form is None:
        time_s = np.arange(len(content.values)) / (options.rate or 1)
    else:
        time_s, start, facts["time_zone"], warnings = to_seconds(content.moments, form, options.tz)
        warnings += offset_warnings(form, content.last_time) if options.tz is None else []
        facts["time_unit"] = form.unit if form.kind == "number" else None
    check_plausible_span(time_s, table.where)
    labels = None
    if options.label_column is not None:
        labels, facts["classes"] = class_indices(
            table.where, content.labels, content.names, expected.classes, options.names or {}
        )
    units = channel_units(mapping, options, expected)
    return Recording(
        values=content.values,
        time_s=time_s,
        labels=labels,
        channels=tuple(mapping),
        unit=units,
        rate_hz=_rate(table.where, time_s, expected) if options.rate is None else options.rate,
        start=start,
        subject=subject or table.path.name.split(".")[0],
        warnings=(*warnings, *unit_warnings(mapping, units)),
        facts=RecordingFacts(**facts),
    )


class _Content(NamedTuple):
    values: Array  # (n, C)
    moments: Array  # (n,) nanoseconds, empty without a time column
    labels: Array  # (n,) codes, empty without a label column
    names: list[str]  # label of each code
    last_time: Any  # time of the last row as in the file


def _read_content(
    table: Table, channels: list[str], time: str | None, form: TimeFormat | None, label: str | None
) -> _Content:
    numeric = [*channels, *([time] if time and form and form.kind == "number" else [])]
    wanted = [*channels, *(name for name in (time, label) if name)]
    rows = table.expected_rows
    values = GrowingArray(np.float32, len(channels), expected=rows)
    moments = GrowingArray(np.int64, expected=rows if time else 0)
    labels = GrowingArray(np.int16, expected=rows if label else 0)
    codes: dict[str, int] = {}
    last_time = None
    for block in table.blocks(wanted, numeric):
        values.append_columns([block[name].to_numpy(zero_copy_only=False) for name in channels])
        if time and form:
            moments.append(to_nanoseconds(block[time], form, table.where))
            last_time = block[time][-1].as_py() if len(block[time]) and form.kind == "iso" else None
        if label:
            labels.append(label_codes(block[label], codes))
    if not values.rows:
        raise ValueError(f"{table.where} has no samples; is the file complete?")
    return _Content(values.array(), moments.array(), labels.array(), list(codes), last_time)


def _time_format(table: Table, column: str, options: ReadOptions, expected: Expected) -> TimeFormat:
    rate_hz = options.rate or expected.rate_hz
    return text_format(table.first.get(column), options.time_format) or number_format(
        column, table.head(column), options.time_unit, rate_hz
    )


def channel_units(
    columns: Mapping[str, str], options: ReadOptions = DEFAULTS, expected: Expected = ANYTHING
) -> tuple[str, ...]:
    """Return the unit of each channel, given its column: the caller's, the one in brackets, or else the usual one.

    >>> channel_units({"x": "ax (m/s2)", "gyro_x": "gx"})
    ('m/s^2', 'deg/s')
    >>> channel_units({"x": "ax (m/s2)"}, ReadOptions(unit="milli-g"))
    ('mg',)
    """
    acceleration = None if options.unit is None else check_unit(options.unit, ACCELERATION, "unit")
    rotation = None if options.gyro_unit is None else check_unit(options.gyro_unit, ROTATION, "gyro_unit")
    return tuple(
        (rotation or stated_unit(column) or expected.gyro_unit)
        if is_rotation(channel)
        else (acceleration or stated_unit(column) or "g")
        for channel, column in columns.items()
    )


def unit_warnings(columns: Mapping[str, str], units: Sequence[str]) -> list[Warning]:
    """Return warnings about columns that state another unit than the one that is used for their channel.

    >>> unit_warnings({"x": "ax [m/s2]", "y": "ay [m/s2]"}, ("mg", "mg"))[0].text[:58]
    'Columns ax [m/s2], ay [m/s2] state m/s^2 but are read as m'
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for (channel, column), unit in zip(columns.items(), units, strict=False):
        stated = stated_unit(column)
        if stated is not None and stated != unit:
            option = "gyro_unit (--gyro-unit)" if is_rotation(channel) else "unit (--unit)"
            found.setdefault((stated, unit, option), []).append(column)
    return [
        Warning(
            kind="unit",
            severity="warning",
            text=f"Columns {', '.join(names)} state {stated} but are read as {unit}, as set with {option}.",
            remedy="leave it out if the names are right.",
        )
        for (stated, unit, option), names in found.items()
    ]


def _rate(where: str, time_s: Array, expected: Expected) -> float:
    try:
        rate_hz = estimate_rate(time_s if np.isfinite(time_s).all() else time_s[np.isfinite(time_s)])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    check_plausible_rate(rate_hz, expected.rate_hz, where)
    return rate_hz
