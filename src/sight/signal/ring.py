"""Windows of a live stream: push samples as they come, take windows as they are complete.

The windows are exactly those that `sight.signal.windows.cut` makes of the whole recording, whatever the chunks.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sight.signal.calibrate import Calibration
from sight.signal.clock import MAX_GAP_S, Clock, gap_limit_s
from sight.signal.resample import Resampler
from sight.signal.windows import whole_samples
from sight.types import UNLABELLED, Array, Windows


class Ring:
    """Holds the last samples of a stretch and gives windows of `length` every `stride`.

    Examples
    --------
    >>> ring = Ring(1, length=3, stride=2)
    >>> [len(ring.push(np.ones((1, 1)), np.array([float(t)]))[0]) for t in range(6)]
    [0, 0, 1, 0, 1, 0]
    """

    def __init__(self, channels: int, *, length: int, stride: int) -> None:
        self.length, self.stride = length, stride
        self._channels = channels
        self.clear()

    def clear(self) -> None:
        """Forget all samples, as at a gap."""
        self._values = np.empty((0, self._channels), np.float32)
        self._time = np.empty(0)
        self._skip = 0  # samples still to pass by where the stride is longer than the window

    def push(self, values: Array, time_s: Array) -> tuple[Array, Array]:
        """Return windows (m, C, T) that are now complete and the times they start at, (m,)."""
        passed = min(self._skip, len(values))
        self._skip -= passed
        held = np.concatenate((self._values, values[passed:]), dtype=np.float32)
        times = np.concatenate((self._time, time_s[passed:]))
        count = max((len(held) - self.length) // self.stride + 1, 0)
        used = min(count * self.stride, len(held))
        self._skip += count * self.stride - used
        self._values, self._time = held[used:].copy(), times[used:].copy()
        if not count:
            return np.empty((0, self._channels, self.length), np.float32), np.empty(0)
        first = self.stride * np.arange(count)
        return np.ascontiguousarray(sliding_window_view(held, self.length, axis=0)[first]), times[first]


class Windower:
    """From the samples of one live sensor to windows on the model's clock.

    Parameters
    ----------
    rate_in_hz, rate_hz
        Nominal rate of the sensor, and rate of the model.
    channels
        Number of channels.
    window_s, stride_s, max_gap_s
        As in `sight.signal.windows.cut`.
    calibration
        Scale and offset for the first three channels, estimated beforehand on acceleration in g.

    Attributes
    ----------
    delay_s
        How long after its last moment a window is complete.

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
        self.window_s, self.stride_s = length / rate_hz, stride / rate_hz
        self.calibration = calibration
        self._channels = channels
        self._clock = Clock(gap_limit_s(max_gap_s, rate_in_hz))
        self._resampler = Resampler(rate_in_hz, rate_hz)
        self._ring = Ring(channels, length=length, stride=stride)
        self._end_s: float | None = None
        self._fresh = True
        self.delay_s = self._resampler.delay_s

    def push(self, values: Array, time_s: Array) -> Windows:
        """Take samples (n, C) and their times in seconds; return the windows that are now complete."""
        values, time_s = np.asarray(values, np.float32), np.asarray(time_s, np.float64)
        if values.ndim != 2 or values.shape[1] != self._channels or time_s.shape != (len(values),):
            raise ValueError(
                f"Expected samples (n, {self._channels}) with n times, got {values.shape} and {time_s.shape}; "
                f"one row and one time per sample."
            )
        keep, begins = self._clock.push(values, time_s)
        values, time_s = values[keep], time_s[keep]
        if self.calibration is not None:
            values[:, :3] = self.calibration.apply(values[:, :3])
        pieces = []
        for start, stop in pairwise([0, *np.flatnonzero(begins).tolist(), len(values)]):
            pieces.append(self._timed(*self._resampler.push(values[start:stop], time_s[start:stop])))
            if stop < len(values):
                pieces.append(self._end_stretch())
        return self._windows(pieces)

    def flush(self) -> Windows:
        """End the stream: return the windows that were waiting for a next sample."""
        return self._windows([self._end_stretch()])

    @property
    def facts(self) -> dict[str, int]:
        """What the clock dropped so far."""
        return dict(self._clock.facts)

    def _end_stretch(self) -> tuple[Array, Array, Array]:
        rest = self._resampler.flush()
        empty = np.empty((0, self._channels), np.float32), np.empty(0)
        piece = self._timed(*(empty if rest is None else rest))
        self._ring.clear()
        self._fresh = True
        return piece

    def _timed(self, values: Array, time_s: Array) -> tuple[Array, Array, Array]:
        x, start_s = self._ring.push(values, time_s)
        gap = np.zeros(len(x))
        if len(x):
            if self._fresh and self._end_s is not None:
                gap[0] = max(start_s[0] - self._end_s, 0.0)
            self._fresh = False
            self._end_s = start_s[-1] + self.window_s
        return x, start_s, gap

    def _windows(self, pieces: list[tuple[Array, Array, Array]]) -> Windows:
        x, time_s, gap = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        return Windows(
            x=x,
            time_s=time_s,
            label=np.full(len(x), UNLABELLED),
            gap_before_s=gap,
            window_s=self.window_s,
            stride_s=self.stride_s,
        )
