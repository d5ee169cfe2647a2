"""Non-wear detection: periods in which the sensor lay still. They are flagged, never removed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sight._util.unit_conversion import accelerometer_axes
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
    """
    axes = accelerometer_axes(recording.unit)
    if axes is None or not len(recording.time_s):
        return np.empty((0, 2)), {}
    columns, unit_g = axes
    origin = float(recording.time_s[0])
    span = float(recording.time_s[-1]) - origin + 1 / recording.rate_hz
    steps = {
        number: _statistics(recording.values[rows][:, columns], unit_g)
        for number, rows in _occupied_steps(recording.time_s, origin)
    }
    per_block, count = round(BLOCK_S / STEP_S), int(np.ceil(span / STEP_S - 1e-9))
    # Only blocks that begin with samples, or up to a block before them, can be judged.
    firsts = sorted({first for step in steps for first in range(step - per_block + 1, step + 1)})
    still: set[int] = set()
    for first in firsts:
        block = [steps[step] for step in range(first, first + per_block) if step in steps]
        if 0 <= first <= count - per_block and _is_still(block, JUDGED_SHARE * BLOCK_S * recording.rate_hz):
            still.update(range(first, first + per_block))
    nonwear = np.array(sorted(still), np.int64)
    begins = np.diff(nonwear, prepend=-2) > 1
    edges = np.stack((nonwear[begins], nonwear[np.append(begins[1:], True)[: len(nonwear)]] + 1), axis=1)
    periods = np.minimum(edges * STEP_S + origin, origin + span)
    return periods, {"nonwear_total_s": float(np.sum(periods[:, 1] - periods[:, 0])), "nonwear_periods": len(periods)}


def _occupied_steps(time_s: Array, origin: float) -> Iterator[tuple[int, slice]]:
    """Yield the number of each step that holds samples, and their rows; the time between costs nothing."""
    first = 0
    while first < len(time_s):
        number = int((time_s[first] - origin) // STEP_S)
        number += int(origin + STEP_S * (number + 1) <= time_s[first])  # rounding of the division
        stop = first + int(np.searchsorted(time_s[first:], origin + STEP_S * (number + 1)))
        yield number, slice(first, stop)
        first = stop


def is_worn(periods: Array, time_s: Array) -> Array:
    """Return for each time whether it lies outside all non-wear periods.

    >>> is_worn(np.array([[10.0, 20.0]]), np.array([5.0, 15.0, 20.0])).tolist()
    [True, False, True]
    """
    started = np.searchsorted(periods[:, 0], time_s, side="right")
    return np.asarray(started == np.searchsorted(periods[:, 1], time_s, side="right"))


def _statistics(values: Array, unit_g: float) -> Array:
    """Return count, mean, mean square, minimum and maximum of each axis in g, (5, 3)."""
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
