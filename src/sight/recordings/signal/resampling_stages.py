"""The two stages of resampling, in chunks of any size: uneven times to a regular grid, then that to another rate."""

from math import isnan, nan
from typing import Any

import numpy as np

from sight._util.object_state import Stateful
from sight.types import Array

#: Order of the low-pass filter and its attenuation above the new Nyquist frequency.
ORDER, STOP_DB = 8, 40.0
#: Part of a period by which rounding may move a timestamp.
ROUNDING = 1e-3
#: Parts of a period: a sample so near to a tick is its nearest one, if all others are so far.
NEAR, FAR = 0.45, 0.5
#: Part of a sample by which rounding may move the position of another.
POSITION_TOLERANCE = 1e-6


class SteadySampler(Stateful):
    """First stage: samples at uneven times to regular ticks that start at the first sample.

    A tick takes the nearest sample within half a period. Regular samples pass unchanged, bursts are thinned and
    jitter is removed. Ticks without such a sample are interpolated linearly.
    """

    def __init__(self, rate_hz: float) -> None:
        self.rate_hz = rate_hz
        self.origin_s_ = nan  # of the stretch; NaN before the first sample
        self.ticks_ = 0
        self.time_: Array = np.empty(0)
        self.value_: Array = np.empty((0, 0), np.float32)

    def push(self, values: Array, time_s: Array) -> Array:
        if not len(time_s):
            return values
        if isnan(self.origin_s_):
            self.origin_s_, self.ticks_ = float(time_s[0]), 0
        else:
            time_s, values = np.concatenate((self.time_, time_s)), np.concatenate((self.value_, values))
        self.time_, self.value_ = time_s[-1:].copy(), values[-1:].copy()
        tick = self._next_ticks(float(time_s[-1]) + ROUNDING / self.rate_hz)
        regular = self._regular_rows(tick, time_s)
        if regular is not None:
            return values[regular].copy()
        right = np.searchsorted(time_s, tick - ROUNDING / self.rate_hz)
        left = np.maximum(right - 1, 0)
        before, after = tick - time_s[left], time_s[right] - tick
        out = values[np.where(before <= after, left, right)]
        hole = np.minimum(before, after) > 0.5 / self.rate_hz
        if hole.any():
            share = (before[hole] / (before[hole] + after[hole]))[:, None]
            out[hole] = values[left[hole]] * (1 - share) + values[right[hole]] * share
        return out

    def _regular_rows(self, tick: Array, time_s: Array) -> slice | None:
        """Return the rows nearest to the ticks if each tick has one row that is clearly the nearest, else None."""
        if not len(tick):
            return None
        first = int(np.searchsorted(time_s, tick[0] - FAR / self.rate_hz))
        stop = first + len(tick)
        if stop > len(time_s) or (stop < len(time_s) and time_s[stop] < tick[-1] + FAR / self.rate_hz):
            return None
        off = time_s[first:stop] - tick
        return slice(first, stop) if max(-off.min(), off.max()) < NEAR / self.rate_hz else None

    def flush(self) -> Array | None:
        """End the stretch: return the value of the last tick if it is pending; None if no stretch was begun."""
        if isnan(self.origin_s_):
            return None
        ticks = self._next_ticks(float(self.time_[0]) + 0.5 / self.rate_hz)
        self.origin_s_ = nan
        return self.value_[: len(ticks)]

    def _next_ticks(self, until_s: float) -> Array:
        last = int((until_s - self.origin_s_) * self.rate_hz) + 1
        tick = self.origin_s_ + np.arange(self.ticks_, last + 1) / self.rate_hz
        tick = tick[: np.searchsorted(tick, until_s, side="right")]
        self.ticks_ += len(tick)
        return tick


class RateConverter(Stateful):
    """Second stage: regular samples to another rate, by linear interpolation.

    To a lower rate, a causal low-pass filter first attenuates everything above the new Nyquist frequency by 40 dB.
    Its delay is compensated in the times of the samples.
    """

    def __init__(self, rate_in_hz: float, rate_hz: float) -> None:
        self.rate_in_hz, self.rate_hz = rate_in_hz, rate_hz
        self.delay_s = 0.0
        self._sos: Array | None = None
        if rate_hz < rate_in_hz:
            from scipy.signal import cheby2, sosfilt_zi

            self._sos = cheby2(ORDER, STOP_DB, rate_hz / 2, fs=rate_in_hz, output="sos")
            self._initial = sosfilt_zi(self._sos)
            self.delay_s = _delay_samples(self._sos) / rate_in_hz
        self._start()

    def constants(self) -> dict[str, Any]:
        """Return the numbers that define the conversion; `filter` and its start only if there is one."""
        filtering = {} if self._sos is None else {"filter": self._sos, "filter_start": self._initial}
        numbers = {"sensor_hz": self.rate_in_hz, "delay_s": self.delay_s, "tolerance": POSITION_TOLERANCE}
        return {**numbers, "repeats": self._repeats(), **filtering}

    def _start(self) -> None:
        self.seen_ = self.sent_ = 0
        self.tail_: Array = np.empty((0, 0))
        self.last_: Array = np.empty((0, 0), np.float32)
        self.filter_: Array = np.empty((0, 2, 0))

    def push(self, values: Array) -> Array:
        if not len(values):
            return values
        filtered = self._filtered(values.astype(np.float64))
        if len(self.tail_):
            filtered = np.concatenate((self.tail_, filtered))
        self.last_ = values[-1:].copy()
        self.seen_ += len(values)
        first = self.seen_ - len(filtered)
        at = self._positions()
        final = int(np.searchsorted(at, self.seen_ - 1 + POSITION_TOLERANCE, side="right"))
        at, upcoming = at[:final], at[final]
        self.sent_ += final
        left = np.minimum((at + POSITION_TOLERANCE).astype(np.int64), self.seen_ - 1)
        right = np.minimum(left + 1, self.seen_ - 1)
        share = np.maximum(at - left, 0.0)[:, None]
        out = filtered[left - first] * (1 - share) + filtered[right - first] * share
        needed = min(int(upcoming), self.seen_)
        self.tail_ = filtered[max(needed - first, 0) :].copy()
        return np.asarray(out, values.dtype)

    def flush(self) -> Array | None:
        """End the stretch: repeat its last sample for the delay of the filter and return the pending samples."""
        if not self.seen_:
            return None
        end_s = (self.seen_ - 1) / self.rate_in_hz
        pending = int(end_s * self.rate_hz + POSITION_TOLERANCE) + 1 - self.sent_
        out = self.push(np.repeat(self.last_, self._repeats(), axis=0))[: max(pending, 0)]
        self._start()
        return out

    def _repeats(self) -> int:
        """Return how often the last sample is repeated at the end of a stretch: the delay of the filter and two."""
        return int(np.ceil(self.delay_s * self.rate_in_hz)) + 2

    def _positions(self) -> Array:
        """Return where the next output samples lie, in input samples, up to the first that is not yet available."""
        stop = max(int(self.seen_ / self.rate_in_hz * self.rate_hz) + 2, self.sent_ + 1)
        at = (np.arange(self.sent_, stop) / self.rate_hz + self.delay_s) * self.rate_in_hz
        whole = np.rint(at)
        return np.where(np.abs(at - whole) < POSITION_TOLERANCE, whole, at)

    def _filtered(self, values: Array) -> Array:
        if self._sos is None:
            return values
        from scipy.signal import sosfilt

        if not len(self.filter_):
            self.filter_ = self._initial[:, :, None] * values[0]
        filtered, self.filter_ = sosfilt(self._sos, values, axis=0, zi=self.filter_)
        return np.asarray(filtered)


def _delay_samples(sos: Array) -> float:
    """Return the group delay of a cascade at frequency 0, in samples."""
    order = np.arange(3)
    b, a = sos[:, :3], sos[:, 3:]
    return float(np.sum(b @ order / b.sum(axis=1) - a @ order / a.sum(axis=1)))
