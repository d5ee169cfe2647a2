"""Windows on a regular clock: in time order, never across a gap, unlabelled ones kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sight.signal.clock import BLOCK, MAX_GAP_S, Clock, check_rate, gap_limit_s, tidy
from sight.signal.resample import Grid, resample
from sight.types import UNLABELLED, Array, Facts, Recording, Windows

LABEL_RULES = ("majority", "whole", "centre")
#: Pause assumed between two recordings of which one does not tell when it began: long enough to forget.
UNKNOWN_GAP_S = 3600.0


def cut(
    recording: Recording,
    *,
    window_s: float,
    stride_s: float,
    max_gap_s: float = MAX_GAP_S,
    label_rule: str = "majority",
    rate_hz: float | None = None,
) -> Windows:
    """Cut a recording into windows; zero of them where it is shorter than one.

    Parameters
    ----------
    recording
        On any clock; it is tidied and put on a regular one first.
    window_s, stride_s
        Length of a window and distance between two, rounded to whole samples.
    max_gap_s
        A longer pause is a gap, and no window spans it.
    label_rule
        "majority": the label that most samples have, the lower one in a tie, none where most have none.
        "whole": the label that all samples share. "centre": the label of the sample in the middle.
    rate_hz
        Rate of the windows; None keeps the recording's.

    Examples
    --------
    >>> recording = Recording(values=np.arange(6.0)[:, None], time_s=np.array([0, 1, 2, 9, 10, 11]), unit="g",
    ...                       channels=("x",), rate_hz=1.0, labels=np.array([0, 0, 1, 1, 1, -1]))
    >>> windows = cut(recording, window_s=2, stride_s=1)
    >>> windows.x[:, 0].tolist()
    [[0.0, 1.0], [1.0, 2.0], [3.0, 4.0], [4.0, 5.0]]
    >>> windows.label.tolist(), windows.gap_before_s.tolist()
    ([0, 0, 1, 1], [0.0, 0.0, 6.0, 0.0])
    """
    recording, facts = tidy(recording, max_gap_s=max_gap_s)
    check_rate(recording, facts, max_gap_s=max_gap_s)
    grid, more = resample(recording, rate_hz or recording.rate_hz, max_gap_s=max_gap_s)
    windows = frame(grid, window_s=window_s, stride_s=stride_s, label_rule=label_rule)
    return replace(windows, start=recording.start, facts={**recording.facts, **facts, **more, **windows.facts})


def frame(grid: Grid, *, window_s: float, stride_s: float, label_rule: str = "majority") -> Windows:
    """Cut a recording that is already on a regular clock."""
    length, stride = whole_samples(window_s, grid.rate_hz), whole_samples(stride_s, grid.rate_hz)
    starts = [np.arange(piece.start, piece.stop - length + 1, stride) for piece in grid.pieces]
    first = np.concatenate([np.empty(0, np.int64), *starts])
    begins = np.concatenate([np.empty(0, bool), *(np.arange(len(some)) == 0 for some in starts)])
    time_s = grid.time_s[first]
    x = np.empty((len(first), grid.values.shape[1], length), grid.values.dtype)
    at_once = max(BLOCK // length, 1)
    for some in (slice(i, i + at_once) for i in range(0, len(first), at_once)):
        x[some] = sliding_window_view(grid.values, length, axis=0)[first[some]]
    label = labels_of(grid.labels, first, length, label_rule)
    span = length / grid.rate_hz
    facts = {"windows": len(x), "windows_unlabelled": int((label == UNLABELLED).sum()), "label_rule": label_rule}
    return Windows(
        x=x,
        time_s=time_s,
        label=label,
        gap_before_s=gaps_between(time_s, begins, span),
        window_s=span,
        stride_s=stride / grid.rate_hz,
        facts=facts,
    )


def features(recording: Recording, *, max_gap_s: float = MAX_GAP_S) -> Windows:
    """Turn a recording of feature vectors into windows of one sample each; nothing is resampled or filled.

    Notes
    -----
    A feature that is missing stays NaN: what to put there is known at training only.
    """
    clock = Clock(gap_limit_s(max_gap_s, recording.rate_hz))
    keep, begins = clock.push(np.zeros((len(recording.values), 1)), recording.time_s)
    time_s, span = recording.time_s[keep], 1 / recording.rate_hz
    none = np.full(len(recording.values), UNLABELLED)
    x = recording.values[keep][:, :, None]
    facts = {**clock.facts, "gaps": int(begins[1:].sum())}
    return Windows(
        x=x,
        time_s=time_s,
        label=(none if recording.labels is None else recording.labels)[keep],
        gap_before_s=gaps_between(time_s, begins, span),
        window_s=span,
        stride_s=span,
        start=recording.start,
        facts={**recording.facts, **facts, "nan_share": float(np.isnan(x).mean()) if x.size else 0.0},
    )


def join(parts: Sequence[Windows], *, unknown_gap_s: float = UNKNOWN_GAP_S) -> Windows:
    """Join the windows of one person's recordings in time order, with the pause between them as a gap.

    Parameters
    ----------
    parts
        One for each recording. Where all tell when they began they are put in that order; else their order holds.
    unknown_gap_s
        Pause assumed where a recording does not tell when it began.

    Notes
    -----
    Times count from the start of the first recording. Recordings that overlap have no gap between them. Facts that
    are counts, or totals in seconds, are added; others are kept where all agree.
    """
    if not parts:
        raise ValueError("Expected at least one recording to join, got none; is the folder empty?")
    shapes = {(part.x.shape[1:], part.stride_s) for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"Expected windows of one shape and stride to join, got {sorted(shapes)}; cut them alike.")
    if all(part.start is not None for part in parts):
        parts = sorted(parts, key=lambda part: part.start or datetime.min.replace(tzinfo=UTC))
    shifts, gaps, end = [], [], None
    for part in parts:
        shift = _shift(part, parts[0].start, end, unknown_gap_s)
        gap = part.gap_before_s.astype(np.float64)
        if len(part):
            if end is not None:
                gap[0] = max(float(part.time_s[0]) + shift - end, 0.0)
            end = float(part.time_s[-1]) + shift + part.window_s
        shifts.append(shift)
        gaps.append(gap)
    return replace(
        parts[0],
        x=np.concatenate([part.x for part in parts]),
        time_s=np.concatenate([part.time_s + shift for part, shift in zip(parts, shifts, strict=True)]),
        label=np.concatenate([part.label for part in parts]),
        gap_before_s=np.concatenate(gaps),
        wear=np.concatenate([np.asarray(part.wear) for part in parts]),
        facts={"recordings": len(parts), **merge([part.facts for part in parts])},
    )


def merge(facts: Sequence[Facts]) -> dict[str, Any]:
    """Add counts and totals, keep what agrees, leave out the rest.

    Examples
    --------
    >>> merge([{"gaps": 1, "gap_total_s": 0.5, "rate_hz": 50.0}, {"gaps": 2, "rate_hz": 50.0, "file": "b"}])
    {'gaps': 3, 'gap_total_s': 0.5, 'rate_hz': 50.0, 'file': 'b'}
    """
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for some in facts for name in some):
        values = [some[name] for some in facts if name in some]
        if name.endswith("_total_s") or all(type(value) is int for value in values):
            merged[name] = sum(values)
        elif all(value == values[0] for value in values):
            merged[name] = values[0]
    return merged


def labels_of(labels: Array | None, first: Array, length: int, rule: str) -> Array:
    """Label the windows that begin at `first`, (N,), by a rule of `LABEL_RULES`."""
    if rule not in LABEL_RULES:
        raise ValueError(f"Expected a label rule out of {', '.join(LABEL_RULES)}, got {rule!r}.")
    if labels is None or not len(first):
        return np.full(len(first), UNLABELLED)
    if rule == "centre":
        return np.asarray(labels[first + length // 2], np.int64)
    if rule == "whole":
        changes = np.concatenate(([0], np.cumsum(labels[1:] != labels[:-1])))
        same = changes[first + length - 1] == changes[first]
        return np.where(same, labels[first], UNLABELLED).astype(np.int64)
    best, winner = np.zeros(len(first), np.int64), np.full(len(first), UNLABELLED)
    so_far = np.zeros(len(labels) + 1, np.int32)
    for kind in (*range(int(labels.max()) + 1), UNLABELLED):
        np.cumsum(labels == kind, out=so_far[1:])
        count = so_far[first + length] - so_far[first]
        winner[count > best] = kind
        best = np.maximum(best, count)
    return winner


def gaps_between(time_s: Array, begins: Array, window_s: float) -> Array:
    """Seconds between the end of a window and the start of the next where a stretch begins, else 0."""
    gap = np.zeros(len(time_s))
    later = np.flatnonzero(begins[1:]) + 1
    gap[later] = np.maximum(time_s[later] - (time_s[later - 1] + window_s), 0.0)
    return gap


def whole_samples(seconds: float, rate_hz: float) -> int:
    """Round a length in seconds to samples, at least one.

    Examples
    --------
    >>> whole_samples(2.0, 50), whole_samples(1.905, 58.8)
    (100, 112)
    """
    if not seconds > 0:
        raise ValueError(f"Expected window_s and stride_s above 0 s, got {seconds:g}.")
    return max(round(seconds * rate_hz), 1)


def _shift(part: Windows, start: datetime | None, end: float | None, unknown_gap_s: float) -> float:
    if part.start is not None and start is not None:
        return (part.start - start).total_seconds()
    if end is None or not len(part):
        return 0.0
    return end + unknown_gap_s - float(part.time_s[0])
