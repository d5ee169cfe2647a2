"""Units of acceleration and rotation."""

from collections.abc import Mapping, Sequence

import numpy as np

STANDARD_GRAVITY = 9.80665
#: Size of each unit in g and in deg/s.
ACCELERATION = {"g": 1.0, "mg": 1e-3, "m/s^2": 1 / STANDARD_GRAVITY}
ROTATION = {"deg/s": 1.0, "rad/s": 180 / np.pi}
#: Other spellings of each unit, in lower case and without spaces.
SPELLINGS = {
    "g": ("gs",),
    "mg": ("milli-g", "millig", "milligs"),
    "m/s^2": (
        "m/s2",
        "m/s\N{SUPERSCRIPT TWO}",
        "m/s/s",
        "m/s**2",
        "ms-2",
        "ms^-2",
        "ms\N{SUPERSCRIPT MINUS}\N{SUPERSCRIPT TWO}",
    ),
    "deg/s": ("dps", "deg/sec", "degrees/s", "degree/s", "\N{DEGREE SIGN}/s"),
    "rad/s": ("rad/sec", "rads/s", "radians/s", "rps"),
}


def unit_name(text: str) -> str | None:
    """Return the unit that a text such as "m/s2", "milli-g" or "DPS" spells, or None."""
    spelled = "".join(text.lower().split())
    return next((unit for unit, others in SPELLINGS.items() if spelled == unit or spelled in others), None)


def check_unit(text: str, sizes: Mapping[str, float], option: str) -> str:
    """Return the unit that a text spells; raise ValueError, which names the option, if it is none of `sizes`."""
    unit = unit_name(text)
    if unit is None or unit not in sizes:
        flag = option.replace("_", "-")
        raise ValueError(f"Expected {option} (--{flag}) out of {', '.join(sizes)}, got {text!r}.")
    return unit


def factor(unit: str, to: str) -> float:
    """Return the factor that converts values from one unit to another."""
    if unit == to:
        return 1.0
    known, wanted = unit_name(unit), unit_name(to)
    for sizes in (ACCELERATION, ROTATION):
        if known in sizes and wanted in sizes:
            return float(sizes[known] / sizes[wanted])
    raise ValueError(
        f"Cannot convert {unit!r} to {to!r}; supported are {', '.join(ACCELERATION)} (acceleration) and "
        f"{', '.join(ROTATION)} (rotation)."
    )


def accelerometer_axes(units: Sequence[str]) -> tuple[list[int], float] | None:
    """Return the columns of the first three channels of acceleration and the size of their unit in g, or None."""
    columns = [column for column, unit in enumerate(units) if unit in ACCELERATION][:3]
    return (columns, ACCELERATION[units[columns[0]]]) if len(columns) == 3 else None
