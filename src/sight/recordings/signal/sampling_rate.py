"""Sampling rate of a recording: estimated from its timestamps and checked against the nominal rate."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sight.recordings.signal.clock import BLOCK, MAX_GAP_S, blocks, gap_limit_s
from sight.types import Array, Recording

#: Smallest accepted share of intervals within half a period of the nominal one, bursts and gaps excluded.
FITTING_SHARE = 0.7


def interval_facts(time_s: Array, rate_hz: float, *, max_gap_s: float = MAX_GAP_S) -> dict[str, Any]:
    """Return gaps, bursts, bridged holes, jitter and the measured rate of increasing timestamps."""
    limit_s, total, longest_s = gap_limit_s(max_gap_s, rate_hz), np.zeros(7), 0.0
    for interval in _intervals(time_s):
        gap, burst = interval > limit_s, interval < 0.5 / rate_hz
        pauses, off = interval[gap], interval[~gap & ~burst] - 1 / rate_hz  # deviations of the steady intervals
        holes = np.sum(off > 0.5 / rate_hz)
        total += [len(pauses), pauses.sum(), burst.sum(), holes, len(off), off.sum(), (off**2).sum()]
        longest_s = max(longest_s, float(pauses.max(initial=0.0)))
    gaps, gap_s, bursts, bridged, steady, off_s, off2_s2 = total.tolist()
    variance = off2_s2 / max(steady, 1) - (off_s / max(steady, 1)) ** 2
    return {
        "gaps": int(gaps),
        "gap_total_s": gap_s,
        "gap_longest_s": longest_s,
        "burst_samples": int(bursts),
        "bridged_holes": int(bridged),
        "jitter_ms": round(1e3 * max(variance, 0.0) ** 0.5, 6),  # rounding errors of the times are no jitter
        "rate_nominal_hz": float(rate_hz),
        "rate_measured_hz": estimate_rate(time_s) if len(time_s) > 1 else float(rate_hz),
    }


def estimate_rate(time_s: Array) -> float:
    """Estimate the sampling rate from timestamps, robust to gaps, bursts and repeated times.

    >>> round(estimate_rate(np.array([0, 0.016, 0.033, 0.05, 0.05, 7.0, 7.017])), 1)
    59.7
    """
    step = max(len(time_s) // BLOCK, 1)
    sampled = time_s[1::step] - time_s[:-1:step]
    sampled = sampled[sampled > 0]
    if not len(sampled):
        if len(time_s) > 1 and time_s[-1] < time_s[0]:
            raise ValueError("Expected increasing timestamps, got decreasing ones only; sort the rows by time.")
        raise ValueError("Expected at least two different timestamps to estimate the rate, got one; set rate (--rate).")
    usual = np.quantile(sampled, 0.5, method="lower")
    count, total = 0, 0.0
    for interval in _intervals(time_s):
        near = interval[np.abs(interval - usual) <= 0.5 * usual]
        count, total = count + len(near), total + float(near.sum())
    return count / total


def check_rate(recording: Recording, facts: dict[str, Any], *, max_gap_s: float = MAX_GAP_S) -> None:
    """Raise ValueError if the timestamps do not fit the nominal rate, bursts and gaps excluded.

    `facts` are those that `drop_invalid` and `interval_facts` return for the recording.
    """
    name = f"Recording {recording.subject!r}" if recording.subject else "The recording"
    samples, lost = facts["samples"], facts["duplicate_samples"] + facts["backward_samples"]
    if lost > samples:
        raise ValueError(
            f"{name} has {lost} of {lost + samples} samples whose timestamp repeats or goes back; "
            f"give timestamps that increase, or set rate (--rate) and no time column (--columns time=)."
        )
    fitting = _fitting_share(samples, facts)
    if samples < 3 or fitting >= FITTING_SHARE:
        return
    measured = facts["rate_measured_hz"]
    found, remedy = "no single rate", "split it where the rate changes, or resample it beforehand"
    other = interval_facts(recording.time_s, measured, max_gap_s=max_gap_s)
    if _fitting_share(samples, other) >= FITTING_SHARE:
        found, remedy = "another rate", f"set rate (--rate {measured:.4g})"
    raise ValueError(
        f"{name}: expected samples at {recording.rate_hz:g} Hz, but only {fitting:.0%} of the intervals match "
        f"(bursts and gaps excluded); the timestamps fit {found}; {remedy}."
    )


def _fitting_share(samples: int, facts: dict[str, Any]) -> float:
    within = samples - 1 - facts["gaps"]
    steady = within - facts["burst_samples"]
    if facts["burst_samples"] > within / 2:
        return float(steady / within)
    return float(1.0 - facts["bridged_holes"] / max(steady, 1))


def _intervals(time_s: Array) -> Iterator[Array]:
    for block in blocks(1, len(time_s)):
        yield np.diff(time_s[block.start - 1 : block.stop])
