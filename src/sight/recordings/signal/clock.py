"""Timestamps of a recording: which samples are valid, and where the gaps are.

A gap is a pause longer than `max_gap_s`. Smaller irregularities are not gaps: timestamps that jump by a few
milliseconds, bursts of samples sent too fast, single lost samples. `sight.recordings.signal.resample` evens those out.

Samples before the latest one are dropped, because most of them are late or repeated. If they go on steadily where no
sample can be a repeated one, a new stretch starts: before the first sample of all, if the clock of the sensor was set
back, and in the latest gap, if one timestamp far in the future had opened it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sight._util.object_state import Stateful
from sight.types import Array, Recording

MAX_GAP_S = 0.5
#: Rows processed at once; keeps the memory for a day of samples within a few hundred megabytes.
BLOCK = 1 << 18
#: Steady samples before the latest one, and the seconds they span, after which a new stretch starts.
RESTART_SAMPLES, RESTART_S = 10, 10.0
#: Rows examined at once where times do not increase; each restart examines the rest of them again.
PIECE = 4096
#: Names of the counters of `Clock`.
COUNTERS = ("samples", "duplicate_samples", "backward_samples", "nan_samples")


class Clock(Stateful):
    """Filter that drops non-finite samples and timestamps that do not increase, and marks where a stretch begins.

    A stretch begins after a gap, and where samples before the first one, or in the latest gap, have gone on for
    `RESTART_S`. Causal without delay: whether a sample is kept depends only on the samples before it.

    >>> clock = Clock(0.5)
    >>> keep, first = clock.push(np.zeros((4, 1)), np.array([0.0, 0.1, 0.1, 9.0]))
    >>> keep.tolist(), first.tolist()
    ([True, True, False, True], [True, False, True])
    """

    def __init__(self, max_gap_s: float = MAX_GAP_S) -> None:
        self.max_gap_s = max_gap_s
        self.last_s_ = -np.inf
        self.counts_ = np.zeros(len(COUNTERS), np.int64)
        self.earlier_ = np.zeros(3)  # steady samples before the latest one: number, first and last time
        self.bounds_ = np.array([np.inf, -np.inf, np.inf])  # first time of all; start and end of the latest gap

    def _fits(self, name: str, value: Array, current: Array) -> bool:  # noqa: ARG002
        return value.shape == current.shape

    @property
    def facts(self) -> dict[str, Any]:
        return dict(zip(COUNTERS, self.counts_.tolist(), strict=True))

    @property
    def dropped(self) -> int:
        return int(self.counts_[1:].sum())

    def push(self, values: Array, time_s: Array) -> tuple[Array, Array]:
        """Return which samples are kept, (n,) bool, and which of those start a stretch, (kept,) bool."""
        # Fast path: nearly every live chunk is finite and in order.
        if len(time_s) and _all_finite(values) and _all_finite(time_s):
            before = np.concatenate(([self.last_s_], time_s[:-1]))
            step = time_s - before
            if step.min() > 0:
                self._note_gap(before, time_s)
                self.counts_[0] += len(step)
                self.last_s_ = float(time_s[-1])
                self.earlier_[0] = 0
                return np.ones(len(step), bool), step > self.max_gap_s
        latest = self.last_s_
        moments = np.where(np.isfinite(values).all(axis=1) & np.isfinite(time_s), time_s, np.nan)
        keep = np.zeros(len(moments), bool)
        for start in range(0, len(moments), PIECE):
            at, stop = start, min(start + PIECE, len(moments))
            while at < stop:
                at += self._filter(moments[at:stop], keep[at:stop])
                if at < stop:
                    self._restart(float(moments[at]))
                    keep[at] = True
                    at += 1
        return keep, _begins(np.concatenate(([latest], time_s[keep])), self.max_gap_s)

    def _filter(self, moments: Array, keep: Array) -> int:
        """Set which samples are kept, NaN marking unusable ones; return how many were examined, up to a restart."""
        latest = np.fmax.accumulate(np.concatenate(([self.last_s_], moments)))
        before = latest[:-1]
        restart = self._find_restart(moments, before)
        end = len(moments) if restart is None else restart
        moments, before = moments[:end], before[:end]
        keep[:end] = moments > before
        self.counts_ += [np.sum(sort) for sort in (keep[:end], moments == before, moments < before, np.isnan(moments))]
        self.last_s_ = float(latest[end])
        return end

    def _find_restart(self, moments: Array, before: Array) -> int | None:
        """Return the first sample that starts a new stretch although it lies before the latest one, or None."""
        passed = 0
        for i in np.flatnonzero(moments < before).tolist():
            self._pass(before[passed:i], moments[passed:i])
            passed = i
            if self._is_restart(float(moments[i])):
                return i
        self._pass(before[passed:], moments[passed:])
        return None

    def _pass(self, before: Array, moments: Array) -> None:
        """Note samples after the latest one: those before it no longer go on steadily."""
        if (moments > before).any():
            self.earlier_[0] = 0
            self._note_gap(before, moments)

    def _restart(self, moment: float) -> None:
        """Keep a sample before the latest one as the first of a new stretch."""
        self.counts_[0] += 1
        self.last_s_, self.earlier_[0] = moment, 0
        if moment < self.bounds_[0]:
            self.bounds_[:2] = moment, -np.inf
        self.bounds_[2] = moment

    def _note_gap(self, before: Array, moments: Array) -> None:
        """Store the latest gap between samples and the latest time before each of them."""
        found = np.flatnonzero(moments - before > self.max_gap_s)
        if len(found):
            self.bounds_[1:] = before[found[-1]], moments[found[-1]]
            self.bounds_[0] = min(self.bounds_[0], moments[found[0]])

    def _is_restart(self, moment: float) -> bool:
        """Count a sample before the latest one; return whether a new stretch starts with it."""
        count, first, last = self.earlier_.tolist()
        start, gap_from, gap_to = self.bounds_.tolist()
        if not (moment < start or gap_from < moment < gap_to):
            self.earlier_[0] = 0
            return False
        if count and abs(moment - last) <= self.max_gap_s:
            count, last = count + 1, max(last, moment)
        else:
            count, first, last = 1, moment, moment
        self.earlier_[:] = count, first, last
        return bool(count >= RESTART_SAMPLES and last - first >= RESTART_S and moment == last)


def drop_invalid(
    recording: Recording, *, max_gap_s: float = MAX_GAP_S, overwrite: bool = False
) -> tuple[Recording, dict[str, Any]]:
    """Drop non-finite samples and timestamps that do not increase; return the recording and the counts.

    With `overwrite`, its arrays are reused, and it must not be used afterwards.
    """
    clock = Clock(gap_limit_s(max_gap_s, recording.rate_hz))
    keep = {}  # of the blocks that lose samples, by their first row
    for block in blocks(0, len(recording.values)):
        kept, _ = clock.push(recording.values[block], recording.time_s[block])
        if not kept.all():
            keep[block.start] = kept
    if keep:
        values, time_s = (_compacted(array, keep, overwrite) for array in (recording.values, recording.time_s))
        labels = None if recording.labels is None else _compacted(recording.labels, keep, overwrite)
        recording = replace(recording, values=values, time_s=time_s, labels=labels)
    return recording, clock.facts


def shortened(array: Array, rows: int) -> Array:
    """Return the first rows of an array, in place; the memory of the others is freed if the array owns it."""
    if not (array.flags.owndata and array.flags.c_contiguous):
        return array[:rows]
    array.resize((rows, *array.shape[1:]), refcheck=False)
    return array


def gap_limit_s(max_gap_s: float, rate_hz: float) -> float:
    """Return the shortest pause that counts as a gap: `max_gap_s`, and more than one lost sample of a slow sensor."""
    if not rate_hz > 0:
        raise ValueError(f"Expected a sampling rate above 0 Hz, got {rate_hz:g}; set rate (--rate).")
    return max(max_gap_s, 1.5 / rate_hz)


def stretches(time_s: Array, max_gap_s: float) -> list[slice]:
    """Split the timestamps of valid samples where stretches begin.

    >>> [(s.start, s.stop) for s in stretches(np.array([0, 0.1, 9, 9.1, 20]), 0.5)]
    [(0, 2), (2, 4), (4, 5)]
    """
    begins = [
        block.start + np.flatnonzero(_begins(time_s[block.start - 1 : block.stop], max_gap_s))
        for block in blocks(1, len(time_s))
    ]
    edges = [0, *(int(first) for found in begins for first in found), len(time_s)]
    return [slice(start, stop) for start, stop in pairwise(edges) if stop > start]


def blocks(start: int, stop: int) -> Iterator[slice]:
    """Split a range of rows into slices of at most `BLOCK` rows."""
    for first in range(start, stop, BLOCK):
        yield slice(first, min(first + BLOCK, stop))


def _compacted(array: Array, keep: Mapping[int, Array], overwrite: bool) -> Array:
    """Return the rows to keep, moved to the front of the array; `keep` has the blocks that lose rows."""
    array, end = array if overwrite and array.flags.writeable else array.copy(), 0
    for block in blocks(0, len(array)):
        rows = array[block][keep.get(block.start, slice(None))]
        array[end : end + len(rows)] = rows
        end += len(rows)
    return shortened(array, end)


def _begins(time_s: Array, max_gap_s: float) -> Array:
    """Return for each time but the first whether a stretch begins with it, (n - 1,) bool."""
    step = np.diff(time_s)
    return np.asarray((step > max_gap_s) | (step <= 0))


def _all_finite(values: Array) -> bool:
    """Return whether all values are finite, by one dot product; may be False for very large finite values."""
    flat = values.reshape(-1)
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.dot(flat, flat)))
