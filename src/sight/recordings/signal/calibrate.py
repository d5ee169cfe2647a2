"""Calibration of an accelerometer by gravity: at rest it measures 1 g in any orientation.

Scale and offset are estimated once, from a recording with enough rest in enough orientations. A live session applies
them as a fixed parameter.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sight._util.unit_conversion import accelerometer_axes
from sight.recordings.signal.clock import BLOCK, MAX_GAP_S, blocks, gap_limit_s, stretches
from sight.types import Array, Recording

EPOCH_S = 10.0
STILL_G = 0.013
#: Each axis must have pointed up and down by at least this much.
SPREAD_G = 0.3
#: A fit with a larger mean error is rejected.
WORST_ERROR_G = 0.01
LARGEST_WEIGHT = 100.0


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Scale and offset of three axes: ``g = scale * (measured + offset)``, in g.

    Examples
    --------
    >>> Calibration(scale=(1.0, 1.0, 2.0), offset=(0.0, 0.0, -0.5)).apply(np.array([[0.0, 0.0, 1.0]])).tolist()
    [[0.0, 0.0, 1.0]]
    """

    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def apply(self, acceleration: Array, unit_g: float = 1.0) -> Array:
        """Return three columns corrected; `unit_g` is the size of their unit in g."""
        kind = acceleration.dtype
        corrected = (acceleration + np.array(self.offset, kind) / kind.type(unit_g)) * np.array(self.scale, kind)
        return np.asarray(corrected)


def calibrate(recording: Recording, calibration: Calibration, *, overwrite: bool = False) -> Recording:
    """Return the recording with its accelerometer corrected; `overwrite` reuses its values."""
    axes = accelerometer_axes(recording.unit)
    if axes is None:
        raise ValueError(
            f"Expected three channels of acceleration to calibrate, got units {', '.join(recording.unit)}; "
            f"leave calibration out."
        )
    columns, unit_g = axes
    values = recording.values.astype(np.float32, copy=not (overwrite and recording.values.flags.writeable))
    for block in blocks(0, len(values)):
        values[block, columns] = calibration.apply(values[block, columns], unit_g)
    return replace(recording, values=values)


def estimate_calibration(
    recording: Recording, *, max_gap_s: float = MAX_GAP_S
) -> tuple[Calibration | None, dict[str, Any]]:
    """Estimate the calibration from rest; None, with the reason in the facts, if the estimate is not reliable.

    Notes
    -----
    Rest is an epoch of 10 s in which no axis deviates by more than 13 mg. The means of such epochs are projected to
    the unit sphere, and scale and offset are fitted to the projection by iterated weighted least squares.
    Temperature is not used.

    References
    ----------
    van Hees et al., Autocalibration of accelerometer data for free-living physical activity assessment using local
    gravity and temperature, J. Appl. Physiol. 117 (2014), doi:10.1152/japplphysiol.00421.2014
    """
    axes = accelerometer_axes(recording.unit)
    if axes is None:
        return None, {"calibrated": False, "calibration_note": "no three-axis accelerometer"}
    means = _rest_means(recording, *axes, gap_limit_s(max_gap_s, recording.rate_hz))
    facts: dict[str, Any] = {"calibrated": False, "calibration_epochs": len(means)}
    if len(means) < 10 or (means.max(axis=0) < SPREAD_G).any() or (means.min(axis=0) > -SPREAD_G).any():
        reason = f"rest in too few directions: every axis has to point up and down by {SPREAD_G:g} g"
        return None, facts | {"calibration_note": reason}
    calibration = fit_sphere(means)
    before, after = _mean_error_g(means), _mean_error_g(calibration.apply(means))
    facts |= {"calibration_error_before_mg": 1e3 * before, "calibration_error_after_mg": 1e3 * after}
    if after >= before or after > WORST_ERROR_G:
        reason = f"the fit leaves an error of {1e3 * after:.1f} mg; it was {1e3 * before:.1f} mg before"
        return None, facts | {"calibration_note": reason}
    facts |= {"calibrated": True, "calibration_scale": list(calibration.scale)}
    return calibration, facts | {"calibration_offset_g": list(calibration.offset)}


def fit_sphere(means: Array, *, rounds: int = 1000, tolerance: float = 1e-10) -> Calibration:
    """Fit scale and offset that bring points (n, 3) in g closest to the unit sphere."""
    scale, offset = np.ones(3), np.zeros(3)
    weight, last = np.ones(len(means)), np.inf
    for _ in range(rounds):
        moved = (means + offset) * scale
        length = np.linalg.norm(moved, axis=1)
        target = moved / length[:, None]
        for axis in range(3):
            x, y = moved[:, axis], target[:, axis]
            x_mean, y_mean = np.average(x, weights=weight), np.average(y, weights=weight)
            spread = weight * (x - x_mean)
            slope = spread @ (y - y_mean) / (spread @ (x - x_mean))
            # y = slope * x + intercept on top of the present correction
            offset[axis] += (y_mean - slope * x_mean) / (slope * scale[axis])
            scale[axis] *= slope
        residual = float(np.average(np.linalg.norm(target - moved, axis=1) ** 2, weights=weight))
        weight = np.minimum(1 / np.maximum(np.abs(length - 1), 1e-12), LARGEST_WEIGHT)
        if abs(last - residual) < tolerance:
            break
        last = residual
    (sx, sy, sz), (ox, oy, oz) = scale.tolist(), offset.tolist()
    return Calibration(scale=(sx, sy, sz), offset=(ox, oy, oz))


def _rest_means(recording: Recording, columns: list[int], unit_g: float, max_gap_s: float) -> Array:
    """Return the mean acceleration of each epoch at rest, (n, 3) in g."""
    epoch = max(round(EPOCH_S * recording.rate_hz), 2)
    means = [np.empty((0, 3))]
    at_once = max(BLOCK // epoch, 1) * epoch
    for stretch in stretches(recording.time_s, max_gap_s):
        end = stretch.stop - (stretch.stop - stretch.start) % epoch
        for first in range(stretch.start, end, at_once):
            epochs = recording.values[first : min(first + at_once, end)][:, columns].reshape(-1, epoch, 3)
            still = (epochs.std(axis=1, dtype=np.float64) * unit_g < STILL_G).all(axis=1)
            mean = epochs[still].mean(axis=1, dtype=np.float64) * unit_g
            means.append(mean[(np.abs(mean) < 2).all(axis=1)])
    return np.concatenate(means)


def _mean_error_g(means: Array) -> float:
    return float(np.abs(np.linalg.norm(means, axis=1) - 1).mean())
