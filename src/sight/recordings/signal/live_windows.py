"""Windows of a live stream: samples are pushed in chunks of any size, complete windows are returned.

The windows are exactly those that `sight.recordings.signal.prepare` makes of the whole recording.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import isnan, nan
from typing import Any

import numpy as np

from sight._util.object_state import Stateful
from sight.recordings.signal.calibrate import Calibration
from sight.recordings.signal.clock import MAX_GAP_S, RESTART_S, RESTART_SAMPLES, Clock, gap_limit_s
from sight.recordings.signal.resample import Resampler
from sight.recordings.signal.windows import whole_samples
from sight.types import UNLABELLED, Array, Windows


class RingBuffer(Stateful):
    """Buffer of the last samples of a stretch that returns windows of `length` samples every `stride`.

    >>> ring = RingBuffer(1, length=3, stride=2)
    >>> [len(ring.push(np.ones((1, 1)), np.array([float(t)]))[0]) for t in range(6)]
    [0, 0, 1, 0, 1, 0]
    """

    def __init__(self, channels: int, *, length: int, stride: int) -> None:
        self.length, self.stride = length, stride
        self._channels = channels
        self.clear()

    def clear(self) -> None:
        self.values_ = np.empty((0, self._channels), np.float32)
        self.time_ = np.empty(0)
        self.skip_ = 0  # samples still to skip where the stride is longer than the window

    def push(self, values: Array, time_s: Array) -> tuple[Array, Array]:
        """Return the windows (m, C, T) that are now complete and their start times, (m,)."""
        skipped = min(self.skip_, len(values))
        self.skip_ -= skipped
        held = np.concatenate((self.values_, values[skipped:]), dtype=np.float32)
        times = np.concatenate((self.time_, time_s[skipped:]))
        count = max((len(held) - self.length) // self.stride + 1, 0)
        used = min(count * self.stride, len(held))
        self.skip_ += count * self.stride - used
        self.values_, self.time_ = held[used:].copy(), times[used:].copy()
        x = np.empty((count, self._channels, self.length), np.float32)
        for window, start in zip(x, range(0, count * self.stride, self.stride), strict=True):
            window[:] = held[start : start + self.length].T
        return x, times[: count * self.stride : self.stride]


class _LiveInput(Stateful):
    """Base of the live windowers: checks chunks, filters them by the clock and returns unlabelled windows."""

    def __init__(self, channels: int, clock: Clock, *, window_s: float, stride_s: float) -> None:
        self.window_s, self.stride_s = window_s, stride_s
        self._channels, self._clock = channels, clock

    @property
    def facts(self) -> dict[str, int]:
        return self._clock.facts

    @property
    def dropped(self) -> int:
        return self._clock.dropped

    @property
    def last_s(self) -> float:
        """Time of the latest sample, -inf before the first."""
        return self._clock.last_s_

    def _checked(self, values: Array, time_s: Array) -> tuple[Array, Array]:
        values, time_s = np.asarray(values, np.float32), np.asarray(time_s, np.float64)
        if values.ndim != 2 or values.shape[1] != self._channels or time_s.shape != (len(values),):
            raise ValueError(
                f"Expected samples (n, {self._channels}) with n times, got {values.shape} and {time_s.shape}; "
                f"one row and one time per sample."
            )
        return values, time_s

    def _unlabelled(self, x: Array, time_s: Array, gap: Array) -> Windows:
        label, window_s, stride_s = np.full(len(x), UNLABELLED), self.window_s, self.stride_s
        return Windows(x=x, time_s=time_s, label=label, gap_before_s=gap, window_s=window_s, stride_s=stride_s)


class Windower(_LiveInput):
    """Samples of one live sensor to windows at the model's rate.

    Parameters
    ----------
    rate_in_hz, rate_hz
        Nominal rate of the sensor, and rate of the model.
    channels
        Number of channels.
    window_s, stride_s, max_gap_s
        As in `sight.recordings.signal.prepare`.
    calibration
        Scale and offset of the first three channels, estimated beforehand on acceleration in g.

    Attributes
    ----------
    delay_s
        Time from the end of a window until it is returned.

    Examples
    --------
    >>> live = Windower(rate_in_hz=50, rate_hz=50, channels=3, window_s=2, stride_s=1)
    >>> [len(live.push(np.zeros((50, 3)), second + np.arange(50) / 50)) for second in range(4)]
    [0, 1, 1, 1]
    """

    def __init__(
        self,
        *,
        rate_in_hz: float,
        rate_hz: float,
        channels: int,
        window_s: float,
        stride_s: float,
        max_gap_s: float = MAX_GAP_S,
        calibration: Calibration | None = None,
    ) -> None:
        length, stride = whole_samples(window_s, rate_hz), whole_samples(stride_s, rate_hz)
        clock = Clock(gap_limit_s(max_gap_s, rate_in_hz))
        super().__init__(channels, clock, window_s=length / rate_hz, stride_s=stride / rate_hz)
        self.calibration = calibration
        self._resampler = Resampler(rate_in_hz, rate_hz)
        self._ring = RingBuffer(channels, length=length, stride=stride)
        self.end_s_ = nan
        self.fresh_ = True  # whether the next window is the first of its stretch
        self.delay_s = self._resampler.delay_s

    def constants(self) -> dict[str, Any]:
        """Return the numbers that define the windows, for the same windower in C (`sight.models.export.c`)."""
        return {
            "channels": self._channels,
            "length": self._ring.length,
            "stride": self._ring.stride,
            "gap_s": self._clock.max_gap_s,
            "restart_samples": RESTART_SAMPLES,
            "restart_s": RESTART_S,
            **self._resampler.constants(),
        }

    def push(self, values: Array, time_s: Array) -> Windows:
        """Add samples (n, C) with their times in seconds; return the windows that are now complete."""
        values, time_s = self._checked(values, time_s)
        keep, begins = self._clock.push(values, time_s)
        if not keep.all():
            values, time_s = values[keep], time_s[keep]
        if self.calibration is not None:
            values = values.copy()
            values[:, :3] = self.calibration.apply(values[:, :3])
        pieces = []
        for start, stop in pairwise([0, *np.flatnonzero(begins).tolist(), len(values)]):
            pieces.append(self._cut(*self._resampler.push(values[start:stop], time_s[start:stop])))
            if stop < len(values):
                pieces.append(self._end_stretch())
        return self._joined(pieces)

    def flush(self) -> Windows:
        """End the stream: return the windows that were pending."""
        return self._joined([self._end_stretch()])

    def _check(self, state: Mapping[str, Array]) -> None:
        super()._check(state)
        for name, array in state.items():
            if array.ndim > 1 and array.size and array.shape[-1] != self._channels:
                raise ValueError(
                    f"Expected saved {name!r} of {self._channels} channels, got {array.shape[-1]}; "
                    f"was it saved with another model?"
                )

    def _end_stretch(self) -> tuple[Array, Array, Array]:
        pending = self._resampler.flush()
        empty = np.empty((0, self._channels), np.float32), np.empty(0)
        piece = self._cut(*(empty if pending is None else pending))
        self._ring.clear()
        self.fresh_ = True
        return piece

    def _cut(self, values: Array, time_s: Array) -> tuple[Array, Array, Array]:
        """Return the windows that are now complete, their start times and the gaps before them."""
        x, start_s = self._ring.push(values, time_s)
        gap = np.zeros(len(x))
        if len(x):
            if self.fresh_ and not isnan(self.end_s_):
                gap[0] = max(start_s[0] - self.end_s_, 0.0)
            self.fresh_ = False
            self.end_s_ = float(start_s[-1] + self.window_s)
        return x, start_s, gap

    def _joined(self, pieces: list[tuple[Array, Array, Array]]) -> Windows:
        x, time_s, gap = pieces[0] if len(pieces) == 1 else map(np.concatenate, zip(*pieces, strict=True))
        return self._unlabelled(x, time_s, gap)


class FeatureWindower(_LiveInput):
    """Feature vectors of a live sensor, at their nominal rate, to windows of one sample, as `prepare` does.

    >>> live = FeatureWindower(rate_hz=1, channels=2, max_gap_s=2)
    >>> windows = live.push(np.ones((3, 2)), np.array([0.0, 1.0, 9.0]))
    >>> windows.x.shape, windows.gap_before_s.tolist()
    ((3, 2, 1), [0.0, 0.0, 7.0])
    """

    delay_s = 0.0

    def __init__(self, *, rate_hz: float, channels: int, max_gap_s: float = MAX_GAP_S) -> None:
        clock = Clock(gap_limit_s(max_gap_s, rate_hz))
        super().__init__(channels, clock, window_s=1 / rate_hz, stride_s=1 / rate_hz)

    def push(self, values: Array, time_s: Array) -> Windows:
        """Add vectors (n, C) with their times; return those whose time increases. NaN is kept."""
        values, time_s = self._checked(values, time_s)
        before = self._clock.last_s_
        keep, begins = self._clock.push(np.zeros((len(values), 1)), time_s)
        time_s = time_s[keep]
        begins[:1] &= np.isfinite(before)
        end_s = np.concatenate(([before], time_s[:-1])) + self.window_s
        gap = np.where(begins, np.maximum(time_s - end_s[: len(time_s)], 0.0), 0.0)
        return self._unlabelled(values[keep][:, :, None], time_s, gap)

    def flush(self) -> Windows:
        """End the stream; no vector is pending."""
        return self.push(np.empty((0, self._channels)), np.empty(0))
