"""Epochs of five seconds: movement and arm angle from the samples at the rate of the device."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from sight._util.unit_conversion import accelerometer_axes
from sight.recordings.signal.clock import BLOCK, MAX_GAP_S, gap_limit_s, stretches
from sight.recordings.signal.intensity import PLAUSIBLE_G
from sight.recordings.signal.nonwear import is_worn
from sight.types import EPOCH_S, Array, Epochs, Recording

#: Samples a second that the rolling median of the angle uses, and their number: five seconds.
ANGLE_HZ, MEDIAN = 10, 51
#: An epoch with a smaller share of its samples is left out.
LEAST_SHARE = 0.5
#: A sample this much before the begin of an epoch, by rounding of its time, belongs to it.
ROUNDING_S = 1e-6


def find_epochs(recording: Recording, nonwear: Array, *, max_gap_s: float = MAX_GAP_S) -> Epochs | None:
    """Return the epochs of a recording of valid samples; None without samples or gravity.

    `nonwear` are the periods of `find_nonwear`. Epochs begin at multiples of five seconds of the wall clock if it is
    known.

    Notes
    -----
    With the magnitude r of the acceleration in g, ENMO is the mean of max(r - 1, 0) and MAD that of abs(r - mean(r))
    over the samples of an epoch. The angle is that of the z axis to the horizontal plane, from the rolling median of
    each axis over five seconds, averaged over the epoch. For the median, ten samples a second are used.

    References
    ----------
    van Hees et al., Separating movement and gravity components in an acceleration signal and implications for the
    assessment of human daily physical activity, PLoS ONE 8 (2013), doi:10.1371/journal.pone.0061691

    van Hees et al., A novel, open access method to assess sleep duration using a wrist-worn accelerometer, PLoS ONE 10
    (2015), doi:10.1371/journal.pone.0142533

    Vähä-Ypyä et al., A universal, accurate intensity-based classification of different physical activities using raw
    data of accelerometer, Clin Physiol Funct Imaging 35 (2015), doi:10.1111/cpf.12127

    Examples
    --------
    >>> values = np.tile([[0.0, 0.0, 1.0], [0.0, 0.0, 1.2]], (250, 1))
    >>> lying = Recording(values=values, time_s=np.arange(500) / 50, channels=("x", "y", "z"), unit="g", rate_hz=50)
    >>> epochs = find_epochs(lying, np.empty((0, 2)))
    >>> epochs.time_s.tolist(), epochs.enmo_mg.round(3).tolist(), epochs.angle_deg.tolist()
    ([0.0, 5.0], [100.0, 100.0], [90.0, 90.0])
    """
    axes = accelerometer_axes(recording.unit)
    if axes is None or not len(recording.time_s):
        return None
    start, time_s = recording.start, recording.time_s
    origin = -((start.second + start.microsecond / 1e6) % EPOCH_S) if start else float(time_s[0])
    pieces = []
    for stretch in stretches(time_s, gap_limit_s(max_gap_s, recording.rate_hz)):
        values = recording.values[stretch]
        pieces += list(_stretch_epochs(values, time_s[stretch], axes, origin))
    epoch, samples, magnitude, enmo, mad, ticks, angle = _added_up(np.concatenate(pieces, axis=1))
    low, high = PLAUSIBLE_G
    keep = samples >= LEAST_SHARE * EPOCH_S * recording.rate_hz
    if not keep.any() or not low <= np.median(magnitude[keep] / samples[keep]) <= high:
        return None
    begin_s = origin + EPOCH_S * epoch[keep]
    means = {
        "enmo_mg": 1000 * enmo[keep] / samples[keep],
        "mad_mg": 1000 * mad[keep] / samples[keep],
        "angle_deg": angle[keep] / ticks[keep],
    }
    return Epochs(
        time_s=begin_s,
        **{name: values.astype(np.float32) for name, values in means.items()},
        wear=is_worn(nonwear, begin_s + EPOCH_S / 2),
    )


def window_means(epochs: Epochs, start_s: Array, window_s: float) -> dict[str, Array]:
    """Return mean ENMO and MAD of the windows that begin at `start_s`, (N,), NaN where there is no epoch.

    >>> epochs = Epochs(time_s=np.array([0.0, 5.0]), enmo_mg=np.array([0.0, 40.0]), mad_mg=np.array([1.0, 1.0]),
    ...                 angle_deg=np.zeros(2), wear=np.ones(2, bool))
    >>> window_means(epochs, np.array([0.0, 4.0, 20.0]), 4.0)["enmo_mg"].tolist()
    [0.0, 30.0, nan]
    """
    edges = np.stack((epochs.time_s, epochs.time_s + EPOCH_S), axis=1).ravel()

    def inside(values: Array) -> Array:
        total = np.concatenate(([0.0], np.cumsum(EPOCH_S * values.astype(np.float64))))
        at_edges = np.stack((total[:-1], total[1:]), axis=1).ravel()
        return np.asarray(np.interp(start_s + window_s, edges, at_edges) - np.interp(start_s, edges, at_edges))

    seconds = inside(np.ones(len(epochs.time_s)))
    known = seconds > ROUNDING_S
    sums = {"enmo_mg": inside(epochs.enmo_mg), "mad_mg": inside(epochs.mad_mg)}
    return {name: np.where(known, total / np.where(known, seconds, 1), np.nan) for name, total in sums.items()}


def _stretch_epochs(values: Array, time_s: Array, axes: tuple[list[int], float], origin: float) -> Iterator[Array]:
    """Yield for blocks of whole epochs: number, samples and sums of each epoch, (7, epochs); see `_added_up`."""
    columns, unit_g = axes
    numbers = (np.floor((time_s[[0, -1]] - origin + ROUNDING_S) / EPOCH_S)).astype(np.int64)
    per_block = max(int(BLOCK * (time_s[-1] - time_s[0]) / len(time_s) // EPOCH_S), 1)
    firsts = [*range(int(numbers[0]), int(numbers[1]) + 1, per_block), int(numbers[1]) + 1]
    for low, high in pairwise(firsts):
        epoch = np.arange(low, high)
        edges = np.searchsorted(time_s, origin + EPOCH_S * np.append(epoch, high) - ROUNDING_S)
        samples = np.diff(edges)
        filled = samples > 0
        if not filled.any():
            continue
        acceleration = values[edges[0] : edges[-1]][:, columns] * np.float32(unit_g)
        r = np.sqrt(np.einsum("ij,ij->i", acceleration, acceleration))
        begins, counts = (edges[:-1] - edges[0])[filled], samples[filled]
        total = np.add.reduceat(r, begins, dtype=np.float64)
        enmo = np.add.reduceat(np.maximum(r - 1, 0), begins, dtype=np.float64)
        mean = np.repeat((total / counts).astype(np.float32), counts)
        mad = np.add.reduceat(np.abs(r - mean), begins, dtype=np.float64)
        ticks, angle = _angle_sums(values, time_s, columns, origin, (low, high))
        yield np.array([epoch[filled], counts, total, enmo, mad, ticks[filled], angle[filled]])


def _angle_sums(
    values: Array, time_s: Array, columns: list[int], origin: float, epochs: tuple[int, int]
) -> tuple[Array, Array]:
    """Return number and sum of the angles at `ANGLE_HZ` in each of the epochs from the first to before the last."""
    from scipy.ndimage import median_filter

    per_epoch, margin = round(ANGLE_HZ * EPOCH_S), MEDIAN // 2
    first = int(np.ceil(ANGLE_HZ * (time_s[0] - origin) - ROUNDING_S))
    last = int(np.floor(ANGLE_HZ * (time_s[-1] - origin) + ROUNDING_S))
    low, high = max(per_epoch * epochs[0], first), min(per_epoch * epochs[1], last + 1)
    count = epochs[1] - epochs[0]
    if low >= high:
        return np.zeros(count), np.zeros(count)
    ticks = np.arange(max(low - margin, first), min(high + margin, last + 1))
    rows = np.searchsorted(time_s, origin + ticks / ANGLE_HZ - ROUNDING_S)
    x, y, z = (median_filter(values[rows, column], MEDIAN, mode="nearest") for column in columns)
    own = slice(low - int(ticks[0]), high - int(ticks[0]))
    angle = np.degrees(np.arctan2(z[own], np.hypot(x[own], y[own])))
    place = np.arange(low, high) // per_epoch - epochs[0]
    return np.bincount(place, minlength=count), np.bincount(place, weights=angle, minlength=count)


def _added_up(pieces: Array) -> tuple[Array, ...]:
    """Return number, samples, sums of magnitude, ENMO and MAD, ticks and sum of angles of each epoch, in time order.

    Parts of an epoch on both sides of a gap are added; a MAD is relative to the mean of its part.
    """
    number, place = np.unique(pieces[0], return_inverse=True)
    sums = (np.bincount(place, weights=row, minlength=len(number)) for row in pieces[1:])
    return number, *sums
