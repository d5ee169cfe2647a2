"""Sampling rate of a recording: estimated from its timestamps and checked against the nominal rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sight.signal.clock import BLOCK, MAX_GAP_S, blocks, gap_limit_s
from sight.types import Array, Recording

#: Smallest accepted share of intervals within half a period of the nominal one, bursts and gaps excluded.
FITTING_SHARE = 0.7


def interval_facts(time_s: Array, rate_hz: float, *, max_gap_s: float = MAX_GAP_S) -> dict[str, Any]:
    """Return gaps, bursts, bridged holes, jitter and the measured rate of increasing timestamps."""
    sums = _interval_sums(time_s, rate_hz, max_gap_s)
    steady = max(sums["steady"], 1)
    variance = sums["off2_s2"] / steady - (sums["off_s"] / steady) ** 2
    return {
        "gaps": int(sums["gaps"]),
        "gap_total_s": sums["gap_s"],
        "gap_longest_s": sums["longest_s"],
        "burst_samples": int(sums["bursts"]),
        "bridged_holes": int(sums["holes"]),
        "jitter_ms": 1e3 * max(variance, 0.0) ** 0.5,
        "rate_nominal_hz": float(rate_hz),
        "rate_measured_hz": estimate_rate(time_s) if len(time_s) > 1 else float(rate_hz),
    }


def estimate_rate(time_s: Array) -> float:
    """Estimate the sampling rate from timestamps, robust to gaps, bursts and repeated times.

    Examples
    --------
    >>> round(estimate_rate(np.array([0, 0.016, 0.033, 0.05, 0.05, 7.0, 7.017])), 1)
    59.7
    """
    step = max(len(time_s) // BLOCK, 1)
    sampled = time_s[1::step] - time_s[:-1:step]
    sampled = sampled[sampled > 0]
    if not len(sampled):
        if len(time_s) > 1 and time_s[-1] < time_s[0]:
            raise ValueError("Expected increasing timestamps, got decreasing ones only; sort the rows by time.")
        raise ValueError("Expected at least two different timestamps to estimate the rate, got one; give rate_hz.")
    usual = np.quantile(sampled, 0.5, method="lower")
    count, total = 0, 0.0
    for interval in _intervals(time_s):
        near = interval[np.abs(interval - usual) <= 0.5 * usual]
        count, total = count + len(near), total + float(near.sum())
    return count / total


def check_rate(recording: Recording, facts: dict[str, Any], *, max_gap_s: float = MAX_GAP_S) -> None:
    """Raise ValueError if the timestamps do not fit the nominal rate, bursts and gaps excluded.

    Parameters
    ----------
    recording
        Without invalid samples.
    facts
        Counts of `drop_invalid` and `interval_facts` of the recording.
    max_gap_s
        A longer pause is a gap.
    """
    name = f"Recording {recording.subject!r}" if recording.subject else "The recording"
    lost = facts["duplicate_samples"] + facts["backward_samples"]
    if lost > facts["samples"]:
        raise ValueError(
            f"{name} has {lost} of {lost + facts['samples']} samples whose timestamp repeats or goes back; "
            f"give timestamps that increase, or a rate_hz and no time column."
        )
    if len(recording.time_s) < 3:
        return
    fitting = _fitting_share(recording.time_s, recording.rate_hz, max_gap_s)
    if fitting >= FITTING_SHARE:
        return
    measured = facts["rate_measured_hz"]
    found, remedy = "no single rate", "split it where the rate changes, or resample it beforehand"
    if _fitting_share(recording.time_s, measured, max_gap_s) >= FITTING_SHARE:
        found, remedy = "another rate", f"give rate_hz={measured:.4g}"
    raise ValueError(
        f"{name}: expected samples at {recording.rate_hz:g} Hz, but only {fitting:.0%} of the intervals match "
        f"(bursts and gaps excluded); the timestamps fit {found}; {remedy}."
    )


def _fitting_share(time_s: Array, rate_hz: float, max_gap_s: float) -> float:
    sums = _interval_sums(time_s, rate_hz, max_gap_s)
    within = sums["steady"] + sums["bursts"]
    if sums["bursts"] > within / 2:
        return sums["steady"] / within
    return 1.0 - sums["holes"] / max(sums["steady"], 1)


def _interval_sums(time_s: Array, rate_hz: float, max_gap_s: float) -> dict[str, float]:
    """Classify the intervals as gaps, bursts and steady ones; return counts and sums."""
    limit_s = gap_limit_s(max_gap_s, rate_hz)
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
