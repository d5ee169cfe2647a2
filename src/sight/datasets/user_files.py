"""Users' own recordings: one door for tables and device files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sight.datasets import _timestamps
from sight.datasets._user_tables import Growing, Table, check_columns, guess
from sight.types import UNLABELLED, Array, Recording

TABLES = (".csv", ".csv.gz", ".parquet")
DEVICES = (".cwa", ".gt3x", ".bin", ".cwa.gz", ".gt3x.gz", ".bin.gz")
#: How the name of a file that `read` takes may end, in lower case.
READABLE = TABLES + DEVICES


def read(path: Path | str, *, tz: str | None = None, **options: Any) -> Recording:
    """Read a recording, by the ending of its name.

    Parameters
    ----------
    path
        A file that ends with one of `READABLE`.
    tz
        Zone of local times.
    options
        As in `read_table`. A device file knows its columns, unit and rate, so none of them bears on it.
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
    """Read a table of samples, one a row: CSV, CSV.gz or Parquet.

    Parameters
    ----------
    path
        The file.
    columns
        Our names to the file's: ``time`` and one for each channel, in order. None goes by usual names. Without a
        time column the rows follow each other at `rate_hz`.
    unit, gyro_unit
        Unit of the channels, and of those whose name begins with ``gyr``; or one unit for each channel.
    tz
        Zone of times that are local, summer time included; None takes them as UTC and says so.
    rate_hz
        Nominal rate; None measures it.
    time_unit, time_format
        What a number counts ("s", "ms", "us", "ns") and how a text is laid out (`strptime`), where it cannot be seen.
    label_column, classes
        Column with labels, and what they mean: names of the classes in order, or label to class, where an empty class
        means none. None takes the labels found, sorted. An empty cell is no label.
    subject
        Who wore the sensor; None takes the name of the file.
    """
    table = Table(Path(path))
    usual = guess(table.columns)
    mapping = dict(usual if columns is None else columns)
    if "time" in usual and rate_hz is None:
        mapping = {"time": usual["time"], **mapping}
    check_columns(table.path, mapping, [*table.columns])
    time_column = mapping.pop("time", None)
    if time_column is None and rate_hz is None:
        raise ValueError(
            f"{table.path}: no column looks like time among {', '.join(table.columns)}; "
            f"map one, as in time={table.columns[0]}, or give rate_hz."
        )
    if label_column is not None:
        check_columns(table.path, {"label": label_column}, table.columns)
    how = _how(table, time_column, time_unit, time_format)
    values, moments, labels, names = _content(table, list(mapping.values()), time_column, how, label_column)
    time_s, start, facts = (
        (np.arange(len(values)) / (rate_hz or 1.0), None, {}) if how is None else _timestamps.clock(moments, how, tz)
    )
    coded, known = (None, {}) if label_column is None else _coded(table.path, labels, names, classes)
    return Recording(
        values=values,
        time_s=time_s,
        labels=coded,
        channels=tuple(mapping),
        unit=_units(tuple(mapping), unit, gyro_unit),
        rate_hz=rate_hz or _rate(table.path, time_s),
        start=start,
        subject=subject or table.path.name.split(".")[0],
        facts={"file": table.path.name, **facts, **known},
    )


def _how(table: Table, column: str | None, unit: str | None, layout: str | None) -> _timestamps.TimeColumn | None:
    if column is None:
        return None
    return _timestamps.understand(column, table.first.get(column), unit=unit, layout=layout)


def _content(
    table: Table, channels: list[str], time: str | None, how: _timestamps.TimeColumn | None, label: str | None
) -> tuple[Array, Array, Array, list[str]]:
    """Read block by block into numbers, so that texts never pile up."""
    numeric = [*channels, *([time] if time and how and how.kind == "number" else [])]
    wanted = [*channels, *(name for name in (time, label) if name)]
    values, moments, labels = Growing(np.float32, len(channels)), Growing(np.int64), Growing(np.int16)
    codes: dict[str, int] = {}
    for block in table.blocks(wanted, numeric):
        values.append(np.column_stack([block[name].to_numpy(zero_copy_only=False) for name in channels]))
        if time and how:
            moments.append(_timestamps.nanoseconds(block[time], how, str(table.path)))
        if label:
            labels.append(_codes(block[label], codes))
    if not values.rows:
        raise ValueError(f"{table.path} holds no samples; is the file complete?")
    return values.array(), moments.array(), labels.array(), list(codes)


def _codes(column: Any, codes: dict[str, int]) -> Array:
    """Give numbers to the labels of a block; the numbers go on from those of earlier blocks."""
    encoded = column.dictionary_encode()
    names = [_label(value) for value in encoded.dictionary.to_pylist()]
    own = [codes.setdefault(name, len(codes)) if name else UNLABELLED for name in names]
    index: Array = encoded.indices.fill_null(len(own)).to_numpy()
    return np.array([*own, UNLABELLED], np.int16)[index]


def _label(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    return str(value).strip()


def _coded(
    path: Path, labels: Array, names: list[str], classes: Sequence[str] | Mapping[str, str] | None
) -> tuple[Array, dict[str, Any]]:
    """Turn numbered labels into class indices."""
    meaning = classes if isinstance(classes, Mapping) else {name: name for name in classes or sorted(names)}
    meaning = {str(raw): name for raw, name in meaning.items()}
    ordered = list(dict.fromkeys(name for name in meaning.values() if name))
    unknown = [name for name in names if name not in meaning]
    if unknown:
        raise ValueError(
            f"{path}: label {unknown[0]!r} is not in the map, which knows {', '.join(meaning)}; "
            f"add it, with an empty class where it should not be used."
        )
    index = [ordered.index(meaning[name]) if meaning[name] else UNLABELLED for name in names]
    return np.array([*index, UNLABELLED], np.int16)[labels], {"classes": ordered}


def _units(channels: tuple[str, ...], unit: str | Sequence[str], gyro_unit: str) -> tuple[str, ...]:
    if not isinstance(unit, str):
        return tuple(unit)
    return tuple(gyro_unit if name.lower().startswith("gyr") else unit for name in channels)


def _rate(path: Path, time_s: Array) -> float:
    from sight.signal.clock import estimate_rate

    try:
        return estimate_rate(time_s if np.isfinite(time_s).all() else time_s[np.isfinite(time_s)])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
