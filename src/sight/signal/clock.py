"""Timestamps of a recording: which samples are valid, and where the gaps are.

A gap is a pause longer than `max_gap_s`. Smaller irregularities are not gaps: timestamps that jump by a few
milliseconds, bursts of samples sent too fast, single lost samples. `sight.signal.resample` evens those out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from sight.stateful import Stateful
from sight.types import Array, Recording

MAX_GAP_S = 0.5
#: Rows processed at once; keeps the memory for a day of samples within a few hundred megabytes.
BLOCK = 1 << 18
#: Names of the counters of `Clock`.
COUNTERS = ("samples", "duplicate_samples", "backward_samples", "nan_samples")


class Clock(Stateful):
    """Filter that drops non-finite samples and timestamps that do not increase, and marks where a gap ends.

    Causal without delay: whether a sample is kept depends only on the samples before it.

    Examples
    --------
    >>> clock = Clock(0.5)
    >>> keep, first = clock.push(np.zeros((4, 1)), np.array([0.0, 0.1, 0.1, 9.0]))
    >>> keep.tolist(), first.tolist()
    ([True, True, False, True], [True, False, True])
    """

    def __init__(self, max_gap_s: float = MAX_GAP_S) -> None:
        self.max_gap_s = max_gap_s
        self.last_s_ = -np.inf
        self.counts_ = np.zeros(len(COUNTERS), np.int64)

    @property
    def facts(self) -> dict[str, int]:
        """Number of samples kept, and of samples dropped by reason."""
        return dict(zip(COUNTERS, self.counts_.tolist(), strict=True))

    def push(self, values: Array, time_s: Array) -> tuple[Array, Array]:
        """Return which samples are kept, (n,) bool, and which of those start a stretch, (kept,) bool."""
        # Fast path: nearly every live chunk is finite and in order.
        if len(time_s) and _all_finite(values) and _all_finite(time_s):
            step = time_s - np.concatenate(([self.last_s_], time_s[:-1]))
            if step.min() > 0:
                self.counts_[0] += len(step)
                self.last_s_ = float(time_s[-1])
                return np.ones(len(step), bool), step > self.max_gap_s
        return self._filter(values, time_s)

    def _filter(self, values: Array, time_s: Array) -> tuple[Array, Array]:
        usable = np.isfinite(values).all(axis=1) & np.isfinite(time_s)
        moments = np.where(usable, time_s, -np.inf)
        latest = np.maximum.accumulate(np.concatenate(([self.last_s_], moments)))
        keep = moments > latest[:-1]
        same = usable & (moments == latest[:-1])
        self.counts_ += [keep.sum(), same.sum(), (usable & ~keep & ~same).sum(), (~usable).sum()]
        kept = np.concatenate(([self.last_s_], time_s[keep]))
        self.last_s_ = float(latest[-1])
        with np.errstate(invalid="ignore"):
            return keep, np.diff(kept) > self.max_gap_s


def drop_invalid(recording: Recording, *, max_gap_s: float = MAX_GAP_S) -> tuple[Recording, dict[str, int]]:
    """Drop non-finite samples and timestamps that do not increase; return the recording and the counts.

    Examples
    --------
    >>> recording = Recording(values=np.zeros((4, 1)), time_s=np.array([0, 0.1, 0.1, 9]), channels=("x",), unit="g",
    ...                       rate_hz=10)
    >>> valid, counts = drop_invalid(recording)
    >>> valid.time_s.tolist(), counts["duplicate_samples"]
    ([0.0, 0.1, 9.0], 1)
    """
    clock = Clock(gap_limit_s(max_gap_s, recording.rate_hz))
    keep = np.empty(len(recording.values), dtype=bool)
    for block in blocks(0, len(keep)):
        keep[block] = clock.push(recording.values[block], recording.time_s[block])[0]
    if not keep.all():
        labels = None if recording.labels is None else recording.labels[keep]
        recording = replace(recording, values=recording.values[keep], time_s=recording.time_s[keep], labels=labels)
    return recording, clock.facts


def gap_limit_s(max_gap_s: float, rate_hz: float) -> float:
    """Return the shortest pause that counts as a gap: `max_gap_s`, and more than one lost sample of a slow sensor."""
    if not rate_hz > 0:
        raise ValueError(f"Expected a sampling rate above 0 Hz, got {rate_hz:g}; give rate_hz.")
    return max(max_gap_s, 1.5 / rate_hz)


def stretches(time_s: Array, max_gap_s: float) -> list[slice]:
    """Split increasing timestamps at their gaps.

    Examples
    --------
    >>> [(s.start, s.stop) for s in stretches(np.array([0, 0.1, 9, 9.1, 20]), 0.5)]
    [(0, 2), (2, 4), (4, 5)]
    """
    edges = [0, *(np.flatnonzero(np.diff(time_s) > max_gap_s) + 1).tolist(), len(time_s)]
    return [slice(start, stop) for start, stop in pairwise(edges) if stop > start]


def blocks(start: int, stop: int) -> Iterator[slice]:
    """Split a range of rows into slices of at most `BLOCK` rows."""
    for first in range(start, stop, BLOCK):
        yield slice(first, min(first + BLOCK, stop))


def _all_finite(values: Array) -> bool:
    """Return whether all values are finite, by one dot product; may be False for very large finite values."""
    flat = values.reshape(-1)
    return bool(np.isfinite(np.dot(flat, flat)))
