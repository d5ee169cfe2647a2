"""Columns of users' tables: usual names of time and axes, and checks of a mapping."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Usual names of a sensor in front of the axis, letters only.
ACCELEROMETER = r"(?:acc|accel|acceleration|accelerometer|accelero|a)?"
GYROSCOPE = r"(?:gyr|gyro|gyroscope|rotation|rot|g|w)"


def guess_columns(columns: Sequence[str]) -> dict[str, str]:
    """Map ``time`` and channel names to the columns of a file that have usual names.

    Examples
    --------
    >>> guess_columns(["Timestamp", "Accelerometer X", "Accelerometer Y", "Accelerometer Z"])
    {'time': 'Timestamp', 'x': 'Accelerometer X', 'y': 'Accelerometer Y', 'z': 'Accelerometer Z'}
    >>> list(guess_columns(["ax", "ay", "az", "gx", "gy", "gz"]))
    ['acc_x', 'acc_y', 'acc_z', 'gyro_x', 'gyro_y', 'gyro_z']
    """
    letters = {name: re.sub(r"[^a-z]", "", re.sub(r"[(\[].*", "", name.lower())) for name in columns}
    times = [name for name, text in letters.items() if re.match(r"(time|date|epoch|unix|ts?$)", text)]
    mapping = {"time": times[0]} if times else {}
    acceleration, rotation = _axes(letters, ACCELEROMETER), _axes(letters, GYROSCOPE)
    prefix = "acc_" if acceleration and rotation else ""
    mapping |= {prefix + axis: name for axis, name in acceleration.items()}
    return mapping | {"gyro_" + axis: name for axis, name in rotation.items()}


def is_rotation(channel: str) -> bool:
    """Return whether a channel has a usual name of a gyroscope axis.

    Examples
    --------
    >>> is_rotation("gyr_x"), is_rotation("gx"), is_rotation("gravity_x")
    (True, True, False)
    """
    return channel.lower().startswith("gyr") or bool(re.fullmatch(GYROSCOPE + "_?[xyz]", channel.lower()))


def stated_rotation_unit(column: str) -> str | None:
    """Return the unit of rotation that the name of a column states in brackets, or None.

    Examples
    --------
    >>> stated_rotation_unit("gyro x (rad/s)"), stated_rotation_unit("gx [dps]"), stated_rotation_unit("gx")
    ('rad/s', 'deg/s', None)
    """
    stated = re.search(r"[(\[]\s*(.*?)\s*[)\]]", column.lower())
    names = {
        "rad/s": "rad/s",
        "rad/sec": "rad/s",
        "rps": "rad/s",
        "deg/s": "deg/s",
        "dps": "deg/s",
        "\N{DEGREE SIGN}/s": "deg/s",
    }
    return names.get(stated[1]) if stated else None


def check_columns(path: Path, mapping: Mapping[str, str], columns: Sequence[str]) -> None:
    """Raise ValueError if a mapping names columns that the file does not have, or no channel."""
    missing = [name for name in mapping.values() if name not in columns]
    if missing:
        problem = f"there is no column {', '.join(map(repr, missing))}; it has {', '.join(columns)}"
    elif not set(mapping) - {"time"}:
        problem = f"no column looks like an acceleration axis among {', '.join(columns)}"
    else:
        return
    raise ValueError(
        f"{path}: {problem}; map its columns, as in --columns time={columns[0]},x=...,y=...,z=... (in MAP.toml under "
        f"[columns], in Python columns=...)."
    )


def check_label_column(path: Path, label: str, columns: Sequence[str]) -> None:
    """Raise ValueError if the file does not have the column with labels."""
    if label not in columns:
        raise ValueError(
            f"{path}: there is no label column {label!r}; it has {', '.join(columns)}; name it with "
            f'--label-column NAME, or in MAP.toml as label = "NAME" under [columns].'
        )


def _axes(letters: Mapping[str, str], sensor: str) -> dict[str, str]:
    """Return the columns of the three axes of a sensor; empty if one is missing."""
    found = {axis: [name for name, text in letters.items() if re.fullmatch(sensor + axis, text)] for axis in "xyz"}
    return {axis: names[0] for axis, names in found.items()} if all(found.values()) else {}
