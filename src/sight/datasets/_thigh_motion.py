"""Mechanical model of a thigh sensor, behind the synthetic dataset.

The movement of the thigh is a chain of angles; the sensor signals follow from it by mechanics. The accelerometer
measures gravity in the frame of the thigh and the bounce of the gait, the gyroscope the derivative of the same
orientation, so both agree in postures, gait and transitions.
"""

from typing import NamedTuple

import numpy as np

from sight.types import Array


class Activity(NamedTuple):
    """Movement of the thigh in one activity, and the activities that follow it."""

    name: str
    median_s: float  # of a bout; durations are log-normal
    flexion_deg: float  # thigh from the vertical: 0 standing, 90 sitting
    twist_deg: tuple[float, ...]  # about the long axis of the thigh; one is drawn for each pose
    sway_deg: float  # slow random movement
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

SPREAD = 0.8  # standard deviation of the logarithm of a bout's duration
SHORTEST_S, LONGEST_S = 5.0, 3600.0
STEADY_S = 45.0  # mean time until a lapse: a pause, a coasting wheel, a reach for a cup
LAPSE_S = (2.0, 4.0)
LAPSE_SPREAD = 4.0  # factor on the deviation from the usual pose during a lapse
TRANSITION_S = (1.0, 3.0)
HARMONICS = np.arange(1, 6)  # of the stride
UP = np.array([0.0, -1.0, 0.0, 0.0])  # as a quaternion; x points down the standing thigh, y left, z forward


class Wearer(NamedTuple):
    mounting: Array  # (3, 3) thigh frame to sensor frame
    stride: float  # factor on every stride rate
    gain: Array  # (7,) factor on the movement of each activity
    flexion_deg: Array  # (7,) usual flexion in each activity
    bounce: Array  # (3, H) weight of each harmonic along x, y, z
    phase: Array  # (3, H)
    offset: Array  # (6,) of the sensor: g, then deg/s
    noise: Array  # (6,)


def draw_wearer(rng: np.random.Generator, shift: float) -> Wearer:
    """Draw the properties of a wearer; with `shift` 0 all wearers are equal."""
    count = len(ACTIVITIES)
    turn, tilt = shift * np.radians([28.0, 9.0])
    typical = np.array([[0.6, 1.0, 0.35, 0.3, 0.15], [0.45, 0.2, 0.2, 0.1, 0.1], [0.4, 0.6, 0.25, 0.2, 0.1]])
    return Wearer(
        mounting=_rotation_matrix(rng.normal(scale=[turn, tilt, tilt])),
        stride=float(np.exp(rng.normal(scale=0.1 * shift))),
        gain=np.exp(shift * (rng.normal(scale=0.12) + rng.normal(scale=0.1, size=count))),
        flexion_deg=np.array([a.flexion_deg for a in ACTIVITIES]) + rng.normal(scale=5 * shift, size=count),
        bounce=typical * np.exp(rng.normal(scale=0.35 * shift, size=typical.shape)),
        phase=shift * rng.uniform(-1.5, 1.5, size=typical.shape),
        offset=shift * rng.normal(scale=[0.03] * 3 + [1.0] * 3),
        noise=np.array([0.012] * 3 + [0.8] * 3) * np.exp(rng.normal(scale=0.4 * shift)),
    )


class Poses(NamedTuple):
    """Sequence of poses; several make a bout of an activity."""

    start_s: Array
    activity: Array
    twist_deg: Array
    flexion_deg: Array
    vigour: Array


def _poses(wearer: Wearer, length_s: float, rng: np.random.Generator) -> Poses:
    rows: list[tuple[float, ...]] = []
    start, activity = 0.0, int(rng.integers(len(ACTIVITIES)))
    while start < length_s:
        kind = ACTIVITIES[activity]
        until = start + np.clip(kind.median_s * np.exp(SPREAD * rng.normal()), SHORTEST_S, LONGEST_S)
        lapse = False
        while start < until:
            spread = LAPSE_SPREAD if lapse else 1.0
            flexion = wearer.flexion_deg[activity] + 3 * spread * rng.normal()
            twist = rng.choice(kind.twist_deg) + 6 * spread * rng.normal()
            vigour = rng.uniform(0, 0.6) if lapse else 1 + 0.08 * rng.normal()
            rows.append((start, activity, twist, flexion, vigour))
            start += rng.uniform(*LAPSE_S) if lapse else max(SHORTEST_S, rng.exponential(STEADY_S))
            lapse, start = not lapse, until if until - start < SHORTEST_S else start
        weights = np.array(kind.follows)
        activity = int(rng.choice(len(ACTIVITIES), p=weights / weights.sum()))
    table = np.array(rows).T
    return Poses(table[0], table[1].astype(np.int64), table[2], table[3], table[4])


def simulate(wearer: Wearer, time_s: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return acceleration in g and rotation in deg/s of the sensor, (n, 6), and labels, (n,)."""
    step_s = float(time_s[1] - time_s[0])
    poses = _poses(wearer, len(time_s) * step_s, rng)
    row = np.searchsorted(poses.start_s, time_s, side="right") - 1
    flexion, twist, abduction, heading, phase, bounce = _motion(wearer, poses, row, time_s, rng)
    thigh = _rotation(0, heading)  # quaternions, thigh to world
    for axis, angle in ((1, -flexion), (2, abduction), (0, twist)):
        thigh = _product(thigh, _rotation(axis, angle))
    back = thigh * [1, -1, -1, -1]
    gravity = _product(_product(back, UP), thigh)[:, 1:]
    rate = np.degrees(2 * _product(back, np.gradient(thigh, step_s, axis=0))[:, 1:])
    beats = phase[:, None] * HARMONICS
    shake = np.column_stack([np.cos(beats + wearer.phase[i]) @ wearer.bounce[i] for i in range(3)])
    acceleration = gravity + bounce[:, None] * shake
    return np.hstack([acceleration @ wearer.mounting, rate @ wearer.mounting]), poses.activity[row]


def _motion(wearer: Wearer, poses: Poses, row: Array, time_s: Array, rng: np.random.Generator) -> tuple[Array, ...]:
    """Return flexion, twist, abduction, heading (degrees), phase of the stride (radians) and bounce (g), each (n,)."""
    table = np.array([(a.sway_deg, a.swing_deg, a.bounce_g, a.stride_hz) for a in ACTIVITIES])[poses.activity]
    table[:, 1:3] *= (wearer.gain[poses.activity] * poses.vigour)[:, None]
    targets = np.column_stack([poses.flexion_deg, poses.twist_deg, table])
    flexion, twist, sway, swing, bounce, stride = _eased(targets, poses.start_s, row, time_s, rng).T
    haste, effort, *drift = (_drift(time_s, rng) for _ in range(5))
    effort = 1 + 0.12 * effort
    swing = swing * effort
    phase = 2 * np.pi * np.cumsum(stride * wearer.stride * (1 + 0.05 * haste)) * (time_s[1] - time_s[0])
    flexion = flexion + swing * (np.sin(phase) + 0.2 * np.sin(2 * phase)) + sway * drift[0]
    twist = twist + 0.15 * swing * np.sin(phase + 1) + sway * drift[1]
    abduction = 0.12 * swing * np.cos(phase) + sway * drift[2]
    return flexion, twist, abduction, 60 * _drift(time_s / 20, rng), phase, bounce * effort


def _eased(targets: Array, start_s: Array, row: Array, time_s: Array, rng: np.random.Generator) -> Array:
    """Return the targets over time, with a smooth transition of one to three seconds after each start."""
    lasts = np.minimum(rng.uniform(*TRANSITION_S, size=len(start_s)), np.diff(start_s, append=np.inf))
    u = np.clip((time_s - start_s[row]) / lasts[row], 0, 1)
    share = u**3 * (10 - 15 * u + 6 * u**2)
    before = targets[np.maximum(row - 1, 0)]
    return np.asarray(before + share[:, None] * (targets[row] - before))


def _drift(time_s: Array, rng: np.random.Generator, waves: int = 6) -> Array:
    """Return smooth random movement of unit variance, slower than 0.3 Hz."""
    rates, phases = rng.uniform(0.02, 0.3, size=waves), rng.uniform(0, 2 * np.pi, size=waves)
    total = np.zeros(len(time_s))
    for rate, phase in zip(rates, phases, strict=True):
        total += np.sin(2 * np.pi * rate * time_s + phase)
    return total * float(np.sqrt(2 / waves))


def draw_on(time_s: Array, gaps_per_hour: float, rng: np.random.Generator) -> Array:
    """Return at which samples the sensor is on; it is off for half a minute to some minutes at a time."""
    length_s = time_s[-1]
    count = rng.poisson(gaps_per_hour * length_s / 3600)
    first = np.searchsorted(time_s, rng.uniform(0.02, 0.98, size=count) * length_s)
    last = np.searchsorted(time_s, time_s[first] + 30 * np.exp(0.8 * np.abs(rng.normal(size=count))))
    edges = np.zeros(len(time_s) + 1, dtype=np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, last, -1)
    return np.asarray(np.cumsum(edges[:-1]) == 0)


def _rotation(axis: int, angle_deg: Array) -> Array:
    """Return rotations about one axis as quaternions, (n, 4)."""
    half = np.radians(angle_deg) / 2
    turn = np.zeros((len(half), 4))
    turn[:, 0], turn[:, 1 + axis] = np.cos(half), np.sin(half)
    return turn


def _product(a: Array, b: Array) -> Array:
    """Return the product of quaternions; the right rotation is applied first in the local frame."""
    w, x, y, z = np.moveaxis(a, -1, 0)
    p, q, r, s = np.moveaxis(b, -1, 0)
    parts = (w * p - x * q - y * r - z * s, w * q + x * p + y * s - z * r)
    return np.stack([*parts, w * r - x * s + y * p + z * q, w * s + x * r - y * q + z * p], axis=-1)


def _rotation_matrix(turn: Array) -> Array:
    angle = float(np.linalg.norm(turn))
    x, y, z = turn / max(angle, 1e-12)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross)
