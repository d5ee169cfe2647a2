"""Columns of users' tables: usual names of time and axes, units in the names, and checks of a mapping."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sight._util.unit_conversion import unit_name

#: Usual names of a sensor in front of the axis, letters only.
ACCELEROMETER = r"(?:acc|accel|acceleration|accelerometer|accelero|a)?"
GYROSCOPE = r"(?:gyr|gyro|gyroscope|rotation|rot|g|w)"

#: A date without a time, and a time without a date.
DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}")
CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,:]\d+)?)?( ?[AP]M)?", re.IGNORECASE)


def guess_columns(columns: Sequence[str]) -> dict[str, str]:
    """Map ``time`` and channel names to the columns of a file that have usual names.

    >>> guess_columns(["Timestamp", "Accelerometer X", "Accelerometer Y", "Accelerometer Z"])
    {'time': 'Timestamp', 'x': 'Accelerometer X', 'y': 'Accelerometer Y', 'z': 'Accelerometer Z'}
    >>> list(guess_columns(["ax", "ay", "az", "gx", "gy", "gz"]))
    ['acc_x', 'acc_y', 'acc_z', 'gyro_x', 'gyro_y', 'gyro_z']
    """
    letters = _letters(columns)
    times = [name for name, text in letters.items() if re.match(r"(time|date|epoch|unix|ts?$)", text)]
    mapping = {"time": times[0]} if times else {}
    acceleration, rotation = (_axes(letters, sensor) for sensor in (ACCELEROMETER, GYROSCOPE))
    if len(rotation) < 3:
        rotation = {}
    if len(acceleration) == 3:
        mapping |= {("acc_" if rotation else "") + axis: name for axis, name in acceleration.items()}
    return mapping | {"gyro_" + axis: name for axis, name in rotation.items()}


def find_columns(
    columns: Sequence[str], given: Mapping[str, str] | None = None, wanted: Sequence[str] = ()
) -> dict[str, str]:
    """Map ``time`` and channels to the columns of a file: those given, and detected ones for the rest.

    An empty column of ``time`` in `given` means that the file has none. `wanted` are the channels of the model. Without
    them, the other axes of the given sensors are detected; or, if no channel is given, all with usual names.

    >>> find_columns(["when", "ax", "ay", "up"], {"time": "when", "z": "up"})
    {'time': 'when', 'x': 'ax', 'y': 'ay', 'z': 'up'}
    >>> find_columns(["t", "ax", "ay", "az", "gx", "gy", "gz"], {"x": "az", "y": "ay", "z": "ax"})
    {'time': 't', 'x': 'az', 'y': 'ay', 'z': 'ax'}
    """
    usual, channels = guess_columns(columns), dict(given or {})
    time = channels.pop("time", usual.pop("time", ""))
    if channels or not set(map(axis_name, wanted)) <= set(map(axis_name, usual)):
        completed = _completed(columns, channels, wanted)
        channels = completed if channels or len(completed) == len(wanted) else usual
    else:
        channels = usual
    return ({"time": time} if time else {}) | channels


def time_columns(time: str | None, given: bool, first: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that hold the time: one, or a date and a time of day; none if there are none.

    `time` is the column that was detected or `given`, or two with a plus between them; `first` is the first row.

    >>> time_columns("Day", False, {"Day": "2024-05-01", "Clock": "12:00:00.25", "x": "0"})
    ('Day', 'Clock')
    >>> time_columns("time", False, {"date": "2024-05-01", "time": "2024-05-01 12:00:00"})
    ('time',)
    >>> time_columns("a+b", True, {"a": "01.05.2024", "b": "12:00"})
    ('a', 'b')
    >>> time_columns(None, True, {"": "0", "x": "0"})
    ()
    """
    if not time and given:  # the file has no usable times
        return ()
    if time and given:
        two = tuple(time.split("+"))
        return two if time not in first and set(two) <= set(first) else (time,)
    date = next((name for name, value in first.items() if DATE.fullmatch(_text(value))), None)
    clock = next((name for name, value in first.items() if CLOCK.fullmatch(_text(value))), None)
    if date is not None and clock is not None and time in (None, date, clock):
        return date, clock
    return (time,) if time else ()


def axis_name(channel: str) -> str:
    """Return one name for the usual names of an axis: x, ax, acc_x and accel_x; gx, gyr_x and gyro_x.

    >>> axis_name("ax"), axis_name("Gyro_Z"), axis_name("thigh")
    ('acc_x', 'gyr_z', 'thigh')
    """
    match = re.fullmatch(r"(?:(a|acc|accel|accelerometer|g|gyr|gyro|gyroscope)_?)?([xyz])", channel.lower())
    return channel if match is None else f"{'gyr' if (match[1] or 'a').startswith('g') else 'acc'}_{match[2]}"


def match_channels(found: Sequence[str], wanted: Sequence[str]) -> list[str] | None:
    """Return the channel of `found` for each of `wanted`, by name or by the usual names of an axis; None if one lacks.

    >>> match_channels(("ax", "ay", "az", "gx"), ("acc_z", "acc_x")), match_channels(("ax",), ("gx",))
    (['az', 'ax'], None)
    """
    if set(wanted) <= set(found):
        return list(wanted)
    by_axis = {axis_name(name): name for name in reversed(found)}
    axes = [axis_name(name) for name in wanted]
    fits = set(axes) <= set(by_axis) and len(set(axes)) == len(wanted)
    return [by_axis[axis] for axis in axes] if fits else None


def is_rotation(channel: str) -> bool:
    """Return whether a channel has a usual name of a gyroscope axis.

    >>> is_rotation("gyr_x"), is_rotation("gx"), is_rotation("gravity_x")
    (True, True, False)
    """
    return channel.lower().startswith("gyr") or bool(re.fullmatch(GYROSCOPE + "_?[xyz]", channel.lower()))


def stated_unit(column: str) -> str | None:
    """Return the unit that the name of a column states in brackets, or None.

    >>> stated_unit("gyro x (rad/s)"), stated_unit("gx [dps]"), stated_unit("Acceleration x (m/s2)"), stated_unit("gx")
    ('rad/s', 'deg/s', 'm/s^2', None)
    """
    stated = re.search(r"[(\[](.*?)[)\]]", column)
    return unit_name(stated[1]) if stated else None


def check_columns(path: object, mapping: Mapping[str, str], columns: Sequence[str]) -> None:
    missing = [name for name in mapping.values() if name not in columns]
    if missing:
        problem = f"there is no column {', '.join(map(repr, missing))}; it has {', '.join(columns)}"
    elif not set(mapping) - {"time"}:
        problem = f"no column looks like an acceleration axis among {', '.join(columns)}"
    else:
        return
    raise ValueError(
        f"{path}: {problem}; map those that are not recognised with columns (--columns x=...,y=...,z=...; in MAP.toml "
        f"the table [columns])."
    )


def check_label_column(path: object, label: str, columns: Sequence[str]) -> None:
    if label not in columns:
        raise ValueError(
            f"{path}: there is no label column {label!r}; it has {', '.join(columns)}; name it with label_column "
            f'(--label-column NAME; in MAP.toml also label = "NAME" under [columns]).'
        )


def _completed(columns: Sequence[str], given: Mapping[str, str], wanted: Sequence[str]) -> dict[str, str]:
    axes = {axis_name(name): name for name in given}
    needed = {axis_name(name): name for name in wanted}
    if not wanted:
        sensors = {axis[:4]: name[:-1] for axis, name in axes.items() if re.fullmatch(r"(acc|gyr)_[xyz]", axis)}
        needed = axes | {
            sensor + axis: axes.get(sensor + axis, p + axis) for sensor, p in sensors.items() for axis in "xyz"
        }
    if not set(axes) < set(needed) or len(axes) < len(given):
        return dict(given)  # nothing is missing, or names of the caller's own
    letters = _letters([name for name in columns if name not in given.values()])
    detected = {
        prefix + axis: name
        for prefix, sensor in (("acc_", ACCELEROMETER), ("gyr_", GYROSCOPE))
        for axis, name in _axes(letters, sensor).items()
    }
    detected |= {axis: name for axis, channel in needed.items() for name in letters if name.lower() == channel.lower()}
    completed = {}
    for axis, name in needed.items() if wanted else sorted(needed.items()):
        if axis in axes:
            completed[axes[axis]] = given[axes[axis]]
        elif axis in detected:
            completed[name] = detected[axis]
    return completed


def _text(value: Any) -> str:
    """Return a cell as text; a moment at midnight is a date."""
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, datetime) else text


def _letters(columns: Sequence[str]) -> dict[str, str]:
    return {name: re.sub(r"[^a-z]", "", re.sub(r"[(\[].*", "", name.lower())) for name in columns}


def _axes(letters: Mapping[str, str], sensor: str) -> dict[str, str]:
    found = {axis: [name for name, text in letters.items() if re.fullmatch(sensor + axis, text)] for axis in "xyz"}
    return {axis: names[0] for axis, names in found.items() if names}
