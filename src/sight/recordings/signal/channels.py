"""Channels of a recording: selection by name, and conversion of units."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sight._util.unit_conversion import factor
from sight.types import Recording


def select(recording: Recording, channels: Sequence[str]) -> Recording:
    missing = [name for name in channels if name not in recording.channels]
    if missing:
        raise ValueError(
            f"Expected channels {', '.join(channels)}, the recording has {', '.join(recording.channels)}; map its "
            f"columns to these names, as in --columns {','.join(f'{name}=COLUMN' for name in ('time', *channels))} "
            f"(missing: {', '.join(missing)})."
        )
    if tuple(channels) == recording.channels:
        return recording
    columns = [recording.channels.index(name) for name in channels]
    units = tuple(recording.unit[column] for column in columns)
    return replace(recording, values=recording.values[:, columns], channels=tuple(channels), unit=units)


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
