"""Out-of-domain check: whether windows of acceleration look like those of a model's training, and what may be wrong.

A window is summarised by eight numbers: mean and standard deviation of each axis, standard deviation of the magnitude,
and mean frequency of the movement. The windows of training are summarised by `CENTRES` points. A window that is
further from all of them than nearly every window of training is unfamiliar. A recording is out of domain if its share
of unfamiliar windows is far above that of any training subject whose windows were left out. Windows are compared one by
one, so it does not matter how often each activity occurs.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sight._util.unit_conversion import ACCELERATION, accelerometer_axes
from sight.models.card import ModelCard
from sight.types import Array, Warning

#: Points that summarise the windows of training, and windows they are computed from.
CENTRES, SAMPLE = 64, 4000
#: Share of the windows of training within the radius of a point.
COVERED = 0.98
#: A recording is out of domain above this multiple of the largest share of a left-out subject, and above this share.
MARGIN, LEAST_SHARE = 2.0, 0.2
#: A recording of fewer seconds, which may hold a single activity, is out of domain above this share at least; the share
#: also serves models of one training subject, whose spread between subjects is unknown.
LONG_S, SHORT_SHARE = 1200, 0.5
#: Groups of training subjects that are left out in turn.
GROUPS = 8
#: Windows below `STILL` g of standard deviation have no frequency; windows above `MOVING` g count as movement.
STILL, MOVING = 0.02, 0.1
#: Fewest windows for a warning, and fewest seconds of movement for one about its direction.
FEWEST, LEAST_MOVING_S = 40, 1500
#: Weights of mean (g), log10 of deviations (g) and log10 of frequency (Hz) in distances.
WEIGHTS = np.array([2, 2, 2, 1, 1, 1, 1, 2], np.float32)
#: Range of the median magnitude of the mean acceleration that is taken for gravity, in g.
GRAVITY = (0.7, 1.4)
#: A smaller magnitude at rest, in g, means that gravity was removed, if no other unit explains it.
GRAVITY_FREE = 0.3


@dataclass(frozen=True, eq=False)
class Domain:
    """What the windows of training looked like.

    `mounts` are the orientations that training covered: "fixed", as recorded; "wrist", x and y swapped and any axis
    flipped; "any", all axes permuted and flipped.
    """

    channels: tuple[str, ...]  # names of the accelerometer's axes
    columns: list[int]
    unit_g: float  # size of its unit in g
    rate_hz: float
    stride_s: float  # distance between windows
    mounts: str
    centres: Array  # (K, 8)
    radius: float  # largest distance of a familiar window from the nearest centre
    alarm_share: float  # share of unfamiliar windows above which a recording is out of domain
    steady: float  # largest length, over subjects, of the mean direction of acceleration while moving; 1 if constant

    @classmethod
    def of(cls, card: ModelCard) -> Self | None:
        axes = accelerometer_axes(card.units)
        if axes is None or not card.domain:
            return None
        numbers = ("radius", "alarm_share", "steady")
        try:
            return cls(
                channels=tuple(card.channels[column] for column in axes[0]),
                columns=axes[0],
                unit_g=axes[1],
                rate_hz=card.rate_hz,
                stride_s=card.stride_s,
                mounts=str(card.domain["mounts"]),
                centres=np.array(card.domain["centres"], np.float32).reshape(-1, len(WEIGHTS)),
                **{name: float(card.domain[name]) for name in numbers},
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"Model card: domain is damaged ({error!r}); export the model again.") from None

    def statistics(self, x: Array) -> Array:
        """Return the eight numbers of each window (N, C, T), as (N, 8) float32."""
        return window_statistics(x[:, self.columns] * np.float32(self.unit_g), self.rate_hz)

    @property
    def has_gravity(self) -> bool:
        """Whether the acceleration of training contained gravity."""
        means = np.linalg.norm(self.centres[:, :3] / WEIGHTS[:3], axis=1)
        return bool(np.median(means) > GRAVITY_FREE)

    def unfamiliar(self, statistics: Array) -> float:
        return float((_distances(_points(statistics, self.mounts), self.centres) > self.radius).mean())

    def warnings(self, statistics: Array) -> list[Warning]:
        """Return what does not look like training, with the likely cause; nothing for too few windows."""
        if len(statistics) < FEWEST:
            return []
        share = self.unfamiliar(statistics)
        if share > (
            self.alarm_share if len(statistics) * self.stride_s >= LONG_S else max(self.alarm_share, SHORT_SHARE)
        ):
            return [self._out_of_domain(share, statistics)]
        moving = statistics[_movement(statistics) > MOVING]
        length = _steadiness(moving)
        if len(moving) * self.stride_s >= LEAST_MOVING_S and length > (1 + self.steady) / 2:
            text = (
                f"The sensor hardly changes its direction while it moves ({length:.2f} of 1, in training at most "
                f"{self.steady:.2f}); is it worn at another place, or does the recording hold a single activity?"
            )
            return [Warning(kind="domain", severity="warning", text=text)]
        return []

    def _out_of_domain(self, share: float, statistics: Array) -> Warning:
        found = f"{share:.0%} of the windows look like none of the training windows"
        gravity = float(np.median(np.linalg.norm(statistics[:, :3], axis=1)))
        if not GRAVITY[0] < gravity < GRAVITY[1]:
            guess, remedy = gravity_guess(gravity)
            text = f"{found}; the mean acceleration is {gravity:.3g} g instead of 1 g{f': {guess}' if guess else '.'}"
            return Warning(kind="unit", severity="error", text=text, remedy=remedy)
        for turned, axes in self._turned(statistics):
            if self.unfamiliar(turned) <= self.alarm_share / 2:
                text = f"{found}; they would fit with the axes {axes}: is the sensor turned, or are columns mixed up?"
                return Warning(kind="domain", severity="warning", text=text)
        return Warning(
            kind="domain",
            severity="warning",
            text=f"{found}; is the sensor at another place of the body, or turned?",
            remedy="If it is at another place, train a model for that place.",
        )

    def _turned(self, statistics: Array) -> Iterator[tuple[Array, str]]:
        signs = itertools.product((1, -1), repeat=3) if self.mounts == "fixed" else [(1, 1, 1)]
        turns = list(itertools.product(itertools.permutations(range(3)), signs)) if self.mounts != "any" else []
        turns.sort(key=lambda turn: sum(a != b for a, b in zip(turn[0], range(3), strict=True)) + turn[1].count(-1))
        for order, flips in turns[1:]:
            turned = statistics.copy()
            turned[:, :3] = statistics[:, order] * np.array(flips)
            turned[:, 3:6] = statistics[:, [3 + axis for axis in order]]
            names = zip(self.channels, flips, (self.channels[axis] for axis in order), strict=True)
            yield turned, ", ".join(f"{own}={'-' if flip < 0 else ''}{axis}" for own, flip, axis in names)


def describe(subjects: Sequence[Array], units: Sequence[str], rate_hz: float, mounts: str = "fixed") -> dict[str, Any]:
    """Return the entry `domain` of a model card from the windows (N, C, T) of each training subject.

    It is empty for models without a three-axis accelerometer, for feature vectors and for fewer than `CENTRES` windows.
    """
    axes = accelerometer_axes(units)
    if axes is None or not subjects or subjects[0].shape[2] < 8 or sum(map(len, subjects)) < CENTRES:
        return {}
    own = [window_statistics(x[:, axes[0]] * np.float32(axes[1]), rate_hz) for x in subjects]
    points = [_points(statistics, mounts) for statistics in own]
    shares = []
    for left_out in np.array_split(np.arange(len(points)), min(GROUPS, len(points))) if len(points) > 1 else ():
        centres, radius = _summarise([points[k] for k in range(len(points)) if k not in left_out])
        shares += [float((_distances(points[k], centres) > radius).mean()) for k in left_out if len(points[k])]
    centres, radius = _summarise(points)
    return {
        "mounts": mounts,
        "centres": np.round(centres, 4).astype(float).tolist(),
        "radius": round(radius, 4),
        "alarm_share": round(max(MARGIN * max(shares), LEAST_SHARE), 4) if shares else SHORT_SHARE,
        "steady": round(max(_steadiness(statistics[_movement(statistics) > MOVING]) for statistics in own), 4),
    }


def window_statistics(x: Array, rate_hz: float) -> Array:
    """Return eight numbers of windows of acceleration (N, 3, T) in g, as (N, 8).

    They are the mean of each axis (g), the standard deviation of each axis and of the magnitude (g), and the
    frequency (Hz) of a sine with the same deviation and the same deviation of differences; 1 Hz at rest.
    """
    x = np.nan_to_num(np.asarray(x, np.float32))
    deviation = x.std(axis=2)
    movement = np.linalg.norm(deviation, axis=1)
    slope = np.linalg.norm(np.diff(x, axis=2).std(axis=2), axis=1) * rate_hz
    frequency = np.where(movement < STILL, 1.0, slope / np.maximum(movement, STILL) / (2 * np.pi))
    magnitude = np.linalg.norm(x, axis=1).std(axis=1)
    return np.column_stack([x.mean(axis=2), deviation, magnitude, frequency]).astype(np.float32)


def gravity_guess(magnitude_g: float) -> tuple[str, str]:
    """Return the likely reason why gravity has this magnitude instead of 1 g as a question, and what to do."""
    if abs(magnitude_g * ACCELERATION["m/s^2"] - 1) < 0.15:
        return "are the values in m/s^2?", "Set it with unit (--unit m/s^2)."
    if abs(magnitude_g * ACCELERATION["mg"] - 1) < 0.15:
        return "are the values in mg?", "Set it with unit (--unit mg)."
    if abs(magnitude_g / ACCELERATION["m/s^2"] - 1) < 0.15 or abs(magnitude_g / ACCELERATION["mg"] - 1) < 0.15:
        return "are the values already in g?", ""
    if is_gravity_free(magnitude_g):
        return "was gravity removed?", ""
    return "", "check the unit and the calibration."


def is_gravity_free(magnitude_g: float) -> bool:
    """Return whether acceleration at rest has no gravity, and is not in g already although another unit was stated."""
    in_g = (magnitude_g / ACCELERATION[unit] for unit in ("m/s^2", "mg"))
    return magnitude_g < GRAVITY_FREE and all(abs(magnitude - 1) >= 0.15 for magnitude in in_g)


def _movement(statistics: Array) -> Array:
    movement: Array = np.linalg.norm(statistics[:, 3:6], axis=1)
    return movement


def _steadiness(statistics: Array) -> float:
    if not len(statistics):
        return 0.0
    mean = statistics[:, :3]
    return float(np.linalg.norm((mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-6)).mean(axis=0)))


def _points(statistics: Array, mounts: str) -> Array:
    """Return weighted points (N, 8) for distances, equal for all orientations of `mounts`."""
    mean, deviation = statistics[:, :3], statistics[:, 3:6]
    if mounts != "fixed":
        free = 2 if mounts == "wrist" else 3  # leading axes whose order does not matter
        order = np.argsort(-np.abs(mean[:, :free]), axis=1)
        mean = np.column_stack([np.take_along_axis(np.abs(mean[:, :free]), order, axis=1), np.abs(mean[:, free:])])
        deviation = np.column_stack([np.take_along_axis(deviation[:, :free], order, axis=1), deviation[:, free:]])
    spread = np.log10(np.maximum(np.column_stack([deviation, statistics[:, 6]]), STILL))
    frequency = np.log10(np.clip(statistics[:, 7:], 0.1, 20))
    return np.column_stack([mean, spread, frequency]) * WEIGHTS


def _summarise(points: Sequence[Array]) -> tuple[Array, float]:
    chosen = np.concatenate(points)
    chosen = chosen[np.random.default_rng(0).permutation(len(chosen))[:SAMPLE]]
    centres = chosen[:CENTRES].copy()
    for _ in range(8):
        nearest = _squares(chosen, centres).argmin(axis=1)
        for k in np.unique(nearest):
            centres[k] = chosen[nearest == k].mean(axis=0)
    return centres, float(np.quantile(_distances(chosen, centres), COVERED))


def _distances(points: Array, centres: Array) -> Array:
    nearest: Array = np.sqrt(np.maximum(_squares(points, centres).min(axis=1), 0))
    return nearest


def _squares(points: Array, centres: Array) -> Array:
    squares: Array = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    return squares
