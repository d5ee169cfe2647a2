"""Users' own recordings: tables (CSV, Parquet, Excel) and device files."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sight._util.growing_array import GrowingArray
from sight._util.progress import OnShare
from sight._util.unit_conversion import ACCELERATION, ROTATION, check_unit
from sight.recordings.columns import (
    check_columns,
    check_label_column,
    find_columns,
    is_rotation,
    stated_unit,
    time_columns,
)
from sight.recordings.labels import class_indices, label_codes
from sight.recordings.reading_options import Expected, ReadOptions
from sight.recordings.signal.sampling_rate import estimate_rate
from sight.recordings.tables import Table
from sight.recordings.timestamp_units import check_plausible_rate, check_plausible_span
from sight.recordings.timestamps import (
    TimeFormat,
    UnreadableTimeError,
    cell_text,
    date_and_time,
    number_format,
    offset_warnings,
    start_time,
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
#: The rate that a file states is used if that of its times differs by less.
STATED_RATE = 0.1


def read(
    path: Path | str,
    options: ReadOptions = DEFAULTS,
    expected: Expected = ANYTHING,
    *,
    subject: str | None = None,
    on_share: OnShare | None = None,
) -> Recording:
    """Read a file that ends with one of `READABLE`; `subject` is the name of the file by default.

    `on_share` is called with the share of the file that was read, from 0 to 1.

    Raises ValueError if the file cannot be read, if its timestamps span more than a year, or if they give a rate far
    from the expected one and `options.rate` does not confirm it.
    """
    path = Path(path)
    if path.name.lower().endswith(TABLES):
        return read_table(Table(path, skip=options.skip), options, expected, subject=subject, on_share=on_share)
    if path.name.lower().endswith(DEVICES):
        from sight.recordings.devices import read_device

        return read_device(path, options, subject=subject, on_share=on_share)
    raise ValueError(f"{path}: expected a file that ends with {', '.join(READABLE)}; convert it to one of these.")


def read_table(
    table: Table,
    options: ReadOptions = DEFAULTS,
    expected: Expected = ANYTHING,
    *,
    subject: str | None = None,
    on_share: OnShare | None = None,
) -> Recording:
    """Read a table with one sample per row; the other parameters are those of `read`."""
    mapping = find_columns(table.columns, options.columns, expected.channels)
    time = time_columns(mapping.pop("time", None), "time" in (options.columns or {}), table.first)
    check_columns(table.where, mapping | {name: name for name in time}, table.columns)
    if options.label_column is not None:
        check_label_column(table.where, options.label_column, table.columns)
    form = _time_format(table, time, options, expected)
    content = _read_content(table, list(mapping.values()), time, form, options.label_column, on_share)
    clock = _read_clock(table, content, form, options)
    check_plausible_span(clock.time_s, table.where)
    facts: dict[str, Any] = {"file": table.path.name, **table.head.facts, **clock.facts}
    labels = None
    if options.label_column is not None:
        labels, facts["classes"] = class_indices(
            table.where, content.labels, content.names, expected.classes, options.names or {}
        )
    units = channel_units(mapping, options, expected)
    return Recording(
        values=content.values,
        time_s=clock.time_s,
        labels=labels,
        channels=tuple(mapping),
        unit=units,
        rate_hz=options.rate or _rate(table, clock.time_s, expected, has_times=form is not None),
        start=clock.start,
        subject=subject or table.path.name.split(".")[0],
        warnings=(*table.head.warnings, *clock.warnings, *unit_warnings(mapping, units)),
        facts=RecordingFacts(**facts),
    )


class _Content(NamedTuple):
    values: Array  # (n, C)
    moments: Array  # (n,) nanoseconds, empty without a time column
    labels: Array  # (n,) codes, empty without a label column
    names: list[str]  # label of each code
    last_time: Any  # time of the last row as in the file


def _read_content(
    table: Table,
    channels: list[str],
    time: Sequence[str],
    form: TimeFormat | None,
    label: str | None,
    on_share: OnShare | None,
) -> _Content:
    numeric = [*channels, *(time if form and form.kind == "number" else ())]
    wanted = [*channels, *time, *([label] if label else [])]
    rows = table.expected_rows
    values = GrowingArray(np.float32, len(channels), expected=rows)
    moments = GrowingArray(np.int64, expected=rows if form else 0)
    labels = GrowingArray(np.int16, expected=rows if label else 0)
    codes: dict[str, int] = {}
    last_time = None
    for block in table.blocks(wanted, numeric):
        if form:
            times = block[time[0]] if len(time) == 1 else date_and_time(*(block[name] for name in time))
            try:
                moments.append(to_nanoseconds(times, form))
            except UnreadableTimeError as error:
                where = f"{table.where}, {table.place(values.rows + error.row)}, column {' + '.join(time)!r}"
                raise ValueError(f"{where}: {error}") from None
            last_time = times[-1].as_py() if len(times) and form.kind == "iso" else None
        values.append_columns([block[name].to_numpy(zero_copy_only=False) for name in channels])
        if label:
            labels.append(label_codes(block[label], codes))
        if on_share:
            on_share(table.share)
    if not values.rows:
        raise ValueError(f"{table.where} has no samples; is the file complete?")
    return _Content(values.array(), moments.array(), labels.array(), list(codes), last_time)


def _time_format(table: Table, time: Sequence[str], options: ReadOptions, expected: Expected) -> TimeFormat | None:
    """Return how the time is read; None if the file has no times, but a rate."""
    if not time:
        if options.rate is None and table.head.rate_hz is None:
            raise ValueError(
                f"{table.where}: no column looks like time among {', '.join(table.columns)}; "
                f"map one with columns (--columns time=...), or set the sampling rate with rate (--rate)."
            )
        return None
    first = [table.first.get(name) for name in time]
    sample = first[0] if len(time) == 1 else " ".join(map(cell_text, first))
    given = None if table.head.is_export else options.time_format  # a folder may have files of several kinds
    rate_hz = options.rate or table.head.rate_hz or expected.rate_hz
    return text_format(sample, given or table.head.time_layout(sample)) or number_format(
        time[0], table.head_of(time[0]), options.time_unit, rate_hz
    )


class _Clock(NamedTuple):
    time_s: Array
    start: datetime | None
    facts: dict[str, Any]
    warnings: list[Warning]


def _read_clock(table: Table, content: _Content, form: TimeFormat | None, options: ReadOptions) -> _Clock:
    if form is not None and form.dated:
        if options.start is not None:
            raise ValueError(f"{table.where} has dates of its own; leave start (--start) out.")
        time_s, start, zone, warnings = to_seconds(content.moments, form, options.tz, table.head.zone)
        warnings += offset_warnings(form, content.last_time) if options.tz is None else []
    else:
        if form is None:
            time_s = np.arange(len(content.values)) / (options.rate or table.head.rate_hz or 1.0)
        else:
            time_s = to_seconds(content.moments, form, None)[0]
        start, zone = start_time(options.start or table.head.start, options.tz, table.head.zone)
        if start is not None and np.isfinite(time_s[0]):
            start -= timedelta(seconds=float(time_s[0]))
        warnings = []
    unit = form.unit if form is not None and form.kind == "number" else None
    return _Clock(time_s, start, {"time_zone": zone, "time_unit": unit}, warnings)


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


def _rate(table: Table, time_s: Array, expected: Expected, *, has_times: bool) -> float:
    """Return the rate that the file states if its times fit, else that of the times."""
    stated = table.head.rate_hz
    if not has_times:
        return stated or 1.0
    try:
        rate_hz = estimate_rate(time_s if np.isfinite(time_s).all() else time_s[np.isfinite(time_s)])
    except ValueError as error:
        raise ValueError(f"{table.where}: {error}") from None
    check_plausible_rate(rate_hz, expected.rate_hz, table.where)
    return stated if stated and abs(rate_hz / stated - 1) < STATED_RATE else rate_hz
