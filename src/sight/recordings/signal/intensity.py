"""Intensity of movement: published cut points, long periods of it, and ENMO and MAD of windows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sight._util.text import choices
from sight._util.unit_conversion import ACCELERATION, accelerometer_axes
from sight.recordings.signal.clock import BLOCK
from sight.types import EPOCH_S, Array

#: Range of the usual magnitude of acceleration (g) if it includes gravity and its unit is right.
PLAUSIBLE_G = (0.7, 1.8)
HILDEBRAND = (
    "Hildebrand et al., Med Sci Sports Exerc 46 (2014), doi:10.1249/MSS.0000000000000289 (moderate); "
    "Hildebrand et al., Scand J Med Sci Sports 27 (2017), doi:10.1111/sms.12795 (sedentary)"
)


class CutPoints(NamedTuple):
    """Limits of ENMO in milli-g between sedentary, light, and moderate or vigorous activity."""

    name: str
    light_mg: float  # from here on light
    moderate_mg: float  # from here on moderate or vigorous
    citation: str = "given by the user"


#: Published cut points: ActiGraph, epochs of 1 s, adults of 21 to 61 and children of 7 to 11 years.
CUT_POINTS = {
    each.name: each
    for each in (
        CutPoints("hildebrand-adults-wrist", 44.8, 100.6, HILDEBRAND),
        CutPoints("hildebrand-adults-hip", 47.4, 69.1, HILDEBRAND),
        CutPoints("hildebrand-children-wrist", 35.6, 201.4, HILDEBRAND),
        CutPoints("hildebrand-children-hip", 63.3, 142.6, HILDEBRAND),
    )
}
#: Cut points that are used unless others are chosen, by the place of the sensor.
USUAL = {"wrist": "hildebrand-adults-wrist", "waist": "hildebrand-adults-hip", "hip": "hildebrand-adults-hip"}
#: A bout of moderate or vigorous activity lasts at least this many epochs (ten minutes), of which this share is
#: above the limit, without an interruption of this many epochs (a minute).
BOUT, BOUT_SHARE, PAUSE = 120, 0.8, 12
#: Epochs of the most and the least active five hours, and the share of them that has to be worn.
FIVE_HOURS, LEAST_WORN = round(5 * 3600 / EPOCH_S), 0.8


def cut_points(text: str, placement: str | None) -> CutPoints | None:
    """Return cut points by name or as two limits in milli-g such as "45,100"; without text, those of the placement.

    >>> cut_points("", "wrist").moderate_mg, cut_points("40,100", None).name, cut_points("", "thigh")
    (100.6, '40,100', None)
    """
    name = text or USUAL.get(placement or "", "")
    if not name or name in CUT_POINTS:
        return CUT_POINTS.get(name)
    try:
        light, moderate = map(float, name.split(","))
    except ValueError:
        raise ValueError(
            f"Expected cut points by name or two limits in mg such as 45,100, got {text!r}; {choices(name, CUT_POINTS)}"
        ) from None
    if not 0 < light < moderate:
        raise ValueError(f"Expected the limits of light and of moderate activity, such as 45,100, got {text!r}.")
    return CutPoints(name, light, moderate)


def in_bouts(active: Array) -> Array:
    """Return which epochs belong to a bout of moderate or vigorous activity, (n,) bool.

    `active` is whether each epoch is above the limit, for epochs without holes. A bout lasts ten minutes or more,
    begins and ends with active epochs, is active for 80 % of every ten minutes, and has no interruption of a minute.

    >>> walk = np.repeat([True, False, True], [100, 11, 100])
    >>> in_bouts(walk).sum(), in_bouts(walk[:150]).sum(), in_bouts(np.repeat([True, False, True], [100, 12, 100])).sum()
    (np.int64(211), np.int64(150), np.int64(0))
    """
    broken = np.concatenate(([0], np.cumsum(_long_pauses(active))))
    total = np.concatenate(([0], np.cumsum(active)))
    starts = np.arange(max(len(active) - BOUT + 1, 0))
    ends = starts + BOUT
    enough = total[ends] - total[starts] >= BOUT_SHARE * BOUT - 1e-9
    found = starts[enough & (broken[ends] == broken[starts]) & active[starts] & active[ends - 1]]
    covered = np.zeros(len(active) + 1, np.int64)
    np.add.at(covered, found, 1)
    np.add.at(covered, found + BOUT, -1)
    return np.asarray(np.cumsum(covered)[:-1] > 0)


def five_hours(enmo_mg: Array, worn: Array) -> dict[str, tuple[int, float]]:
    """Return the first epoch and the mean ENMO of the most and the least active five hours, by name.

    Both arrays are those of one day without holes, (n,); epochs that were not worn are left out of the mean. Five hours
    count if they were worn for 80 %; without such hours the result is empty.

    >>> enmo = np.repeat([0.0, 10.0, 50.0], FIVE_HOURS)
    >>> five_hours(enmo, np.ones(len(enmo), bool))
    {'m5': (7200, 50.0), 'l5': (0, 0.0)}
    """
    count, total = (
        np.concatenate(([0.0], np.cumsum(values))) for values in (worn, np.where(worn, np.nan_to_num(enmo_mg), 0.0))
    )
    own = count[FIVE_HOURS:] - count[:-FIVE_HOURS]
    possible = np.flatnonzero(own >= LEAST_WORN * FIVE_HOURS)
    if not len(possible):
        return {}
    mean = (total[FIVE_HOURS:] - total[:-FIVE_HOURS])[possible] / own[possible]
    # Rounding of the sums must not decide between equal means.
    best = {"m5": int(mean.round(6).argmax()), "l5": int(mean.round(6).argmin())}
    return {name: (int(possible[k]), float(mean[k])) for name, k in best.items()}


def _long_pauses(active: Array) -> Array:
    """Return which epochs belong to an interruption of at least a minute, (n,) bool."""
    edges = np.flatnonzero(np.diff(np.concatenate(([1], active.astype(np.int8), [1]))))
    long = np.zeros(len(active), bool)
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        long[start:end] = end - start >= PAUSE
    return long


def intensity(x: Array, units: Sequence[str]) -> dict[str, Array]:
    """Return ENMO and MAD of each window in milli-g, as `enmo_mg` and `mad_mg`, (N,).

    `x` are windows (N, C, T), `units` the unit of each channel; the first three channels of acceleration are used.
    The result is empty if there are none, if a window is a single sample, or if the median magnitude is not between
    0.7 and 1.8 g: the unit is wrong, or gravity was removed.

    Notes
    -----
    With the magnitude r of the acceleration in g, ENMO is the mean of max(r - 1, 0) and MAD the mean of
    abs(r - mean(r)) over the samples of the window.

    References
    ----------
    van Hees et al., Separating movement and gravity components in an acceleration signal and implications for the
    assessment of human daily physical activity, PLoS ONE 8 (2013), doi:10.1371/journal.pone.0061691

    Vähä-Ypyä et al., A universal, accurate intensity-based classification of different physical activities using raw
    data of accelerometer, Clin Physiol Funct Imaging 35 (2015), doi:10.1111/cpf.12127

    Examples
    --------
    >>> x = np.zeros((1, 3, 4))
    >>> x[0, 2] = 0.9, 1.1, 1.3, 0.9
    >>> {name: values.round(3).tolist() for name, values in intensity(x, ("g",) * 3).items()}
    {'enmo_mg': [100.0], 'mad_mg': [150.0]}
    >>> intensity(1000 * x, ("g",) * 3)
    {}
    """
    axes = accelerometer_axes(units)
    n, _, length = x.shape
    if axes is None or not n or length < 2:
        return {}
    columns, _ = axes
    size_g = np.array([ACCELERATION[units[column]] for column in columns])[:, None]
    enmo, mad, mean = np.empty(n), np.empty(n), np.empty(n)
    at_once = max(BLOCK // length, 1)
    for block in (slice(i, i + at_once) for i in range(0, n, at_once)):
        r = np.sqrt(((x[block][:, columns] * size_g) ** 2).sum(axis=1))
        mean[block] = r.mean(axis=1)
        enmo[block] = np.maximum(r - 1, 0).mean(axis=1)
        mad[block] = np.abs(r - mean[block, None]).mean(axis=1)
    low, high = PLAUSIBLE_G
    known = mean[np.isfinite(mean)]
    if not len(known) or not low <= np.median(known) <= high:
        return {}
    return {"enmo_mg": 1000 * enmo, "mad_mg": 1000 * mad}
