"""Compare nights, sleep, arm angle and ENMO with other implementations: scikit-digital-health and wristpy.

Their packages conflict with the pinned versions of `sight`, so they have an environment of their own::

    python -m venv /tmp/sleep && /tmp/sleep/bin/pip install -e ".[data]" scikit-digital-health wristpy
    SIGHT_DATA=... /tmp/sleep/bin/python -m benchmarks.nights.compare -o benchmarks/results/nights.json FILE ...

Compared are made weeks (`tools.week_recording`) and the given device files. scikit-digital-health finds sleep periods
by the same published method; its limits are set to the published ones, its own check of wear is off, and it is given
the times without wear, which `sight` finds by itself. wristpy computes ENMO, the angle and sustained inactivity, the
latter for fixed intervals of five minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.version_and_date import version_and_date

from sight.recordings.recording_files import read
from sight.recordings.signal.clock import drop_invalid
from sight.recordings.signal.epochs import find_epochs
from sight.recordings.signal.nights import Night, find_nights, find_sleep
from sight.recordings.signal.nonwear import find_nonwear
from sight.types import EPOCH_S, Array, Epochs, Recording
from tools import week_recording as week

#: Seeds of the made weeks, and their rate.
SEEDS, RATE_HZ = (0, 1, 2), 50.0


def made_week(seed: int) -> tuple[Recording, Array]:
    """Return a week of the plan with this seed, without time that has no data, and whether each sample was worn."""
    source, rate_hz = week.segments(week.SUBJECT)
    rng = np.random.default_rng(seed)
    values, times, worn = [], [], []
    for start, end, activity in week.plan(seed):
        if activity != week.GAP:
            index = np.arange(np.ceil(start * RATE_HZ), np.ceil(end * RATE_HZ))
            values.append(week.samples(activity, index / RATE_HZ, source, rate_hz, rng).astype(np.float32))
            times.append(index / RATE_HZ)
            worn.append(np.full(len(index), activity != week.NON_WEAR))
    recording = Recording(
        values=np.concatenate(values),
        time_s=np.concatenate(times),
        channels=("x", "y", "z"),
        unit="g",
        rate_hz=RATE_HZ,
        start=week.START,
    )
    return recording, np.concatenate(worn)


def read_device(path: Path) -> tuple[Recording, Array]:
    recording, _ = drop_invalid(read(path))
    recording = replace(recording, values=recording.values[:, :3], channels=("x", "y", "z"), unit="g")
    return recording, np.ones(len(recording.time_s), bool)


def local_noons(recording: Recording) -> list[tuple[float, float]]:
    start = recording.start
    assert start is not None
    first = datetime(start.year, start.month, start.day, 12, tzinfo=start.tzinfo) - timedelta(days=1)
    days = range(int(recording.time_s[-1] // 86400) + 3)
    return list(pairwise((first + timedelta(days=k)).timestamp() - start.timestamp() for k in days))


def period_by_skdh(recording: Recording, worn: Array, noon_s: float, next_s: float) -> tuple[float, float] | None:
    """Return start and end of the sleep period between two noons as found by scikit-digital-health."""
    from skdh.sleep import Sleep

    low, high = np.searchsorted(recording.time_s, (noon_s, next_s))
    time_s = recording.time_s[low:high]
    assert recording.start is not None
    # As if the wearer lived in UTC: noon is noon, and the clock does not change
    unix = time_s - noon_s + datetime(2024, 1, 1, 12, tzinfo=UTC).timestamp()
    steps = np.diff(np.concatenate(([0], worn[low:high].astype(np.int8), [0])))
    periods = np.stack((np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1), axis=1)
    limits = {"tso_min_thresh": 0.13, "tso_max_thresh": 0.50, "internal_wear_move_thresh": 0.0}
    found = Sleep(**limits, downsample=False).predict(
        time=unix,
        accel=recording.values[low:high].astype(np.float64),
        fs=recording.rate_hz,
        wear=periods,
        day_ends={(12, 24): np.array([[0, high - low - 1]])},
    )
    start, minutes = found["TSO Start Timestamp"][0], found["TSO Duration"][0]
    if start is None or not np.isfinite(start):
        return None
    onset = float(start) - unix[0] + float(time_s[0])
    return onset, onset + 60 * float(minutes)


def compare_nights(recording: Recording, epochs: Epochs, worn: Array) -> Iterator[dict[str, Any]]:
    noons = dict(local_noons(recording))
    for night in find_nights(epochs, noons.items()):
        next_s = noons[night.noon_s]
        low, high = np.searchsorted(recording.time_s, (night.noon_s, next_s))
        gap_s = float(np.diff(recording.time_s[low:high]).max())
        if gap_s > 60:  # scikit-digital-health needs regular samples
            continue
        other = period_by_skdh(recording, worn, night.noon_s, next_s)
        yield {"night": _clock(recording, night.noon_s)[:10]} | _agreement(recording, night, other, next_s)


def _agreement(recording: Recording, night: Night, other: tuple[float, float] | None, next_s: float) -> dict[str, Any]:
    row: dict[str, Any] = {"ours": _period(recording, night), "theirs": None, "epochs_equal": None}
    if other is not None:
        row["theirs"] = [_clock(recording, moment) for moment in other]
    if other is None or not night.is_found:
        return row
    moment = np.arange(night.noon_s, next_s, EPOCH_S) + EPOCH_S / 2
    both = [(low <= moment) & (moment < high) for low, high in (other, (night.onset_s, night.wake_s))]
    return row | {
        "onset_difference_min": round((night.onset_s - other[0]) / 60, 2),
        "wake_difference_min": round((night.wake_s - other[1]) / 60, 2),
        "epochs_equal": round(float((both[0] == both[1]).mean()), 5),
    }


def _period(recording: Recording, night: Night) -> list[str] | None:
    return [_clock(recording, moment) for moment in (night.onset_s, night.wake_s)] if night.is_found else None


def _clock(recording: Recording, second: float) -> str:
    assert recording.start is not None
    moment = recording.start.astimezone(UTC) + timedelta(seconds=float(second))
    return moment.astimezone(recording.start.tzinfo).isoformat(timespec="seconds")


def compare_epochs(recording: Recording, epochs: Epochs) -> dict[str, Any]:
    """Compare ENMO, angle and sustained inactivity of each epoch with wristpy, where both have an epoch."""
    import polars as pl
    from wristpy.core import computations, models
    from wristpy.processing import analytics, metrics

    # Epochs of both begin at multiples of five seconds; wristpy's count from 1970.
    moments = pl.Series((1e9 * (recording.time_s - epochs.time_s[0] + 1e6)).astype(np.int64)).cast(pl.Datetime("ns"))
    samples = models.Measurement(measurements=recording.values.astype(np.float64), time=moments)
    enmo = metrics.euclidean_norm_minus_one(samples)
    angle = metrics.angle_relative_to_horizontal(computations.moving_median(samples, 5))
    still = analytics.GgirSleepDetection(angle).run_sleep_detection().sib_periods
    own = np.rint((epochs.time_s - epochs.time_s[0]) / EPOCH_S).astype(np.int64)

    def place(found: Any) -> Array:
        return np.rint((found.time.cast(pl.Int64).to_numpy() / 1e9 - 1e6) / EPOCH_S).astype(np.int64)

    _, ours, theirs = np.intersect1d(own, place(enmo), return_indices=True)
    enmo_mg = 1000 * np.asarray(enmo.measurements).ravel()[theirs]
    angle_deg = np.asarray(angle.measurements).ravel()[theirs]
    inactive = np.zeros(own[-1] + 200, bool)
    for first in place(still)[np.asarray(still.measurements).ravel() == 1]:
        inactive[max(first, 0) : first + 60] = True
    asleep, inactive = find_sleep(epochs)[ours], inactive[own[ours]]
    difference = np.abs(epochs.angle_deg[ours] - angle_deg)
    return {
        "epochs": len(ours),
        "enmo_largest_difference_mg": round(float(np.abs(epochs.enmo_mg[ours] - enmo_mg).max()), 5),
        "angle_median_difference_deg": round(float(np.median(difference)), 4),
        "angle_p99_difference_deg": round(float(np.percentile(difference, 99)), 3),
        "inactive_share": [round(float(mask.mean()), 4) for mask in (asleep, inactive)],
        "inactive_equal": round(float((asleep == inactive).mean()), 4),
        "their_inactivity_in_ours": round(float(asleep[inactive].mean()), 5) if inactive.any() else None,
    }


def main() -> None:
    """Write the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    packages = ("scikit-digital-health", "wristpy", "numpy", "scipy")
    report: dict[str, Any] = {**version_and_date(), "versions": {name: version(name) for name in packages}}
    recordings = [(f"week, seed {seed}", partial(made_week, seed)) for seed in SEEDS]
    recordings += [(path.name, partial(read_device, path)) for path in arguments.files]
    for name, load in recordings:
        recording, worn = load()
        nonwear, _ = find_nonwear(recording)
        epochs = find_epochs(recording, nonwear)
        assert epochs is not None, name
        nights = list(compare_nights(recording, epochs, worn))
        report[name] = {"nights": nights, "epochs": compare_epochs(recording, epochs)}
        print(name, json.dumps(report[name], indent=1))
    arguments.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
