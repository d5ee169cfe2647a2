"""Synthetic wearers: a thigh that stands, sits, walks and turns in bed, with the sensor strapped on its own way.

One chain of angles moves the thigh; what the sensor reads follows from it by mechanics. The accelerometer feels gravity
in the thigh's frame and the bounce of the gait, the gyroscope the derivative of the same orientation, so the two agree
in postures, in gait and through every transition. It is made for demonstrations and tests without data: people differ
plausibly, but no claim about real people rests on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sight.datasets._base import Dataset
from sight.types import Array, Recording


class Activity(NamedTuple):
    """How the thigh behaves in one activity, and what comes next."""

    name: str
    median_s: float  # of a bout; durations are log-normal, so a few last very long
    flexion_deg: float  # thigh from the vertical: 0 stands, 90 sits
    twist_deg: tuple[float, ...]  # about the long axis of the thigh; one is drawn for each pose
    sway_deg: float  # slow, aimless movement
    swing_deg: float  # flexion within a stride or a turn of the pedals
    stride_hz: float
    bounce_g: float  # amplitude of the acceleration along the thigh
    follows: tuple[float, ...]  # weights of the next activity, in the order of this table


ACTIVITIES = (
    Activity("lying", 110, 91, (0, 0, -70, 70), 2, 0, 1.0, 0, (0, 6, 2, 2, 0, 0, 0)),
    Activity("sitting", 90, 76, (0,), 3, 0, 1.0, 0, (3, 0, 5, 3, 0, 0, 0)),
    Activity("standing", 35, 3, (0,), 3, 0, 1.0, 0, (1, 3, 0, 5, 3, 2, 3)),
    Activity("walking", 45, 8, (0,), 3, 22, 0.92, 0.28, (1, 3, 4, 0, 5, 3, 2)),
    Activity("stairs", 30, 22, (0,), 4, 26, 0.80, 0.30, (0, 1, 3, 6, 0, 1, 0)),
    Activity("running", 60, 14, (0,), 4, 34, 1.38, 0.95, (0, 1, 3, 6, 1, 0, 0)),
    Activity("cycling", 70, 62, (0,), 3, 21, 1.15, 0.08, (0, 1, 5, 3, 0, 0, 0)),
)

SPREAD = 0.8  # of the logarithm of a bout's duration
SHORTEST_S, LONGEST_S = 5.0, 3600.0
STEADY_S = 45.0  # mean time until a pause, a coasting wheel, a reach for the cup
LAPSE_S = (2.0, 4.0)
LAPSE_SPREAD = 4.0  # how much farther a pose lies from the usual one then
TRANSITION_S = (1.0, 3.0)
HARMONICS = np.arange(1, 6)  # of the stride
UP = np.array([0.0, -1.0, 0.0, 0.0])  # as a quaternion; x points down the standing thigh, y left, z forward
START = datetime(2025, 1, 6, 8, tzinfo=UTC)


class Person(NamedTuple):
    """What makes one wearer differ from another."""

    mounting: Array  # (3, 3) thigh frame to sensor frame
    stride: float  # factor on every stride rate
    gain: Array  # (7,) factor on the movement of each activity
    flexion_deg: Array  # (7,) habit of each activity
    bounce: Array  # (3, H) weight of each harmonic along x, y, z
    phase: Array  # (3, H)
    offset: Array  # (6,) of the sensor: g, then deg/s
    noise: Array  # (6,)


@dataclass(kw_only=True)
class Synthetic(Dataset):
    """Wearers of a six-axis sensor on the thigh, each made from its name and the seed alone.

    Parameters
    ----------
    wearers
        How many there are: "W01", "W02", ...
    hours
        Length of each recording.
    shift
        How much people differ. With 0 they are twins; with 1 a simple classifier that knows four people loses some
        10 to 15 points of macro-F1 on a fifth, against one trained on that person.
    gaps_per_hour
        Missing stretches; the sensor is off for half a minute to some minutes.
    seed
        Another seed, other people.

    Notes
    -----
    People differ in how the sensor sits (a turn about the thigh above all), stride rate, vigour, habits of posture,
    shape of the stride, offset and noise. Activities last log-normal times and follow each other plausibly; within
    one, people pause, coast and fidget. A change is labelled where the movement towards the new activity begins.

    Examples
    --------
    >>> recording = next(Synthetic(hours=0.1).recordings("W01"))
    >>> recording.channels[0], recording.unit[0], recording.values.shape[1], recording.rate_hz
    ('acc_x', 'g', 6, 50.0)
    """

    wearers: int = 12
    hours: float = 1.0
    shift: float = 1.0
    gaps_per_hour: float = 1.0
    seed: int = 0

    name = "synthetic"
    title = "Synthetic wearers of a thigh sensor"
    classes = tuple(activity.name for activity in ACTIVITIES)
    label_map: ClassVar[Mapping[Any, str]] = {activity.name: activity.name for activity in ACTIVITIES}
    channels = ("acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z")
    units = ("g", "g", "g", "deg/s", "deg/s", "deg/s")
    rate_hz = 50.0
    window_s = 2.0
    stride_s = 1.0
    licence = "Apache-2.0"
    citation = "Made by sight; no person was recorded."
    homepage = "made on this machine"
    version = "1"
    # This module is the file all wearers come from, so windows kept on disk follow changes of it.
    files = (Path(__file__).name,)
    places = ("synthetic",)
    pattern = re.escape(Path(__file__).name)

    def __post_init__(self) -> None:
        if not (1 <= self.wearers <= 99 and self.hours > 0 and self.shift >= 0 and self.gaps_per_hour >= 0):
            raise ValueError(
                f"synthetic: expected 1 to 99 wearers, more than 0 hours and no negative shift or gaps, got {self}."
            )

    def _root(self) -> Path:
        return Path(__file__).parent

    @cached_property
    def _index(self) -> dict[str, list[str]]:
        return {f"W{number:02d}": list(self.files) for number in range(1, self.wearers + 1)}

    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:  # noqa: ARG002 - nothing is read
        body, day, sensor = np.random.default_rng([self.seed, int(subject[1:])]).spawn(3)
        person = _person(body, self.shift)
        time_s = np.arange(max(2, round(self.hours * 3600 * self.rate_hz))) / self.rate_hz
        values, labels = _wear(person, time_s, day)
        values += person.offset + person.noise * sensor.normal(size=values.shape)
        on = _on(time_s, self.gaps_per_hour, sensor)
        yield Recording(
            values=values[on].astype(np.float32),
            time_s=time_s[on],
            labels=labels[on],
            channels=self.channels,
            unit=self.units,
            rate_hz=self.rate_hz,
            start=START,
            subject=subject,
            facts={"missing_s": float((~on).sum() / self.rate_hz)},
        )


def _person(rng: np.random.Generator, shift: float) -> Person:
    count = len(ACTIVITIES)
    turn, tilt = shift * np.radians([28.0, 9.0])
    typical = np.array([[0.6, 1.0, 0.35, 0.3, 0.15], [0.45, 0.2, 0.2, 0.1, 0.1], [0.4, 0.6, 0.25, 0.2, 0.1]])
    return Person(
        mounting=_matrix(rng.normal(scale=[turn, tilt, tilt])),
        stride=float(np.exp(rng.normal(scale=0.1 * shift))),
        gain=np.exp(shift * (rng.normal(scale=0.12) + rng.normal(scale=0.1, size=count))),
        flexion_deg=np.array([a.flexion_deg for a in ACTIVITIES]) + rng.normal(scale=5 * shift, size=count),
        bounce=typical * np.exp(rng.normal(scale=0.35 * shift, size=typical.shape)),
        phase=shift * rng.uniform(-1.5, 1.5, size=typical.shape),
        offset=shift * rng.normal(scale=[0.03] * 3 + [1.0] * 3),
        noise=np.array([0.012] * 3 + [0.8] * 3) * np.exp(rng.normal(scale=0.4 * shift)),
    )


class Poses(NamedTuple):
    """The course of a day: one entry for each pose; several make a bout."""

    start_s: Array
    activity: Array
    twist_deg: Array
    flexion_deg: Array
    vigour: Array


def _poses(person: Person, length_s: float, rng: np.random.Generator) -> Poses:
    rows: list[tuple[float, ...]] = []
    now, activity = 0.0, int(rng.integers(len(ACTIVITIES)))
    while now < length_s:
        kind = ACTIVITIES[activity]
        until = now + np.clip(kind.median_s * np.exp(SPREAD * rng.normal()), SHORTEST_S, LONGEST_S)
        lapse = False
        while now < until:
            spread = LAPSE_SPREAD if lapse else 1.0
            flexion = person.flexion_deg[activity] + 3 * spread * rng.normal()
            twist = rng.choice(kind.twist_deg) + 6 * spread * rng.normal()
            vigour = rng.uniform(0, 0.6) if lapse else 1 + 0.08 * rng.normal()
            rows.append((now, activity, twist, flexion, vigour))
            now += rng.uniform(*LAPSE_S) if lapse else max(SHORTEST_S, rng.exponential(STEADY_S))
            lapse, now = not lapse, until if until - now < SHORTEST_S else now
        weights = np.array(kind.follows)
        activity = int(rng.choice(len(ACTIVITIES), p=weights / weights.sum()))
    table = np.array(rows).T
    return Poses(table[0], table[1].astype(np.int64), table[2], table[3], table[4])


class Motion(NamedTuple):
    """What the thigh does at each sample, (n,): angles in degrees, phase of the stride in radians, bounce in g."""

    flexion: Array
    twist: Array
    abduction: Array
    heading: Array
    phase: Array
    bounce: Array


def _wear(person: Person, time_s: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Accelerations in g and rates in deg/s as the sensor feels them, (n, 6), and labels, (n,)."""
    step_s = float(time_s[1] - time_s[0])
    poses = _poses(person, len(time_s) * step_s, rng)
    row = np.searchsorted(poses.start_s, time_s, side="right") - 1
    motion = _motion(person, poses, row, time_s, rng)
    thigh = _turn(0, motion.heading)  # quaternions, thigh to room
    for axis, angle in ((1, -motion.flexion), (2, motion.abduction), (0, motion.twist)):
        thigh = _times(thigh, _turn(axis, angle))
    back = thigh * [1, -1, -1, -1]
    gravity = _times(_times(back, UP), thigh)[:, 1:]
    rate = np.degrees(2 * _times(back, np.gradient(thigh, step_s, axis=0))[:, 1:])
    beats = motion.phase[:, None] * HARMONICS
    shake = np.column_stack([np.cos(beats + person.phase[i]) @ person.bounce[i] for i in range(3)])
    felt = gravity + motion.bounce[:, None] * shake
    return np.hstack([felt @ person.mounting, rate @ person.mounting]), poses.activity[row]


def _motion(person: Person, poses: Poses, row: Array, time_s: Array, rng: np.random.Generator) -> Motion:
    table = np.array([(a.sway_deg, a.swing_deg, a.bounce_g, a.stride_hz) for a in ACTIVITIES])[poses.activity]
    table[:, 1:3] *= (person.gain[poses.activity] * poses.vigour)[:, None]
    targets = np.column_stack([poses.flexion_deg, poses.twist_deg, table])
    flexion, twist, sway, swing, bounce, stride = _eased(targets, poses.start_s, row, time_s, rng).T
    haste, effort, *drift = (_wander(time_s, rng) for _ in range(5))
    effort = 1 + 0.12 * effort
    swing = swing * effort
    phase = 2 * np.pi * np.cumsum(stride * person.stride * (1 + 0.05 * haste)) * (time_s[1] - time_s[0])
    return Motion(
        flexion=flexion + swing * (np.sin(phase) + 0.2 * np.sin(2 * phase)) + sway * drift[0],
        twist=twist + 0.15 * swing * np.sin(phase + 1) + sway * drift[1],
        abduction=0.12 * swing * np.cos(phase) + sway * drift[2],
        heading=60 * _wander(time_s / 20, rng),
        phase=phase,
        bounce=bounce * effort,
    )


def _eased(targets: Array, start_s: Array, row: Array, time_s: Array, rng: np.random.Generator) -> Array:
    """Follow the targets; after each start move to the new one along a smooth step of one to three seconds."""
    lasts = np.minimum(rng.uniform(*TRANSITION_S, size=len(start_s)), np.diff(start_s, append=np.inf))
    u = np.clip((time_s - start_s[row]) / lasts[row], 0, 1)
    share = u**3 * (10 - 15 * u + 6 * u**2)
    before = targets[np.maximum(row - 1, 0)]
    eased: Array = before + share[:, None] * (targets[row] - before)
    return eased


def _wander(time_s: Array, rng: np.random.Generator, waves: int = 6) -> Array:
    """Aimless smooth movement of unit variance, slower than 0.3 Hz."""
    rates, phases = rng.uniform(0.02, 0.3, size=waves), rng.uniform(0, 2 * np.pi, size=waves)
    total = np.zeros(len(time_s))
    for rate, phase in zip(rates, phases, strict=True):
        total += np.sin(2 * np.pi * rate * time_s + phase)
    return total * float(np.sqrt(2 / waves))


def _on(time_s: Array, gaps_per_hour: float, rng: np.random.Generator) -> Array:
    """Where the sensor was on."""
    length_s = time_s[-1]
    count = rng.poisson(gaps_per_hour * length_s / 3600)
    first = np.searchsorted(time_s, rng.uniform(0.02, 0.98, size=count) * length_s)
    last = np.searchsorted(time_s, time_s[first] + 30 * np.exp(0.8 * np.abs(rng.normal(size=count))))
    edges = np.zeros(len(time_s) + 1, dtype=np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, last, -1)
    on: Array = np.cumsum(edges[:-1]) == 0
    return on


def _turn(axis: int, angle_deg: Array) -> Array:
    """Rotation about one axis as quaternions, (n, 4)."""
    half = np.radians(angle_deg) / 2
    turn = np.zeros((len(half), 4))
    turn[:, 0], turn[:, 1 + axis] = np.cos(half), np.sin(half)
    return turn


def _times(a: Array, b: Array) -> Array:
    """Product of quaternions, the later rotation on the right."""
    w, x, y, z = np.moveaxis(a, -1, 0)
    p, q, r, s = np.moveaxis(b, -1, 0)
    parts = (w * p - x * q - y * r - z * s, w * q + x * p + y * s - z * r)
    return np.stack([*parts, w * r - x * s + y * p + z * q, w * s + x * r - y * q + z * p], axis=-1)


def _matrix(turn: Array) -> Array:
    """Rotation matrix of a turn given as axis times angle (Rodrigues)."""
    angle = float(np.linalg.norm(turn))
    x, y, z = turn / max(angle, 1e-12)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    matrix: Array = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return matrix
