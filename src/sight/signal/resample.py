"""Samples at a sensor's rate to samples on the model's regular clock, the same in one piece or in many.

Two stages. `Steady` puts the samples of a stretch on a regular clock at the sensor's own rate: a tick takes the
sample within half a period of it, so a regular clock passes untouched, bursts are thinned and jitter vanishes; only a
hole of several ticks is bridged by a straight line. `Convert` then changes the rate: a causal low-pass that takes
everything above the new Nyquist frequency down by 40 dB, its delay compensated on the clock, and a straight line
between the filtered samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import numpy as np

from sight.signal.clock import MAX_GAP_S, blocks, gap_limit_s, stretches
from sight.state import Stateful
from sight.types import Array, Recording

#: Rates closer than this need no conversion.
SAME_RATE = 0.005
#: The low-pass: order and attenuation above the new Nyquist frequency.
ORDER, STOP_DB = 8, 40.0
#: Part of a period by which rounding may move a timestamp.
ROUNDING = 1e-3


class Steady(Stateful):
    """Takes samples at uneven times to a regular clock that starts at the first of them.

    Examples
    --------
    >>> steady = Steady(10.0)
    >>> steady.push(np.array([[1.0], [2.0]]), np.array([0.0, 0.1])).ravel().tolist()
    [1.0, 2.0]
    >>> steady.push(np.array([[5.0]]), np.array([0.4])).ravel().round(9).tolist()
    [3.0, 4.0, 5.0]
    """

    def __init__(self, rate_hz: float) -> None:
        self.rate_hz = rate_hz
        self.origin_s_ = nan  # of the stretch; none has begun
        self.ticks_ = 0
        self.time_: Array = np.empty(0)
        self.value_: Array = np.empty((0, 0), np.float32)

    def push(self, values: Array, time_s: Array) -> Array:
        """Return the values at all ticks up to the last sample."""
        if not len(time_s):
            return values
        if isnan(self.origin_s_):
            self.origin_s_, self.ticks_ = float(time_s[0]), 0
        else:
            time_s, values = np.concatenate((self.time_, time_s)), np.concatenate((self.value_, values))
        self.time_, self.value_ = time_s[-1:].copy(), values[-1:].copy()
        tick = self._due(float(time_s[-1]) + ROUNDING / self.rate_hz)
        right = np.searchsorted(time_s, tick - ROUNDING / self.rate_hz)
        left = np.maximum(right - 1, 0)
        before, after = tick - time_s[left], time_s[right] - tick
        out = values[np.where(before <= after, left, right)]
        hole = np.minimum(before, after) > 0.5 / self.rate_hz
        if hole.any():
            share = (before[hole] / (before[hole] + after[hole]))[:, None]
            out[hole] = values[left[hole]] * (1 - share) + values[right[hole]] * share
        return out

    def flush(self) -> Array | None:
        """End the stretch: return the tick that still waits for its sample, if one does, and start anew."""
        if isnan(self.origin_s_):
            return None
        due = self._due(float(self.time_[0]) + 0.5 / self.rate_hz)
        self.origin_s_ = nan
        return self.value_[: len(due)]

    def _due(self, until_s: float) -> Array:
        last = int((until_s - self.origin_s_) * self.rate_hz) + 1
        tick = self.origin_s_ + np.arange(self.ticks_, last + 1) / self.rate_hz
        tick = tick[tick <= until_s]
        self.ticks_ += len(tick)
        return tick


class Convert(Stateful):
    """Takes samples on one regular clock to another rate, with an anti-alias filter where the rate goes down.

    Examples
    --------
    >>> double = Convert(1.0, 2.0)
    >>> double.push(np.array([[0.0], [1.0], [2.0]])).ravel().tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """

    def __init__(self, rate_in_hz: float, rate_hz: float) -> None:
        self.rate_in_hz, self.rate_hz = rate_in_hz, rate_hz
        self.delay_s = 0.0
        self._sos: Array | None = None
        if rate_hz < rate_in_hz:
            from scipy.signal import cheby2, sosfilt_zi

            self._sos = cheby2(ORDER, STOP_DB, rate_hz / 2, fs=rate_in_hz, output="sos")
            self._rest = sosfilt_zi(self._sos)
            self.delay_s = _delay(self._sos) / rate_in_hz
        self._start()

    def _start(self) -> None:
        self.seen_ = self.sent_ = 0
        self.tail_: Array = np.empty((0, 0))
        self.last_: Array = np.empty((0, 0), np.float32)
        self.filter_: Array = np.empty((0, 2, 0))

    def push(self, values: Array) -> Array:
        """Return the samples of the new clock that are now settled."""
        if not len(values):
            return values
        filtered = self._filter(values.astype(np.float64))
        if len(self.tail_):
            filtered = np.concatenate((self.tail_, filtered))
        self.last_ = values[-1:].copy()
        self.seen_ += len(values)
        first = self.seen_ - len(filtered)
        at = self._positions()
        settled = int(np.searchsorted(at, self.seen_ - 1 + 1e-6, side="right"))
        at, upcoming = at[:settled], at[settled]
        self.sent_ += settled
        left = np.minimum((at + 1e-6).astype(np.int64), self.seen_ - 1)
        right = np.minimum(left + 1, self.seen_ - 1)
        share = np.maximum(at - left, 0.0)[:, None]
        out = filtered[left - first] * (1 - share) + filtered[right - first] * share
        needed = min(int(upcoming), self.seen_)
        self.tail_ = filtered[max(needed - first, 0) :].copy()
        return np.asarray(out, values.dtype)

    def flush(self) -> Array | None:
        """End the stretch: hold its last sample until the filter has caught up, and start anew."""
        if not self.seen_:
            return None
        end_s = (self.seen_ - 1) / self.rate_in_hz
        wanted = int(end_s * self.rate_hz + 1e-6) + 1 - self.sent_
        held = int(np.ceil(self.delay_s * self.rate_in_hz)) + 2
        out = self.push(np.repeat(self.last_, held, axis=0))[: max(wanted, 0)]
        self._start()
        return out

    def _positions(self) -> Array:
        """Where the next samples of the new clock lie, in samples of the old one, until one that is not yet seen."""
        stop = max(int(self.seen_ / self.rate_in_hz * self.rate_hz) + 2, self.sent_ + 1)
        at = (np.arange(self.sent_, stop) / self.rate_hz + self.delay_s) * self.rate_in_hz
        whole = np.rint(at)
        return np.where(np.abs(at - whole) < 1e-6, whole, at)

    def _filter(self, values: Array) -> Array:
        if self._sos is None:
            return values
        from scipy.signal import sosfilt

        if not len(self.filter_):
            self.filter_ = self._rest[:, :, None] * values[0]
        filtered, self.filter_ = sosfilt(self._sos, values, axis=0, zi=self.filter_)
        return np.asarray(filtered)


class Resampler(Stateful):
    """Puts the samples of one stretch after another on the model's clock, in chunks of any size.

    Parameters
    ----------
    rate_in_hz
        Nominal rate of the sensor.
    rate_hz
        Rate of the model.

    Attributes
    ----------
    delay_s
        How long after a moment its sample is known: the filter's delay, and one period of the sensor. The times of
        the samples are those of the moments; the delay is only felt live.

    Examples
    --------
    >>> resampler = Resampler(100.0, 50.0)
    >>> values, time_s = resampler.push(np.ones((100, 3), np.float32), np.arange(100) / 100)
    >>> values.shape, time_s[:3].tolist(), round(resampler.delay_s, 3)
    ((49, 3), [0.0, 0.02, 0.04], 0.028)
    """

    def __init__(self, rate_in_hz: float, rate_hz: float) -> None:
        self.rate_hz = rate_hz
        same = abs(rate_hz / rate_in_hz - 1) <= SAME_RATE
        self._steady = Steady(rate_hz if same else rate_in_hz)
        self._convert = None if same else Convert(rate_in_hz, rate_hz)
        self.delay_s = 1 / rate_in_hz + (self._convert.delay_s if self._convert else 0.0)
        self.origin_s_ = nan
        self.sent_ = 0

    def push(self, values: Array, time_s: Array) -> tuple[Array, Array]:
        """Return the samples of the new clock that are now settled, and their times."""
        if len(time_s) and isnan(self.origin_s_):
            self.origin_s_, self.sent_ = float(time_s[0]), 0
        out = self._steady.push(values, time_s)
        return self._timed(self._convert.push(out) if self._convert else out)

    def flush(self) -> tuple[Array, Array] | None:
        """End the stretch, as at a gap: return what was still waiting, and start anew with the next sample."""
        waiting = self._steady.flush()
        if waiting is None:
            return None
        if self._convert:
            head, tail = self._convert.push(waiting), self._convert.flush()
            waiting = head if tail is None else np.concatenate((head, tail))
        result = self._timed(waiting)
        self.origin_s_ = nan
        return result

    def _timed(self, values: Array) -> tuple[Array, Array]:
        tick = np.arange(self.sent_, self.sent_ + len(values))
        self.sent_ += len(values)
        return values, self.origin_s_ + tick / self.rate_hz


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """A recording on a regular clock, stretch after stretch.

    Parameters
    ----------
    values, time_s, labels
        As in `Recording`; between two stretches the clock jumps.
    pieces
        The stretches; each is regular in itself.
    rate_hz
        Rate of the clock.
    """

    values: Array
    time_s: Array
    labels: Array | None
    pieces: tuple[slice, ...]
    rate_hz: float


def resample(recording: Recording, rate_hz: float, *, max_gap_s: float = MAX_GAP_S) -> tuple[Grid, dict[str, Any]]:
    """Put a tidy recording on a regular clock, never across a gap; labels follow by the nearest sample.

    Parameters
    ----------
    recording
        With increasing times, as `sight.signal.clock.tidy` leaves it.
    rate_hz
        Rate of the model.
    max_gap_s
        A longer pause is a gap.
    """
    source = stretches(recording.time_s, gap_limit_s(max_gap_s, recording.rate_hz))
    spans = [recording.time_s[piece.stop - 1] - recording.time_s[piece.start] for piece in source]
    room = int(np.sum(np.floor(np.array(spans) * rate_hz) + 3))
    values = np.empty((room, recording.values.shape[1]), np.float32)
    time_s = np.empty(room)
    resampler = Resampler(recording.rate_hz, rate_hz)
    pieces, end = [], 0
    for piece in source:
        start = end
        for block in blocks(piece.start, piece.stop):
            end = _store(values, time_s, end, resampler.push(recording.values[block], recording.time_s[block]))
        end = _store(values, time_s, end, resampler.flush())
        pieces.append(slice(start, end))
    labels = None if recording.labels is None else nearest(recording.labels, recording.time_s, time_s[:end])
    grid = Grid(values=values[:end], time_s=time_s[:end], labels=labels, pieces=tuple(pieces), rate_hz=rate_hz)
    return grid, {"stretches": len(pieces), "rate_hz": float(rate_hz), "resample_delay_s": resampler.delay_s}


def nearest(labels: Array, time_s: Array, at_s: Array) -> Array:
    """Give each moment the label of the sample nearest in time."""
    out = np.empty(len(at_s), labels.dtype)
    for block in blocks(0, len(at_s)):
        right = np.clip(np.searchsorted(time_s, at_s[block]), 1, max(len(time_s) - 1, 1))
        right = np.minimum(right, len(time_s) - 1)
        left = np.maximum(right - 1, 0)
        out[block] = labels[np.where(at_s[block] - time_s[left] <= time_s[right] - at_s[block], left, right)]
    return out


def _store(values: Array, time_s: Array, end: int, piece: tuple[Array, Array] | None) -> int:
    if piece is None:
        return end
    stop = end + len(piece[0])
    values[end:stop], time_s[end:stop] = piece
    return stop


def _delay(sos: Array) -> float:
    """Delay of a cascade for slow signals, in samples: the centre of gravity of its impulse response."""
    order = np.arange(3)
    b, a = sos[:, :3], sos[:, 3:]
    return float(np.sum(b @ order / b.sum(axis=1) - a @ order / a.sum(axis=1)))
