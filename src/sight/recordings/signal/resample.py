"""Resampling to a regular clock at the model's rate; the result is the same for any chunking of the samples."""

from dataclasses import replace
from math import isnan, nan
from typing import Any

import numpy as np

from sight._util.object_state import Stateful
from sight.recordings.signal.clock import MAX_GAP_S, blocks, gap_limit_s, shortened, stretches
from sight.recordings.signal.resampling_stages import ROUNDING, RateConverter, SteadySampler
from sight.types import Array, Recording

#: Rates closer than this need no conversion.
SAME_RATE = 0.005


class Resampler(Stateful):
    """Resampler of one stretch after another, from the nominal rate of the sensor to that of the model.

    `delay_s` is the time from a moment until its sample is returned: the delay of the filter and one period of the
    sensor. The returned times are those of the moments, so the delay matters only live.

    >>> resampler = Resampler(100.0, 50.0)
    >>> values, time_s = resampler.push(np.ones((100, 3), np.float32), np.arange(100) / 100)
    >>> values.shape, time_s[:3].tolist(), round(resampler.delay_s, 3)
    ((49, 3), [0.0, 0.02, 0.04], 0.028)
    """

    def __init__(self, rate_in_hz: float, rate_hz: float) -> None:
        self.rate_hz = rate_hz
        same = abs(rate_hz / rate_in_hz - 1) <= SAME_RATE
        self._steady = SteadySampler(rate_hz if same else rate_in_hz)
        self._convert = None if same else RateConverter(rate_in_hz, rate_hz)
        self.delay_s = 1 / rate_in_hz + (self._convert.delay_s if self._convert else 0.0)
        self.origin_s_ = nan
        self.sent_ = 0

    def constants(self) -> dict[str, Any]:
        """Return the numbers that define the resampling; without a change of the rate there are none of it."""
        own = {"rate_hz": self.rate_hz, "tick_hz": self._steady.rate_hz, "rounding": ROUNDING}
        return own | (self._convert.constants() if self._convert else {})

    def push(self, values: Array, time_s: Array) -> tuple[Array, Array]:
        """Return the samples at the new rate that are now final, and their times."""
        if len(time_s) and isnan(self.origin_s_):
            self.origin_s_, self.sent_ = float(time_s[0]), 0
        out = self._steady.push(values, time_s)
        return self._timed(self._convert.push(out) if self._convert else out)

    def flush(self) -> tuple[Array, Array] | None:
        """End the stretch, as at a gap: return the pending samples; None if no stretch was begun."""
        pending = self._steady.flush()
        if pending is None:
            return None
        if self._convert:
            head, tail = self._convert.push(pending), self._convert.flush()
            pending = head if tail is None else np.concatenate((head, tail))
        result = self._timed(pending)
        self.origin_s_ = nan
        return result

    def _timed(self, values: Array) -> tuple[Array, Array]:
        tick = np.arange(self.sent_, self.sent_ + len(values))
        self.sent_ += len(values)
        return values, self.origin_s_ + tick / self.rate_hz


def resample(
    recording: Recording, rate_hz: float, *, max_gap_s: float = MAX_GAP_S, overwrite: bool = False
) -> tuple[Recording, list[slice], dict[str, Any]]:
    """Resample a recording of valid samples; return it, its regularly sampled stretches, and facts.

    Nothing is interpolated across a gap. Labels come from the nearest sample. With `overwrite`, the memory of the
    values is reused where it suffices, and the recording must not be used afterwards.
    """
    own_time_s = recording.time_s
    inputs = stretches(own_time_s, gap_limit_s(max_gap_s, recording.rate_hz))
    spans = [own_time_s[piece.stop - 1] - own_time_s[piece.start] for piece in inputs]
    output = _Output(recording.values, int(np.sum(np.floor(np.array(spans) * rate_hz) + 3)), overwrite)
    resampler = Resampler(recording.rate_hz, rate_hz)
    outputs = []
    for piece in inputs:
        start = output.end
        for block in blocks(piece.start, piece.stop):
            output.append(resampler.push(recording.values[block], own_time_s[block])[0], block.stop)
        if pending := resampler.flush():
            output.append(pending[0], piece.stop)
        outputs.append(slice(start, output.end))
    values = output.array()  # frees memory before more is allocated
    time_s = np.empty(len(values))
    for i, o in zip(inputs, outputs, strict=True):
        time_s[o] = own_time_s[i.start] + np.arange(o.stop - o.start) / rate_hz
    labels = None
    if recording.labels is not None:
        own = recording.labels
        parts = [_nearest_labels(own[i], own_time_s[i], time_s[o]) for i, o in zip(inputs, outputs, strict=True)]
        labels = np.concatenate([own[:0], *parts])
    regular = replace(recording, values=values, time_s=time_s, labels=labels, rate_hz=rate_hz)
    facts = {"stretches": len(outputs), "rate_hz": float(rate_hz), "resample_delay_s": resampler.delay_s}
    return regular, outputs, facts


class _Output:
    """Resampled values: in the memory of the input as far as they do not overtake it, else in an array of their own."""

    def __init__(self, values: Array, capacity: int, overwrite: bool) -> None:
        self.end, self._capacity = 0, capacity
        self._overwrites = overwrite and values.flags.writeable and values.dtype == np.float32
        self._store = values if self._overwrites else np.empty((capacity, values.shape[1]), np.float32)

    def append(self, values: Array, consumed: int) -> None:
        """Add values; `consumed` rows of the input are no longer needed."""
        stop = self.end + len(values)
        if self._overwrites and stop > consumed:
            self._overwrites, used = False, self._store[: self.end]
            self._store = np.empty((self._capacity, values.shape[1]), np.float32)
            self._store[: self.end] = used
        self._store[self.end : stop] = values
        self.end = stop

    def array(self) -> Array:
        return shortened(self._store, self.end)


def _nearest_labels(labels: Array, time_s: Array, at_s: Array) -> Array:
    out = np.empty(len(at_s), labels.dtype)
    for block in blocks(0, len(at_s)):
        right = np.clip(np.searchsorted(time_s, at_s[block]), 1, max(len(time_s) - 1, 1))
        right = np.minimum(right, len(time_s) - 1)
        left = np.maximum(right - 1, 0)
        out[block] = labels[np.where(at_s[block] - time_s[left] <= time_s[right] - at_s[block], left, right)]
    return out
