"""Units of acceleration and rotation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sight.types import Recording

STANDARD_GRAVITY = 9.80665
#: Size of each unit in g and in deg/s.
ACCELERATION = {"g": 1.0, "mg": 1e-3, "m/s^2": 1 / STANDARD_GRAVITY}
ROTATION = {"deg/s": 1.0, "rad/s": 180 / np.pi}


def factor(unit: str, to: str) -> float:
    """Return the factor that converts values from one unit to another.

    Examples
    --------
    >>> factor("mg", "g"), round(factor("g", "m/s^2"), 4), round(factor("rad/s", "deg/s"), 4)
    (0.001, 9.8066, 57.2958)
    """
    if unit == to:
        return 1.0
    for sizes in (ACCELERATION, ROTATION):
        if unit in sizes and to in sizes:
            return float(sizes[unit] / sizes[to])
    raise ValueError(
        f"Cannot convert {unit!r} to {to!r}; supported are {', '.join(ACCELERATION)} (acceleration) and "
        f"{', '.join(ROTATION)} (rotation)."
    )


def convert(recording: Recording, unit: str | Sequence[str], *, overwrite: bool = False) -> Recording:
    """Return the recording in other units, one for each channel or one for all; `overwrite` reuses its values."""
    units = (unit,) * len(recording.channels) if isinstance(unit, str) else tuple(unit)
    if len(units) != len(recording.channels):
        raise ValueError(
            f"Expected {len(recording.channels)} units for channels {', '.join(recording.channels)}, "
            f"got {len(units)}; give one for each or one for all."
        )
    factors = np.array([factor(own, to) for own, to in zip(recording.unit, units, strict=True)], np.float32)
    if (factors == 1).all():
        return recording
    values = recording.values
    reusable = overwrite and values.flags.writeable and values.dtype == np.float32
    return replace(recording, values=np.multiply(values, factors, out=values if reusable else None), unit=units)
