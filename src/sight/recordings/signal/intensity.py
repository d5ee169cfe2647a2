"""Intensity of movement: ENMO and MAD of the acceleration in each window."""

from collections.abc import Sequence

import numpy as np

from sight._util.units import ACCELERATION, accelerometer_axes
from sight.recordings.signal.clock import BLOCK
from sight.types import Array

#: Range of the usual magnitude of acceleration (g) if it includes gravity and its unit is right.
PLAUSIBLE_G = (0.7, 1.8)


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
