"""Was the sensor worn? A flag, never a deletion."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from sight.signal.units import accelerometer
from sight.types import Array, Recording

BLOCK_S, STEP_S = 3600.0, 900.0
STILL_G, RANGE_G = 0.013, 0.050
#: A block with less of its samples than this is not judged.
JUDGED_SHARE = 0.5


def nonwear(recording: Recording) -> tuple[Array, dict[str, Any]]:
    """Find the times at which nobody wore the sensor, (m, 2) in seconds, from a tidy recording.

    Notes
    -----
    An hour is non-wear when at least two axes deviate by less than 13 mg and stay within 50 mg; hours are judged
    every quarter of an hour. It looks back and ahead, so a live session has no such flag.

    References
    ----------
    van Hees et al., Estimation of daily energy expenditure in pregnant and non-pregnant women using a wrist-worn
    tri-axial accelerometer, PLoS ONE 6 (2011), doi:10.1371/journal.pone.0022922

    Examples
    --------
    >>> rng, n = np.random.default_rng(0), 2 * 3600
    >>> still = Recording(values=rng.normal(0, 0.003, (n, 3)), time_s=np.arange(n) / 1.0, unit="g",
    ...                   channels=("x", "y", "z"), rate_hz=1.0)
    >>> nonwear(still)[0].tolist()
    [[0.0, 7200.0]]
    """
    found = accelerometer(recording)
    if found is None or not len(recording.time_s):
        return np.empty((0, 2)), {}
    origin = float(recording.time_s[0])
    span = float(recording.time_s[-1]) - origin + 1 / recording.rate_hz
    edges = np.searchsorted(recording.time_s, origin + STEP_S * np.arange(int(np.ceil(span / STEP_S - 1e-9)) + 1))
    bins = [_summary(recording.values[a:b][:, found[0]], found[1]) for a, b in pairwise(edges)]
    per_block = round(BLOCK_S / STEP_S)
    still = [
        _still(bins[first : first + per_block], JUDGED_SHARE * BLOCK_S * recording.rate_hz)
        for first in range(len(bins) - per_block + 1)
    ]
    flagged = np.zeros(len(bins), dtype=bool)
    for first in np.flatnonzero(still):
        flagged[first : first + per_block] = True
    times = _runs(flagged) * STEP_S + origin
    times = np.minimum(times, origin + span)
    return times, {"nonwear_total_s": float(np.sum(times[:, 1] - times[:, 0])), "nonwear_periods": len(times)}


def worn(times: Array, at_s: Array) -> Array:
    """Say for each moment whether it lies outside all non-wear times.

    Examples
    --------
    >>> worn(np.array([[10.0, 20.0]]), np.array([5.0, 15.0, 20.0])).tolist()
    [True, False, True]
    """
    inside = np.searchsorted(times[:, 0], at_s, side="right") - np.searchsorted(times[:, 1], at_s, side="right")
    return np.asarray(inside == 0)


def _summary(values: Array, unit_g: float) -> Array:
    """Count, mean, mean square, least and largest of each axis in g, (5, 3)."""
    if not len(values):
        return np.array([np.zeros(3), np.zeros(3), np.zeros(3), np.full(3, np.inf), np.full(3, -np.inf)])
    g = values.astype(np.float64) * unit_g
    return np.array([np.full(3, len(g)), g.mean(axis=0), (g**2).mean(axis=0), g.min(axis=0), g.max(axis=0)])


def _still(parts: list[Array], enough: float) -> bool:
    count, mean, square, low, high = np.moveaxis(np.array(parts), 1, 0)
    total = count.sum(axis=0)
    if total[0] < enough:
        return False
    mean, square = (count * mean).sum(axis=0) / total, (count * square).sum(axis=0) / total
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    quiet = (deviation < STILL_G) & (high.max(axis=0) - low.min(axis=0) < RANGE_G)
    return bool(quiet.sum() >= 2)


def _runs(flags: Array) -> Array:
    """First and one past the last index of each run of True, (m, 2)."""
    change = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return change.reshape(-1, 2)
