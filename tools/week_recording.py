"""Writes a week of a wrist device at 100 Hz, made of real WISDM segments of one subject: ``week.parquet``.

``SIGHT_DATA=... python -m tools.week_recording OUT/`` writes the recording, and ``diary.csv`` with the activity of each
bout. The week begins on a Tuesday morning in Berlin and contains the change to summer time, nights with and without the
device, a weekend, an afternoon without the device and a morning without data. Bouts repeat the recorded segments of
their activity, so the week shows how reports look and not how well a model works on free living. Nights are made up: an
arm that lies still, and is turned every few minutes.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from sight.types import Array

ZONE = ZoneInfo("Europe/Berlin")
START = datetime(2024, 3, 26, 9, tzinfo=ZONE)
DAYS = 7
SUBJECT = "1604"
G = 9.80665
#: Resolution of the stored samples in g, as of common devices; it keeps the file small.
STEP_G = 1 / 256
NON_WEAR, GAP, SLEEP = "not worn", "no data", "sleep"
#: In sleep: mean minutes between two turns of the arm, seconds that a turn lasts, and noise at rest and in a turn in g.
TURN_MIN, TURN_S, REST_G, TURN_G = 14.0, 12.0, 0.004, 0.08


class Phase(NamedTuple):
    """Part of a day: its end as hour of the day, mean length of a bout in minutes, and weights of activities."""

    end_h: float
    mean_min: float
    weights: dict[str, float]


MORNING = {"standing": 3.0, "teeth": 1, "sitting": 2, "sandwich": 1, "drinking": 1, "walking": 1}
DESK = {"typing": 6.0, "sitting": 4, "writing": 1, "standing": 1, "walking": 1, "stairs": 0.4, "drinking": 0.3}
LUNCH = {"pasta": 1.0, "soup": 1, "walking": 1.5, "sitting": 2, "stairs": 0.5}
HOME = {"sitting": 7.0, "standing": 2, "folding": 1, "walking": 1, "chips": 0.4, "pasta": 0.5}
OUTDOORS = {"walking": 5.0, "standing": 2, "sitting": 2, "stairs": 0.5, "catch": 0.3, "kicking": 0.3}
WORKDAY = (
    *(Phase(7, 60, {SLEEP: 1}), Phase(8.2, 6, MORNING), Phase(8.6, 20, {"walking": 1})),
    *(Phase(12, 14, DESK), Phase(13, 9, LUNCH), Phase(17, 14, DESK), Phase(17.5, 20, {"walking": 1})),
    *(Phase(23, 12, HOME), Phase(24, 60, {SLEEP: 1})),
)
WEEKEND = (
    *(Phase(8.5, 60, {SLEEP: 1}), Phase(10, 7, MORNING), Phase(14, 15, OUTDOORS), Phase(23, 16, HOME)),
    Phase(24, 60, {SLEEP: 1}),
)
#: (day of the week, from hour, to hour, activity): exceptions from the usual days.
EXCEPTIONS = (
    *((3, 18.0, 18.6, "jogging"), (5, 11.0, 11.8, "jogging")),
    *((4, 0.0, 6.8, NON_WEAR), (4, 12.5, 20.0, NON_WEAR), (0, 0.0, 6.5, NON_WEAR), (0, 9.0, 12.25, GAP)),
)


def plan(seed: int = 0) -> Iterator[tuple[float, float, str]]:
    """Yield start and end in seconds since `START`, and activity, of each bout of the week."""
    rng = np.random.default_rng(seed)
    for number in range(DAYS + 1):
        day = (START + timedelta(days=number)).replace(hour=0, tzinfo=None)
        bouts = [(a, b, name) for weekday, a, b, name in EXCEPTIONS if weekday == day.weekday()]
        hour = 0.0
        for phase in WEEKEND if day.weekday() >= 5 else WORKDAY:
            names, weights = list(phase.weights), np.array(list(phase.weights.values()))
            while hour < phase.end_h:
                length = max(1.0, float(rng.exponential(phase.mean_min))) / 60
                activity = str(rng.choice(names, p=weights / weights.sum()))
                bouts.append((hour, min(hour + length, phase.end_h), activity))
                hour = min(hour + length, phase.end_h)
        yield from _without_overlaps(day, bouts)


def _without_overlaps(day: datetime, bouts: list[tuple[float, float, str]]) -> Iterator[tuple[float, float, str]]:
    """Yield the bouts of a day in time order; earlier entries of the list have precedence."""
    edges = sorted({edge for a, b, _ in bouts for edge in (a, b)})
    for low, high in pairwise(edges):
        activity = next(name for a, b, name in bouts if a <= low and high <= b)
        start, end = (_elapsed(day + timedelta(hours=hour)) for hour in (low, high))
        start, end = max(start, 0.0), min(end, DAYS * 86400.0)
        if start < end:
            yield start, end, activity


def _elapsed(local: datetime) -> float:
    return (local.replace(tzinfo=ZONE).astimezone(UTC) - START.astimezone(UTC)).total_seconds()


def segments(subject: str) -> tuple[dict[str, Array], float]:
    """Return the samples of each activity of a subject in g, (n, 3), and their rate."""
    from sight.datasets import load

    dataset = load("wisdm2019")
    parts: dict[str, list[Array]] = {}
    for recording in dataset.recordings(subject):
        for k in np.unique(recording.labels[recording.labels >= 0]).tolist():
            parts.setdefault(dataset.classes[k], []).append(recording.values[recording.labels == k] / G)
    return {name: np.concatenate(values) for name, values in parts.items()}, dataset.rate_hz


def samples(activity: str, time_s: Array, source: dict[str, Array], rate_hz: float, rng: Any) -> Array:
    """Return the samples (n, 3) of a bout at the times (n,) in seconds."""
    if activity == NON_WEAR:
        return np.array([0.02, -0.03, 1.0]) + rng.normal(0, 0.002, (len(time_s), 3))
    if activity == SLEEP:
        return _sleep(time_s, rng)
    values = source[activity]
    place = rng.uniform(0, len(values)) + (time_s - time_s[0]) * rate_hz
    low = place.astype(np.int64)
    share = (place - low)[:, None]
    mixed: Array = values[low % len(values)] * (1 - share) + values[(low + 1) % len(values)] * share
    return mixed


def _sleep(time_s: Array, rng: Any) -> Array:
    """Return the samples (n, 3) of an arm that rests in a few directions, one after another."""
    lengths_s = 60 * np.maximum(rng.exponential(TURN_MIN, size=2 + int((time_s[-1] - time_s[0]) / 60)), 2)
    turns_s = time_s[0] + np.cumsum(lengths_s)
    directions = rng.normal(size=(len(turns_s) + 1, 3)) * [0.5, 1.0, 0.7]  # the forearm rarely points up
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    number = np.searchsorted(turns_s, time_s)
    since_s = time_s - np.append(time_s[0] - TURN_S, turns_s)[number]
    share = np.clip(since_s / TURN_S, 0, 1)[:, None]
    before = directions[np.maximum(number - 1, 0)]
    mixed = before + (directions[number] - before) * share
    noise = rng.normal(size=mixed.shape) * np.where(share < 1, TURN_G, REST_G)
    lying: Array = mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), 0.2) + noise
    return lying


def main() -> None:
    """Write the week."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rate", type=float, default=100.0, help="samples per second")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    source, rate_hz = segments(SUBJECT)
    rng = np.random.default_rng(1)
    names = ("x", "y", "z")
    schema = pa.schema([("time", pa.timestamp("ms", tz=ZONE.key)), *((name, pa.float32()) for name in names)])
    with (
        pq.ParquetWriter(arguments.out / "week.parquet", schema, compression="zstd") as table,
        (arguments.out / "diary.csv").open("w", newline="", encoding="utf-8") as stream,
    ):
        diary = csv.writer(stream)
        diary.writerow(("start", "end", "label"))
        for start, end, activity in plan():
            moments = (START.astimezone(UTC) + timedelta(seconds=second) for second in (start, end))
            diary.writerow((*(m.astimezone(ZONE).isoformat(timespec="milliseconds") for m in moments), activity))
            if activity == GAP:
                continue
            index = np.arange(np.ceil(start * arguments.rate), np.ceil(end * arguments.rate))
            values = samples(activity, index / arguments.rate, source, rate_hz, rng)
            stored = (np.rint(values / STEP_G) * STEP_G).astype(np.float32)
            time_ms = (START.timestamp() * 1000 + np.rint(1000 * index / arguments.rate)).astype(np.int64)
            columns = [pa.array(time_ms, schema.field("time").type), *(pa.array(stored[:, i]) for i in range(3))]
            table.write_table(pa.table(columns, schema=schema))


if __name__ == "__main__":
    main()
