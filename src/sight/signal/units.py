"""Units, channels, saturation, and the warnings a careful analyst would give before trusting a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sight.signal.clock import blocks
from sight.types import Array, Recording

STANDARD_GRAVITY = 9.80665
#: What one of each unit is worth in the first unit of its kind.
ACCELERATION = {"g": 1.0, "mg": 1e-3, "m/s^2": 1 / STANDARD_GRAVITY}
ROTATION = {"deg/s": 1.0, "rad/s": 180 / np.pi}
#: A second in which no axis deviates by more than this part of gravity, whatever its unit, counts as rest.
REST = 0.02


def factor(unit: str, to: str) -> float:
    """Return what values in one unit are multiplied by to be in another.

    Examples
    --------
    >>> factor("mg", "g"), round(factor("g", "m/s^2"), 4), round(factor("rad/s", "deg/s"), 4)
    (0.001, 9.8066, 57.2958)
    """
    if unit == to:
        return 1.0
    for kind in (ACCELERATION, ROTATION):
        if unit in kind and to in kind:
            return float(kind[unit] / kind[to])
    known = ", ".join((*ACCELERATION, *ROTATION))
    raise ValueError(f"Cannot convert {unit!r} to {to!r}; known units are {known}, each within its kind.")


def convert(recording: Recording, unit: str | Sequence[str]) -> Recording:
    """Return the recording in other units, one for each channel or one for all."""
    wanted = (unit,) * len(recording.channels) if isinstance(unit, str) else tuple(unit)
    if len(wanted) != len(recording.channels):
        raise ValueError(
            f"Expected {len(recording.channels)} units for channels {', '.join(recording.channels)}, "
            f"got {len(wanted)}; give one for each or one for all."
        )
    factors = np.array([factor(own, to) for own, to in zip(recording.unit, wanted, strict=True)], np.float32)
    if (factors == 1).all():
        return recording
    return replace(recording, values=recording.values * factors, unit=wanted)


def select(recording: Recording, channels: Sequence[str]) -> Recording:
    """Return the recording with these channels, in this order."""
    missing = [name for name in channels if name not in recording.channels]
    if missing:
        raise ValueError(
            f"Expected channels {', '.join(channels)}, the recording has {', '.join(recording.channels)}; "
            f"map its columns to these names."
        )
    if tuple(channels) == recording.channels:
        return recording
    chosen = [recording.channels.index(name) for name in channels]
    units = tuple(recording.unit[index] for index in chosen)
    return replace(recording, values=recording.values[:, chosen], channels=tuple(channels), unit=units)


def accelerometer(recording: Recording) -> tuple[list[int], float] | None:
    """Return the columns of the first three-axis accelerometer and what makes them g, or None without one."""
    columns = [index for index, unit in enumerate(recording.unit) if unit in ACCELERATION][:3]
    if len(columns) < 3:
        return None
    return columns, ACCELERATION[recording.unit[columns[0]]]


def saturation(recording: Recording) -> dict[str, Any]:
    """Return the share of samples that sit at a channel's extreme beside another that does, worst channel.

    Notes
    -----
    A sensor at the end of its range repeats its largest value; a moving one hardly ever does.
    """
    shares = [_saturated(recording.values[:, column]) for column in range(recording.values.shape[1])]
    return {"saturated_share": max(shares, default=0.0)}


def _saturated(values: Array) -> float:
    if len(values) < 2 or values.min() == values.max():
        return 0.0
    extreme = (values == values.min()) | (values == values.max())
    beside = np.zeros(len(values), dtype=bool)
    beside[1:] |= extreme[:-1]
    beside[:-1] |= extreme[1:]
    return float(np.mean(extreme & beside))


def rest_g(recording: Recording) -> float | None:
    """Return the median length of acceleration over seconds at rest, in g; None where it never rests."""
    found = accelerometer(recording)
    if found is None:
        return None
    columns, scale = found
    second = max(round(recording.rate_hz), 2)
    lengths = []
    for block in blocks(0, len(recording.values) // second * second):
        whole = (block.stop - block.start) // second * second
        acceleration = recording.values[block][:whole][:, columns].reshape(-1, second, 3) * np.float32(scale)
        acceleration = acceleration[np.isfinite(acceleration).all(axis=(1, 2))]
        length = np.linalg.norm(acceleration.mean(axis=1), axis=1)
        still = acceleration.std(axis=1).max(axis=1, initial=0) < REST * np.maximum(length, 1.0)
        lengths.append(length[still])
    every = np.concatenate(lengths) if lengths else np.empty(0)
    return float(np.median(every)) if len(every) else None


def warnings_for(recording: Recording, card: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Say what looks wrong with a recording, alone and beside what a model was trained on.

    Parameters
    ----------
    recording
        As read, before resampling.
    card
        What is known of the model's training: any of `rate_hz`, `channels`, `unit`, and `mean` and `std` for each
        channel.

    Examples
    --------
    >>> lying = Recording(values=np.tile([0, 0, 9.81], (200, 1)), time_s=np.arange(200) / 50, unit="g",
    ...                   channels=("x", "y", "z"), rate_hz=50)
    >>> warnings_for(lying, {"rate_hz": 100})[0]
    'At rest acceleration is 9.81 g instead of 1 g; are the values in m/s^2?'
    """
    card = card or {}
    said = [*_gravity_warnings(recording), *_shape_warnings(recording, card)]
    if len(recording.channels) == len(card.get("channels", recording.channels)):
        said += _level_warnings(recording, card)
    return tuple(said)


def _gravity_warnings(recording: Recording) -> list[str]:
    rest = rest_g(recording)
    if rest is None:
        return _length_warnings(recording)
    if 0.85 <= rest <= 1.15:
        return []
    guess = "check the unit and the calibration."
    if abs(rest - STANDARD_GRAVITY) < 1.5:
        guess = "are the values in m/s^2?"
    elif abs(rest - 1000) < 150:
        guess = "are the values in mg?"
    elif abs(rest * STANDARD_GRAVITY - 1) < 0.15:
        guess = "are the values already in g?"
    elif rest < 0.3:
        guess = "was gravity removed?"
    return [f"At rest acceleration is {rest:.3g} g instead of 1 g; {guess}"]


def _length_warnings(recording: Recording) -> list[str]:
    """Look at the length of acceleration altogether, where the wearer never rests enough to see gravity alone."""
    found = accelerometer(recording)
    if found is None:
        return []
    columns, scale = found
    length = np.linalg.norm(recording.values[:: max(len(recording.values) // 100_000, 1)][:, columns], axis=1) * scale
    length = length[np.isfinite(length)]
    median = float(np.median(length)) if len(length) else 1.0
    if 0.3 <= median <= 4:
        return []
    guess = "m/s^2" if 5 <= median <= 30 else "mg" if median > 300 else "another unit"
    return [f"Acceleration is {median:.3g} g long in the middle, where about 1 g is usual; are the values in {guess}?"]


def _shape_warnings(recording: Recording, card: Mapping[str, Any]) -> list[str]:
    said = []
    rate, channels = card.get("rate_hz"), tuple(card.get("channels", recording.channels))
    if rate and recording.rate_hz < 0.9 * rate:
        said.append(
            f"The recording has {recording.rate_hz:g} Hz and the model {rate:g} Hz; what lies above "
            f"{recording.rate_hz / 2:g} Hz is missing from it."
        )
    if channels != recording.channels:
        said.append(f"The model was trained on channels {', '.join(channels)}, not {', '.join(recording.channels)}.")
    unit = card.get("unit", recording.unit)
    units = (unit,) * len(channels) if isinstance(unit, str) else tuple(unit)
    if channels == recording.channels and units != recording.unit:
        said.append(f"The model was trained in {', '.join(units)}; convert from {', '.join(recording.unit)}.")
    return said


def _level_warnings(recording: Recording, card: Mapping[str, Any]) -> list[str]:
    """Compare level and spread of each channel with training: another placement, turned axes, another unit."""
    if "mean" not in card or "std" not in card or not len(recording.values):
        return []
    said = []
    sample = recording.values[:: max(len(recording.values) // 100_000, 1)].astype(np.float64)
    for column, name in enumerate(recording.channels):
        own, mean, std = sample[:, column], float(card["mean"][column]), float(card["std"][column])
        own = own[np.isfinite(own)]
        if not len(own):
            continue
        if abs(own.mean() - mean) > 3 * std:
            said.append(
                f"Channel {name} averages {own.mean():.3g}, in training {mean:.3g} with deviation {std:.3g}; "
                f"is the sensor turned or at another place?"
            )
        elif np.nanstd(own) > 5 * std:
            said.append(f"Channel {name} varies by {np.nanstd(own):.3g}, in training by {std:.3g}; check its unit.")
    return said
