"""The clock of a recording: what is dropped, where the gaps are, and whether one rate fits it.

A gap is a pause longer than `max_gap_s`. Sensors do much that is not a gap: blocks that jump by some milliseconds,
bursts of samples sent too fast, single samples lost. Those are counted and left to the regular clock of
`sight.signal.resample`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sight.state import Stateful
from sight.types import Array, Recording

MAX_GAP_S = 0.5
#: Rows worked on at once; keeps a day of samples within a few hundred megabytes.
BLOCK = 1 << 18
#: Intervals within half a period of the nominal one, of all that are neither burst nor gap.
FITTING_SHARE = 0.7
#: What the clock counts.
COUNTED = ("samples", "duplicate_samples", "backward_samples", "nan_samples")


class Clock(Stateful):
    """Drops samples that do not move time forward or hold no number, and marks where a gap ends.

    Parameters
    ----------
    max_gap_s
        A longer pause is a gap.

    Notes
    -----
    Causal without delay: whether a sample stays depends on samples before it alone.

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
        self.counts_ = np.zeros(len(COUNTED), np.int64)

    @property
    def facts(self) -> dict[str, int]:
        """How many samples stayed, and how many did not and why."""
        return dict(zip(COUNTED, self.counts_.tolist(), strict=True))

    def push(self, values: Array, time_s: Array) -> tuple[Array, Array]:
        """Return which samples stay, (n,) bool, and which of those begin a stretch, (kept,) bool."""
        # Nearly every live chunk is whole and in order, and nothing has to be sorted out.
        if len(time_s) and _numbers(values) and _numbers(time_s):
            step = time_s - np.concatenate(([self.last_s_], time_s[:-1]))
            if step.min() > 0:
                self.counts_[0] += len(step)
                self.last_s_ = float(time_s[-1])
                return np.ones(len(step), bool), step > self.max_gap_s
        return self._sort_out(values, time_s)

    def _sort_out(self, values: Array, time_s: Array) -> tuple[Array, Array]:
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


def _numbers(values: Array) -> bool:
    """Whether all values are finite, at the price of one product; a no may be wrong where they are huge."""
    flat = values.reshape(-1)
    return bool(np.isfinite(np.dot(flat, flat)))


def gap_limit_s(max_gap_s: float, rate_hz: float) -> float:
    """Return the pause that counts as a gap; one lost sample of a slow sensor never does."""
    if not rate_hz > 0:
        raise ValueError(f"Expected a sampling rate above 0 Hz, got {rate_hz:g}; give rate_hz.")
    return max(max_gap_s, 1.5 / rate_hz)


def tidy(recording: Recording, *, max_gap_s: float = MAX_GAP_S) -> tuple[Recording, dict[str, Any]]:
    """Drop samples without a number or without progress in time, and say what the clock looks like.

    Examples
    --------
    >>> recording = Recording(values=np.zeros((4, 1)), time_s=np.array([0, 0.1, 0.1, 9]), channels=("x",), unit="g",
    ...                       rate_hz=10)
    >>> clean, facts = tidy(recording)
    >>> clean.time_s.tolist(), facts["duplicate_samples"], facts["gaps"], facts["gap_total_s"]
    ([0.0, 0.1, 9.0], 1, 1, 8.9)
    """
    clock = Clock(gap_limit_s(max_gap_s, recording.rate_hz))
    keep = np.empty(len(recording.values), dtype=bool)
    for block in blocks(0, len(keep)):
        keep[block] = clock.push(recording.values[block], recording.time_s[block])[0]
    if not keep.all():
        labels = None if recording.labels is None else recording.labels[keep]
        recording = replace(recording, values=recording.values[keep], time_s=recording.time_s[keep], labels=labels)
    return recording, clock.facts | describe(recording.time_s, recording.rate_hz, max_gap_s=max_gap_s)


def describe(time_s: Array, rate_hz: float, *, max_gap_s: float = MAX_GAP_S) -> dict[str, Any]:
    """Return the facts of an increasing clock: gaps, bursts, holes, jitter, measured rate."""
    tally = _tally(time_s, rate_hz, gap_limit_s(max_gap_s, rate_hz))
    steady = max(tally["steady"], 1)
    variance = tally["off2_s2"] / steady - (tally["off_s"] / steady) ** 2
    return {
        "gaps": int(tally["gaps"]),
        "gap_total_s": tally["gap_s"],
        "gap_longest_s": tally["longest_s"],
        "burst_samples": int(tally["bursts"]),
        "bridged_holes": int(tally["holes"]),
        "jitter_ms": 1e3 * max(variance, 0.0) ** 0.5,
        "rate_nominal_hz": float(rate_hz),
        "rate_measured_hz": estimate_rate(time_s) if len(time_s) > 1 else float(rate_hz),
    }


def estimate_rate(time_s: Array) -> float:
    """Estimate the sampling rate from timestamps; gaps, bursts and repeats do not sway it.

    Examples
    --------
    >>> round(estimate_rate(np.array([0, 0.016, 0.033, 0.05, 0.05, 7.0, 7.017])), 1)
    59.7
    """
    every = max(len(time_s) // BLOCK, 1)
    some = time_s[1::every] - time_s[:-1:every]
    some = some[some > 0]
    if not len(some):
        if len(time_s) > 1 and time_s[-1] < time_s[0]:
            raise ValueError("Expected timestamps that go on, got some that only run backwards; sort the rows by time.")
        raise ValueError("Expected at least two different timestamps to tell the rate, got one; give rate_hz.")
    usual = np.quantile(some, 0.5, method="lower")
    count, total = 0, 0.0
    for interval in _intervals(time_s):
        near = interval[np.abs(interval - usual) <= 0.5 * usual]
        count, total = count + len(near), total + float(near.sum())
    return count / total


def check_rate(recording: Recording, facts: dict[str, Any], *, max_gap_s: float = MAX_GAP_S) -> None:
    """Refuse a tidy recording whose timestamps fit no single rate even after bursts and gaps are removed.

    Parameters
    ----------
    recording, facts
        What `tidy` returned.
    max_gap_s
        A longer pause is a gap.
    """
    who = f"Recording {recording.subject!r}" if recording.subject else "The recording"
    lost = facts["duplicate_samples"] + facts["backward_samples"]
    if lost > facts["samples"]:
        raise ValueError(
            f"{who} has {lost} of {lost + facts['samples']} samples whose timestamp repeats or goes back; "
            f"give timestamps that increase, or a rate_hz and no time column."
        )
    if len(recording.time_s) < 3:
        return
    fitting = _fitting_share(recording.time_s, recording.rate_hz, max_gap_s)
    if fitting >= FITTING_SHARE:
        return
    measured = facts["rate_measured_hz"]
    other = _fitting_share(recording.time_s, measured, max_gap_s) >= FITTING_SHARE
    remedy = f"give rate_hz={measured:.4g}" if other else "split it where the rate changes, or resample it beforehand"
    raise ValueError(
        f"{who} should tick at {recording.rate_hz:g} Hz, but only {fitting:.0%} of its intervals do once bursts and "
        f"gaps are removed, so its timestamps fit {'another' if other else 'no single'} rate; {remedy}."
    )


def _fitting_share(time_s: Array, rate_hz: float, max_gap_s: float) -> float:
    tally = _tally(time_s, rate_hz, gap_limit_s(max_gap_s, rate_hz))
    within = tally["steady"] + tally["bursts"]
    if tally["bursts"] > within / 2:
        return tally["steady"] / within
    return 1.0 - tally["holes"] / max(tally["steady"], 1)


def _tally(time_s: Array, rate_hz: float, limit_s: float) -> dict[str, float]:
    """Sort the intervals of a clock into gaps, bursts and steady ones, and sum them up block by block."""
    names = ("gaps", "gap_s", "bursts", "steady", "holes", "off_s", "off2_s2")
    total, longest = np.zeros(len(names)), 0.0
    for interval in _intervals(time_s):
        gap, burst = interval > limit_s, interval < 0.5 / rate_hz
        pauses, off = interval[gap], interval[~gap & ~burst] - 1 / rate_hz
        holes = np.sum(off > 0.5 / rate_hz)
        total += [len(pauses), pauses.sum(), burst.sum(), len(off), holes, off.sum(), (off**2).sum()]
        longest = max(longest, float(pauses.max(initial=0.0)))
    return dict(zip(names, total.tolist(), strict=True)) | {"longest_s": longest}


def _intervals(time_s: Array) -> Iterator[Array]:
    for block in blocks(1, len(time_s)):
        yield np.diff(time_s[block.start - 1 : block.stop])


def stretches(time_s: Array, max_gap_s: float) -> list[slice]:
    """Cut an increasing clock at its gaps.

    Examples
    --------
    >>> [(s.start, s.stop) for s in stretches(np.array([0, 0.1, 9, 9.1, 20]), 0.5)]
    [(0, 2), (2, 4), (4, 5)]
    """
    edges = [0, *(np.flatnonzero(np.diff(time_s) > max_gap_s) + 1).tolist(), len(time_s)]
    return [slice(start, stop) for start, stop in pairwise(edges) if stop > start]


def blocks(start: int, stop: int) -> Iterator[slice]:
    """Cut a range of rows into pieces of at most `BLOCK`."""
    for first in range(start, stop, BLOCK):
        yield slice(first, min(first + BLOCK, stop))
