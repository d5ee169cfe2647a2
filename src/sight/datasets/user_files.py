"""Users' own recordings: tables (CSV, Parquet) and device files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sight.datasets._column_names import check_columns, check_label_column, guess_columns
from sight.datasets._growing_array import GrowingArray
from sight.datasets._timestamps import TimeFormat, detect_format, to_nanoseconds, to_seconds
from sight.datasets._user_tables import Table
from sight.types import UNLABELLED, Array, Recording

TABLES = (".csv", ".csv.gz", ".parquet")
DEVICES = (".cwa", ".gt3x", ".bin", ".cwa.gz", ".gt3x.gz", ".bin.gz")
#: Endings of the files that `read` accepts, in lower case.
READABLE = TABLES + DEVICES
#: A label such as 1.0, which is the same as 1.
WHOLE_NUMBER = re.compile(r"-?\d+\.0+")


def read(path: Path | str, *, tz: str | None = None, **options: Any) -> Recording:
    """Read a file that ends with one of `READABLE`, with options as in `read_table`.

    Device files contain their columns, unit and rate, so only `tz` and `subject` apply to them.
    """
    path = Path(path)
    if path.name.lower().endswith(TABLES):
        return read_table(path, tz=tz, **options)
    if path.name.lower().endswith(DEVICES):
        from sight.datasets.device_files import read_device

        return read_device(path, tz=tz, subject=options.get("subject"))
    raise ValueError(f"{path}: expected a file that ends with {', '.join(READABLE)}; convert it to one of these.")


def read_table(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    unit: str | Sequence[str] = "g",
    gyro_unit: str = "deg/s",
    tz: str | None = None,
    rate_hz: float | None = None,
    time_unit: str | None = None,
    time_format: str | None = None,
    label_column: str | None = None,
    classes: Sequence[str] | Mapping[str, str] | None = None,
    subject: str | None = None,
) -> Recording:
    """Read a table with one sample per row: CSV, CSV.gz or Parquet.

    Parameters
    ----------
    path
        The file.
    columns
        Column of ``time`` and of each channel, in the order of the channels. None recognises usual names. Without a
        time column, rows follow each other at `rate_hz`.
    unit, gyro_unit
        Unit of the channels, and of those whose name begins with ``gyr``; or one unit for each channel.
    tz
        Time zone of local times, summer time included; None assumes UTC, and the facts contain that.
    rate_hz
        Nominal sampling rate; None estimates it.
    time_unit, time_format
        Unit of numeric times ("s", "ms", "us", "ns") and `strptime` format of text, if they cannot be detected.
    label_column, classes
        Column with labels, and their classes: class names in order, or a mapping from label to class, empty for
        labels that are not used. None uses the labels of the file, sorted. An empty cell is no label.
    subject
        Name of the subject; None is the name of the file.
    """
    table = Table(Path(path))
    usual = guess_columns(table.columns)
    mapping = dict(usual if columns is None else columns)
    if "time" in usual and rate_hz is None:
        mapping = {"time": usual["time"], **mapping}
    check_columns(table.path, mapping, table.columns)
    time_column = mapping.pop("time", None)
    if label_column is not None:
        check_label_column(table.path, label_column, table.columns)
    form = None
    if time_column is not None:
        form = detect_format(time_column, table.first.get(time_column), unit=time_unit, layout=time_format)
    elif rate_hz is None:
        raise ValueError(
            f"{table.path}: no column looks like time among {', '.join(table.columns)}; "
            f"map one, as in time={table.columns[0]}, or give rate_hz."
        )
    values, moments, labels, names = _read_content(table, list(mapping.values()), time_column, form, label_column)
    time_s, start, facts = (
        to_seconds(moments, form, tz) if form else (np.arange(len(values)) / (rate_hz or 1), None, {})
    )
    if label_column is not None:
        labels, facts["classes"] = _class_indices(table.path, labels, names, classes)
    return Recording(
        values=values,
        time_s=time_s,
        labels=None if label_column is None else labels,
        channels=tuple(mapping),
        unit=_units(tuple(mapping), unit, gyro_unit),
        rate_hz=rate_hz or _rate(table.path, time_s),
        start=start,
        subject=subject or table.path.name.split(".")[0],
        facts={"file": table.path.name, **facts},
    )


def _read_content(
    table: Table, channels: list[str], time: str | None, form: TimeFormat | None, label: str | None
) -> tuple[Array, Array, Array, list[str]]:
    """Return values, times in nanoseconds, label codes and the labels of the codes."""
    numeric = [*channels, *([time] if time and form and form.kind == "number" else [])]
    wanted = [*channels, *(name for name in (time, label) if name)]
    values, moments, labels = GrowingArray(np.float32, len(channels)), GrowingArray(np.int64), GrowingArray(np.int16)
    codes: dict[str, int] = {}
    for block in table.blocks(wanted, numeric):
        values.append(np.column_stack([block[name].to_numpy(zero_copy_only=False) for name in channels]))
        if time and form:
            moments.append(to_nanoseconds(block[time], form, str(table.path)))
        if label:
            labels.append(_label_codes(block[label], codes))
    if not values.rows:
        raise ValueError(f"{table.path} has no samples; is the file complete?")
    return values.array(), moments.array(), labels.array(), list(codes)


def _label_codes(column: Any, codes: dict[str, int]) -> Array:
    """Return a code for each label of a block; new labels are added to `codes`."""
    encoded = column.dictionary_encode()
    names = [_label_text(value) for value in encoded.dictionary.to_pylist()]
    own = [codes.setdefault(name, len(codes)) if name else UNLABELLED for name in names]
    index: Array = encoded.indices.fill_null(len(own)).to_numpy()
    return np.array([*own, UNLABELLED], np.int16)[index]


def _label_text(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    text = str(value).strip()
    return text.partition(".")[0] if WHOLE_NUMBER.fullmatch(text) else text


def _class_indices(
    path: Path, codes: Array, names: list[str], classes: Sequence[str] | Mapping[str, str] | None
) -> tuple[Array, list[str]]:
    """Return the class index of each code, and the classes."""
    label_map = classes if isinstance(classes, Mapping) else {name: name for name in classes or sorted(names)}
    label_map = {_label_text(label): name for label, name in label_map.items()}
    ordered = list(dict.fromkeys(name for name in label_map.values() if name))
    unknown = [name for name in names if name not in label_map]
    if unknown:
        raise ValueError(
            f"{path}: label {unknown[0]!r} is not in the map, which has {', '.join(label_map)}; "
            f"add it, with an empty class if it is not to be used."
        )
    index = [ordered.index(label_map[name]) if label_map[name] else UNLABELLED for name in names]
    return np.array([*index, UNLABELLED], np.int16)[codes], ordered


def _units(channels: tuple[str, ...], unit: str | Sequence[str], gyro_unit: str) -> tuple[str, ...]:
    if not isinstance(unit, str):
        return tuple(unit)
    return tuple(gyro_unit if name.lower().startswith("gyr") else unit for name in channels)


def _rate(path: Path, time_s: Array) -> float:
    from sight.signal.sampling_rate import estimate_rate

    try:
        return estimate_rate(time_s if np.isfinite(time_s).all() else time_s[np.isfinite(time_s)])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
