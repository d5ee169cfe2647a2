"""Quality checks of a recording and its windows: saturation, gravity, and comparison with a model's training data."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sight._util.unit_conversion import ACCELERATION, ROTATION, accelerometer_axes
from sight.models.card import ModelCard
from sight.models.training_domain import Domain, gravity_guess, is_gravity_free
from sight.recordings.signal.clock import blocks
from sight.types import Array, Recording, Severity, Warning, Windows

#: Largest standard deviation of any axis over a second at rest, as a share of gravity.
REST = 0.02
#: Deviations from training by a degree per radian, within this factor, are taken for the other unit of rotation.
OTHER_UNIT = 3.0
#: A larger share of saturated samples is reported.
SATURATED = 0.001
#: Most windows that are compared with training.
MOST_WINDOWS = 2000


def saturation(recording: Recording) -> dict[str, float]:
    """Return the share of saturated samples of the worst channel.

    A sample is saturated if it and a neighbour are at an extreme of the channel: a sensor at the end of its range
    repeats its largest value, a moving one hardly ever does.
    """
    shares = [_saturated_share(recording.values[:, column]) for column in range(recording.values.shape[1])]
    return {"saturated_share": max(shares, default=0.0)}


def rest_g(recording: Recording) -> float | None:
    """Return the median magnitude of acceleration over seconds at rest, in g; None without rest."""
    axes = accelerometer_axes(recording.unit)
    if axes is None:
        return None
    columns, unit_g = axes
    second = max(round(recording.rate_hz), 2)
    magnitudes = [np.empty(0, np.float32)]
    for block in blocks(0, len(recording.values) // second * second):
        whole = (block.stop - block.start) // second * second
        acceleration = recording.values[block][:whole][:, columns].reshape(-1, second, 3) * np.float32(unit_g)
        acceleration = acceleration[np.isfinite(acceleration).all(axis=(1, 2))]
        magnitude = np.linalg.norm(acceleration.mean(axis=1), axis=1)
        still = acceleration.std(axis=1).max(axis=1, initial=0) < REST * np.maximum(magnitude, 1.0)
        magnitudes.append(magnitude[still])
    at_rest = np.concatenate(magnitudes)
    return float(np.median(at_rest)) if len(at_rest) else None


def warnings_for(recording: Recording, card: Mapping[str, Any] | None = None) -> tuple[Warning, ...]:
    """Return warnings about a recording as read, by itself and compared with a model's training data.

    `card` describes the training data by any of `rate_hz`, `channels`, `unit`, `mean` and `std` of each channel, and
    `gravity`, whether acceleration contains it. If gravity has a wrong magnitude, the levels of acceleration are not
    compared with training: the cause is the same.

    >>> lying = Recording(values=np.tile([0, 0, 9.81], (200, 1)), time_s=np.arange(200) / 50, unit="g",
    ...                   channels=("x", "y", "z"), rate_hz=50)
    >>> str(warnings_for(lying, {"rate_hz": 100})[0])
    'At rest acceleration is 9.81 g instead of 1 g; are the values in m/s^2? Set it with unit (--unit m/s^2).'
    """
    card = card or {}
    gravity = _gravity_warnings(recording, card.get("gravity"))
    warnings = [*gravity, *_channel_warnings(recording, card)]
    if len(recording.channels) == len(card.get("channels", recording.channels)):
        warnings += _level_warnings(recording, card, skipped=tuple(ACCELERATION) if gravity else ())
    return tuple(warnings)


def training_facts(card: ModelCard) -> dict[str, Any]:
    """Return what `warnings_for` compares a recording with."""
    domain = Domain.of(card)
    gravity = {} if domain is None else {"gravity": domain.has_gravity}
    return {"rate_hz": card.rate_hz, "channels": card.channels, "unit": card.units, **card.training_scale, **gravity}


def check_domain(windows: Windows, card: ModelCard) -> Windows:
    """Compare windows with those of a model's training (`training_domain`); return them with warnings and the result.

    Windows without wear are left out. Nothing is compared if the unit is already known to be wrong.
    """
    domain = Domain.of(card)
    if domain is None or any(warning.kind == "unit" and warning.severity == "error" for warning in windows.warnings):
        return windows
    worn = np.flatnonzero(np.asarray(windows.wear))
    statistics = domain.statistics(windows.x[worn[:: max(len(worn) // MOST_WINDOWS, 1)]])
    share = round(domain.unfamiliar(statistics), 4) if len(statistics) else None
    facts = replace(windows.facts, unfamiliar_share=share)
    return replace(windows, warnings=(*windows.warnings, *domain.warnings(statistics)), facts=facts)


def saturation_warnings(share: float | None) -> list[Warning]:
    """Return a note if more than a thousandth of the samples are saturated; `share` is that of `saturation`."""
    if share is None or share <= SATURATED:
        return []
    text = f"{100 * share:.2g} % of the samples are at the limit of the sensor's range; larger values are lost."
    return [Warning(kind="saturated", severity="note", text=text)]


def refuse_errors(name: str, warnings: Iterable[Warning]) -> None:
    """Raise ValueError if a warning is an error: numbers of the recording cannot be used."""
    for warning in warnings:
        if warning.severity == "error":
            raise ValueError(f"{name}: {warning}")


def _saturated_share(values: Array) -> float:
    low, high = (values.min(), values.max()) if len(values) else (0, 0)
    if low == high:
        return 0.0
    found = [
        block.start + np.flatnonzero((values[block] == low) | (values[block] == high))
        for block in blocks(0, len(values))
    ]
    beside = np.diff(np.concatenate(found)) == 1
    return int(np.sum(np.append(beside, False) | np.insert(beside, 0, False))) / len(values)


def _gravity_warnings(recording: Recording, expected: bool | None) -> list[Warning]:
    """Check the magnitude of gravity; `expected` is whether training had it, None if that is unknown."""
    rest = rest_g(recording)
    if rest is None:
        return _magnitude_warnings(recording)
    removed = is_gravity_free(rest)
    if 0.85 <= rest <= 1.15 or (removed and expected is False):
        return []
    guess, remedy = gravity_guess(rest)
    text = f"At rest acceleration is {rest:.3g} g instead of 1 g" + (f"; {guess}" if guess else ".")
    severity: Severity = "warning" if removed and expected is None else "error"
    return [Warning(kind="unit", severity=severity, text=text, remedy=remedy)]


def _magnitude_warnings(recording: Recording) -> list[Warning]:
    """Check the median magnitude over the whole recording, for wearers who never rest."""
    axes = accelerometer_axes(recording.unit)
    if axes is None:
        return []
    columns, unit_g = axes
    magnitude = np.linalg.norm(_thinned(recording)[:, columns], axis=1) * unit_g
    magnitude = magnitude[np.isfinite(magnitude)]
    median = float(np.median(magnitude)) if len(magnitude) else 1.0
    if 0.3 <= median <= 4:
        return []
    guess = "m/s^2" if 5 <= median <= 30 else "mg" if median > 300 else ""
    text = f"The median magnitude of acceleration is {median:.3g} g instead of about 1 g; "
    text += f"are the values in {guess or 'another unit'}?"
    remedy = f"Set it with unit (--unit{f' {guess}' if guess else ''})."
    return [Warning(kind="unit", severity="error", text=text, remedy=remedy)]


def _channel_warnings(recording: Recording, card: Mapping[str, Any]) -> list[Warning]:
    warnings = []
    rate, channels = card.get("rate_hz"), tuple(card.get("channels", recording.channels))
    if rate and recording.rate_hz < 0.9 * rate:
        text = (
            f"The recording has {recording.rate_hz:g} Hz and the model {rate:g} Hz; frequencies above "
            f"{recording.rate_hz / 2:g} Hz are missing."
        )
        warnings.append(Warning(kind="rate", severity="warning", text=text))
    if channels != recording.channels:
        text = f"The model was trained on channels {', '.join(channels)}, not {', '.join(recording.channels)}."
        warnings.append(Warning(kind="channels", severity="warning", text=text))
    unit = card.get("unit", recording.unit)
    units = (unit,) * len(channels) if isinstance(unit, str) else tuple(unit)
    if channels == recording.channels and units != recording.unit:
        text, remedy = f"The model was trained in {', '.join(units)}.", f"convert from {', '.join(recording.unit)}."
        warnings.append(Warning(kind="unit", severity="warning", text=text, remedy=remedy))
    return warnings


def _level_warnings(recording: Recording, card: Mapping[str, Any], skipped: tuple[str, ...]) -> list[Warning]:
    """Compare channels with training: another placement, turned axes, another unit; not those with a `skipped` unit."""
    if "mean" not in card or "std" not in card or not len(recording.values):
        return []
    sample = _thinned(recording).astype(np.float64)
    warnings = _rotation_warnings(recording, sample, np.asarray(card["std"], np.float64))
    for column, name in enumerate(recording.channels):
        own, mean, std = sample[:, column], float(card["mean"][column]), float(card["std"][column])
        own = own[np.isfinite(own)]
        if not len(own) or recording.unit[column] in skipped:
            continue
        if abs(own.mean() - mean) > 3 * std:
            text = (
                f"Channel {name} averages {own.mean():.3g}, in training {mean:.3g} with deviation {std:.3g}; "
                f"is the sensor turned or at another place?"
            )
            warnings.append(Warning(kind="level", severity="warning", text=text))
        elif own.std() > 5 * std and not (warnings and recording.unit[column] in ROTATION):
            text = f"Channel {name} varies by {own.std():.3g}, in training by {std:.3g}."
            warnings.append(Warning(kind="level", severity="warning", text=text, remedy="check its unit."))
    return warnings


def _rotation_warnings(recording: Recording, sample: Array, std: Array) -> list[Warning]:
    """Compare the spread of rotation with training: values in the other unit are 57 times too small or too large."""
    columns = [column for column, unit in enumerate(recording.unit) if unit in ROTATION]
    if not columns:
        return []
    own = sample[np.isfinite(sample).all(axis=1)][:, columns].std(axis=0) if len(sample) else np.zeros(0)
    share = float(np.median(own / std[columns])) if len(own) and np.isfinite(own).all() else 1.0
    for unit, factor in (("rad/s", 1 / ROTATION["rad/s"]), ("deg/s", ROTATION["rad/s"])):
        if factor / OTHER_UNIT < share < factor * OTHER_UNIT:
            text = f"Rotation varies {share:.3g} times as much as in training; are the values in {unit}?"
            remedy = f"Set it with gyro_unit (--gyro-unit {unit})."
            return [Warning(kind="rotation", severity="error", text=text, remedy=remedy)]
    return []


def _thinned(recording: Recording) -> Array:
    return recording.values[:: max(len(recording.values) // 100_000, 1)]
