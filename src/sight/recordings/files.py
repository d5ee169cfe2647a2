"""Users' own recordings: tables (CSV, Parquet, Excel) and device files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sight._util.growing_array import GrowingArray
from sight._util.units import ACCELERATION, ROTATION, check_unit, unit_name
from sight.recordings.columns import (
    check_columns,
    check_label_column,
    find_columns,
    is_rotation,
    stated_unit,
)
from sight.recordings.label_columns import class_indices, label_codes
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


def read(path: Path | str, *, tz: str | None = None, **options: Any) -> Recording:
    """Read a file that ends with one of `READABLE`, with options as in `read_table`.

    Device files contain their columns, unit and rate, so only `tz` and `subject` apply to them.
    """
    path = Path(path)
    if path.name.lower().endswith(TABLES):
        return read_table(path, tz=tz, **options)
    if path.name.lower().endswith(DEVICES):
        from sight.recordings.devices import read_device

        return read_device(path, tz=tz, subject=options.get("subject"))
    raise ValueError(f"{path}: expected a file that ends with {', '.join(READABLE)}; convert it to one of these.")


def read_table(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    unit: str | Sequence[str] | None = None,
    gyro_unit: str | None = None,
    tz: str | None = None,
    rate_hz: float | None = None,
    time_unit: str | None = None,
    time_format: str | None = None,
    label_column: str | None = None,
    classes: Sequence[str] | Mapping[str, str] | None = None,
    subject: str | None = None,
    expected_hz: float | None = None,
    expected_gyro_unit: str = "deg/s",
    expected_channels: Sequence[str] = (),
) -> Recording:
    """Read a table with one sample per row: CSV, TSV (both also gzipped), Parquet or Excel.

    Parameters
    ----------
    path
        The file.
    columns
        Column of ``time`` and of each channel. Columns with usual names are recognised, so only others are needed;
        an empty name of ``time`` means that the file has none, and rows follow each other at `rate_hz`.
    unit, gyro_unit
        Unit of acceleration ("g", "mg", "m/s^2"), or one unit for each channel; and unit of rotation ("deg/s",
        "rad/s"). None uses the unit that the column names state in brackets, else g and `expected_gyro_unit`.
    tz
        Time zone of the wearer: that of local times, summer time included, and of the days. None uses the offset or
        zone in the file; local times and numbers are taken as UTC, and the fact `time_zone` contains that.
        Without it, an hour that repeats at the end of summer time is recognised by the step back.
    rate_hz
        Nominal sampling rate; None estimates it.
    time_unit, time_format
        Unit of numeric times ("s", "ms", "us", "ns") and `strptime` format of text, if they cannot be detected.
        Numbers may count from the start or from 1970.
    label_column, classes
        Column with labels, and their classes: class names in order, or a mapping from label to class, empty for
        labels that are not used, both compared without case. None uses the labels of the file, sorted. An empty
        cell is no label.
    subject
        Name of the subject; None is the name of the file.
    expected_hz, expected_gyro_unit, expected_channels
        What the model expects: helps to detect the unit of times and the columns, and is the unit of rotation if the
        file states none.

    Raises
    ------
    ValueError
        If the file cannot be read, if its timestamps span more than a year, or if they give a rate far from the
        expected one and `rate_hz` does not confirm it.
    """
    table = Table(Path(path))
    mapping = find_columns(table.columns, columns, expected_channels)
    check_columns(table.path, mapping, table.columns)
    time_column = mapping.pop("time", None)
    if label_column is not None:
        check_label_column(table.path, label_column, table.columns)
    form = None
    if time_column is not None:
        form = text_format(table.first.get(time_column), time_format)
        form = form or number_format(time_column, table.head(time_column), time_unit, rate_hz or expected_hz)
    elif rate_hz is None:
        raise ValueError(
            f"{table.path}: no column looks like time among {', '.join(table.columns)}; "
            f"map one with columns (--columns time=...), or set the sampling rate with rate (--rate)."
        )
    content = _read_content(table, list(mapping.values()), time_column, form, label_column)
    values, labels = content.values, content.labels
    time_s, start, zone, warnings = (
        to_seconds(content.moments, form, tz) if form else (np.arange(len(values)) / (rate_hz or 1), None, None, [])
    )
    facts: dict[str, Any] = {} if zone is None else {"time_zone": zone}
    if form is not None and tz is None:
        warnings += offset_warnings(form, content.last_time)
    if form is not None and form.kind == "number":
        facts["time_unit"] = form.unit
    check_plausible_span(time_s, str(table.path))
    if label_column is not None:
        labels, facts["classes"] = class_indices(table.path, labels, content.names, classes)
    if rate_hz is None:
        rate_hz = _rate(table.path, time_s)
        check_plausible_rate(rate_hz, expected_hz, str(table.path))
    units = channel_units(mapping, unit, gyro_unit, expected_gyro_unit)
    return Recording(
        values=values,
        time_s=time_s,
        labels=None if label_column is None else labels,
        channels=tuple(mapping),
        unit=units,
        rate_hz=rate_hz,
        start=start,
        subject=subject or table.path.name.split(".")[0],
        warnings=(*warnings, *unit_warnings(mapping, units)),
        facts=RecordingFacts(file=table.path.name, **facts),
    )


class _Content(NamedTuple):
    """Content of a table."""

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
            moments.append(to_nanoseconds(block[time], form, str(table.path)))
            last_time = block[time][-1].as_py() if len(block[time]) and form.kind == "iso" else None
        if label:
            labels.append(label_codes(block[label], codes))
    if not values.rows:
        raise ValueError(f"{table.path} has no samples; is the file complete?")
    return _Content(values.array(), moments.array(), labels.array(), list(codes), last_time)


def channel_units(
    columns: Mapping[str, str],
    unit: str | Sequence[str] | None = None,
    gyro_unit: str | None = None,
    expected_gyro_unit: str = "deg/s",
) -> tuple[str, ...]:
    """Return the unit of each channel, given its column: the caller's, the one in brackets, or else the usual one.

    Examples
    --------
    >>> channel_units({"x": "ax (m/s2)", "gyro_x": "gx"}), channel_units({"x": "ax (m/s2)"}, "milli-g")
    (('m/s^2', 'deg/s'), ('mg',))
    """
    if unit is not None and not isinstance(unit, str):
        return tuple(unit_name(each) or each for each in unit)
    acceleration = None if unit is None else check_unit(unit, ACCELERATION, "unit")
    rotation = None if gyro_unit is None else check_unit(gyro_unit, ROTATION, "gyro_unit")
    return tuple(
        (rotation or stated_unit(column) or expected_gyro_unit)
        if is_rotation(channel)
        else (acceleration or stated_unit(column) or "g")
        for channel, column in columns.items()
    )


def unit_warnings(columns: Mapping[str, str], units: Sequence[str]) -> list[Warning]:
    """Return warnings about columns that state another unit than the one that is used for their channel.

    Examples
    --------
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


def _rate(path: Path, time_s: Array) -> float:
    from sight.recordings.signal.sampling_rate import estimate_rate

    try:
        return estimate_rate(time_s if np.isfinite(time_s).all() else time_s[np.isfinite(time_s)])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
