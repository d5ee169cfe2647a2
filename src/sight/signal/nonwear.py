"""Non-wear detection: periods in which the sensor lay still. They are flagged, never removed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from sight.signal.channels import accelerometer
from sight.types import Array, Recording

BLOCK_S, STEP_S = 3600.0, 900.0
STILL_G, RANGE_G = 0.013, 0.050
#: A block with a smaller share of its samples counts as worn.
JUDGED_SHARE = 0.5


def find_nonwear(recording: Recording) -> tuple[Array, dict[str, Any]]:
    """Return the non-wear periods, (m, 2) in seconds, and their total, from a recording without invalid samples.

    Notes
    -----
    An hour is non-wear if at least two axes deviate by less than 13 mg and stay within 50 mg; an hour is examined
    every 15 minutes. The rule looks ahead, so a live session does not flag non-wear.

    References
    ----------
    van Hees et al., Estimation of daily energy expenditure in pregnant and non-pregnant women using a wrist-worn
    tri-axial accelerometer, PLoS ONE 6 (2011), doi:10.1371/journal.pone.0022922

    Examples
    --------
    >>> rng, n = np.random.default_rng(0), 2 * 3600
    >>> still = Recording(values=rng.normal(0, 0.003, (n, 3)), time_s=np.arange(n) / 1.0, unit="g",
    ...                   channels=("x", "y", "z"), rate_hz=1.0)
    >>> find_nonwear(still)[0].tolist()
    [[0.0, 7200.0]]
    """
    axes = accelerometer(recording)
    if axes is None or not len(recording.time_s):
        return np.empty((0, 2)), {}
    columns, unit_g = axes
    origin = float(recording.time_s[0])
    span = float(recording.time_s[-1]) - origin + 1 / recording.rate_hz
    edges = np.searchsorted(recording.time_s, origin + STEP_S * np.arange(int(np.ceil(span / STEP_S - 1e-9)) + 1))
    steps = [_statistics(recording.values[start:stop][:, columns], unit_g) for start, stop in pairwise(edges)]
    per_block = round(BLOCK_S / STEP_S)
    nonwear = np.zeros(len(steps), dtype=bool)
    for first in range(len(steps) - per_block + 1):
        if _is_still(steps[first : first + per_block], JUDGED_SHARE * BLOCK_S * recording.rate_hz):
            nonwear[first : first + per_block] = True
    change = np.flatnonzero(np.diff(np.concatenate(([0], nonwear.astype(np.int8), [0]))))
    periods = np.minimum(change.reshape(-1, 2) * STEP_S + origin, origin + span)
    return periods, {"nonwear_total_s": float(np.sum(periods[:, 1] - periods[:, 0])), "nonwear_periods": len(periods)}


def is_worn(periods: Array, time_s: Array) -> Array:
    """Return for each time whether it lies outside all non-wear periods.

    Examples
    --------
    >>> is_worn(np.array([[10.0, 20.0]]), np.array([5.0, 15.0, 20.0])).tolist()
    [True, False, True]
    """
    started = np.searchsorted(periods[:, 0], time_s, side="right")
    return np.asarray(started == np.searchsorted(periods[:, 1], time_s, side="right"))


def _statistics(values: Array, unit_g: float) -> Array:
    """Return count, mean, mean square, minimum and maximum of each axis in g, (5, 3)."""
    if not len(values):
        return np.array([np.zeros(3), np.zeros(3), np.zeros(3), np.full(3, np.inf), np.full(3, -np.inf)])
    g = values.astype(np.float64) * unit_g
    return np.array([np.full(3, len(g)), g.mean(axis=0), (g**2).mean(axis=0), g.min(axis=0), g.max(axis=0)])


def _is_still(steps: list[Array], min_samples: float) -> bool:
    count, mean, square, low, high = np.moveaxis(np.array(steps), 1, 0)
    total = count.sum(axis=0)
    if total[0] < min_samples:
        return False
    mean, square = (count * mean).sum(axis=0) / total, (count * square).sum(axis=0) / total
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    quiet = (deviation < STILL_G) & (high.max(axis=0) - low.min(axis=0) < RANGE_G)
    return bool(quiet.sum() >= 2)
