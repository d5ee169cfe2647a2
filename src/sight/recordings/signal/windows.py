"""Windows from regularly sampled stretches: in time order, never across a gap, unlabelled ones kept."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sight.recordings.signal.clock import BLOCK, MAX_GAP_S, Clock, gap_limit_s
from sight.types import UNLABELLED, Array, Epochs, Recording, RecordingFacts, Windows

LABEL_RULES = ("majority", "whole", "centre")
#: Pause assumed between two recordings if one has no start time; long enough for methods to relax.
UNKNOWN_GAP_S = 3600.0


def cut(
    recording: Recording, stretches: Sequence[slice], *, window_s: float, stride_s: float, label_rule: str = "majority"
) -> Windows:
    """Cut windows from the regularly sampled stretches of a recording; none from a stretch shorter than a window.

    >>> recording = Recording(values=np.arange(6.0)[:, None], time_s=np.array([0.0, 1, 2, 9, 10, 11]), unit="g",
    ...                       channels=("x",), rate_hz=1.0, labels=np.array([0, 0, 1, 1, 1, -1]))
    >>> windows = cut(recording, [slice(0, 3), slice(3, 6)], window_s=2, stride_s=1)
    >>> windows.x[:, 0].tolist()
    [[0.0, 1.0], [1.0, 2.0], [3.0, 4.0], [4.0, 5.0]]
    >>> windows.label.tolist(), windows.gap_before_s.tolist()
    ([0, 0, 1, 1], [0.0, 0.0, 6.0, 0.0])
    """
    rate_hz, values = recording.rate_hz, recording.values
    length, stride = whole_samples(window_s, rate_hz), whole_samples(stride_s, rate_hz)
    starts = [np.arange(stretch.start, stretch.stop - length + 1, stride) for stretch in stretches]
    first = np.concatenate([np.empty(0, np.int64), *starts])
    begins = np.concatenate([np.empty(0, bool), *(np.arange(len(start)) == 0 for start in starts)])
    time_s, span = recording.time_s[first], length / rate_hz
    x = np.empty((len(first), values.shape[1], length), values.dtype)
    at_once = max(BLOCK // length, 1)
    for block in (slice(i, i + at_once) for i in range(0, len(first), at_once)):
        x[block] = sliding_window_view(values, length, axis=0)[first[block]]
    label = label_windows(recording.labels, first, length, label_rule)
    unlabelled = int((label == UNLABELLED).sum())
    return Windows(
        x=x,
        time_s=time_s,
        label=label,
        gap_before_s=_gap_before(time_s, begins, span),
        window_s=span,
        stride_s=stride / rate_hz,
        facts=replace(recording.facts, windows=len(x), windows_unlabelled=unlabelled, label_rule=label_rule),
    )


def feature_windows(recording: Recording, *, max_gap_s: float = MAX_GAP_S) -> Windows:
    """Turn a recording of feature vectors into windows of one sample, without resampling.

    Missing features stay NaN; the source model fills them with values from its training data.
    """
    clock = Clock(gap_limit_s(max_gap_s, recording.rate_hz))
    keep, begins = clock.push(np.zeros((len(recording.values), 1)), recording.time_s)
    time_s, span = recording.time_s[keep], 1 / recording.rate_hz
    labels = np.full(len(keep), UNLABELLED) if recording.labels is None else recording.labels
    x = recording.values[keep][:, :, None]
    nan_share = float(np.isnan(x).mean()) if x.size else 0.0
    return Windows(
        x=x,
        time_s=time_s,
        label=labels[keep],
        gap_before_s=_gap_before(time_s, begins, span),
        window_s=span,
        stride_s=span,
        start=recording.start,
        warnings=recording.warnings,
        facts=replace(recording.facts, **clock.facts, gaps=int(begins[1:].sum()), nan_share=nan_share),
    )


def join(parts: Sequence[Windows], *, unknown_gap_s: float = UNKNOWN_GAP_S, one_clock: bool = False) -> Windows:
    """Join the windows of one subject's recordings in time order, with the pauses between them as gaps.

    Parts are sorted by start time if all have one; otherwise they keep their order, and `unknown_gap_s` is assumed
    between them. With `one_clock`, their times already count from the same moment. Times of the result count from the
    start of the first recording. Recordings that overlap have no gap between them.
    """
    if not parts:
        raise ValueError("Expected at least one recording to join, got none; is the folder empty?")
    shapes = {(part.x.shape[1:], part.stride_s) for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"Expected windows of one shape and stride to join, got {sorted(shapes)}; cut them alike.")
    if all(part.start is not None for part in parts):
        parts = sorted(parts, key=lambda part: part.start or datetime.min.replace(tzinfo=UTC))
    times, gaps, end, shifts = [], [], None, []
    for part in parts:
        shift = 0.0 if one_clock else _shift(part, parts[0].start, end, unknown_gap_s)
        shifts.append(shift)
        gap = part.gap_before_s.astype(np.float64)
        if len(part):
            if end is not None:
                gap[0] = max(float(part.time_s[0]) + shift - end, 0.0)
            end = float(part.time_s[-1]) + shift + part.window_s
        times.append(part.time_s + shift)
        gaps.append(gap)
    return replace(
        parts[0],
        x=np.concatenate([part.x for part in parts]),
        time_s=np.concatenate(times),
        label=np.concatenate([part.label for part in parts]),
        gap_before_s=np.concatenate(gaps),
        wear=np.concatenate([np.asarray(part.wear) for part in parts]),
        epochs=_joined_epochs([part.epochs for part in parts], shifts),
        warnings=tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
        facts=RecordingFacts.merged([part.facts for part in parts]),
    )


def _joined_epochs(parts: Sequence[Epochs | None], shifts: Sequence[float]) -> Epochs | None:
    """Join epochs whose times are shifted; of two that begin at the same time, the first is kept."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    joined = {each.name: np.concatenate([getattr(part, each.name) for part in known]) for each in fields(Epochs)}
    joined["time_s"] += np.repeat(shifts, [len(part.time_s) for part in known])
    _, first = np.unique(joined["time_s"].round(3), return_index=True)
    return Epochs(**{name: values[first] for name, values in joined.items()})


def label_windows(labels: Array | None, first: Array, length: int, rule: str) -> Array:
    """Return the label of each window of `length` samples, given the labels of all samples and `first` of each window.

    The rule "majority" takes the most frequent label, the lower one in a tie, -1 if most samples have none; "whole"
    the label that all samples share; "centre" the label of the middle sample.
    """
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
    for label in (*range(int(labels.max()) + 1), UNLABELLED):
        np.cumsum(labels == label, out=so_far[1:])
        count = so_far[first + length] - so_far[first]
        winner[count > best] = label
        best = np.maximum(best, count)
    return winner


def windows_at(recording: Recording, starts: Array, labels: Array, windowing: Mapping[str, Any]) -> Windows:
    """Cut windows with the given first samples and classes from a regularly sampled recording."""
    length = round(windowing["window_s"] * recording.rate_hz)
    index = starts[:, None] + np.arange(length)  # (N, T)
    time_s = recording.time_s[starts]
    return Windows(
        x=np.ascontiguousarray(recording.values[index].transpose(0, 2, 1)),
        time_s=time_s,
        label=labels.astype(np.int64),
        gap_before_s=gaps_before(time_s, windowing["window_s"], windowing["max_gap_s"]),
        window_s=windowing["window_s"],
        stride_s=windowing["stride_s"],
        start=recording.start,
        warnings=recording.warnings,
        facts=recording.facts,
    )


def gaps_before(time_s: Array, window_s: float, max_gap_s: float) -> Array:
    """Return the seconds missing between each window and the previous one, 0 if at most `max_gap_s`.

    >>> gaps_before(np.array([0.0, 1.0, 3.2, 9.0]), window_s=2.0, max_gap_s=0.5)
    array([0. , 0. , 0. , 3.8])
    """
    missing = np.diff(time_s, prepend=time_s[:1] - window_s) - window_s
    return np.where(missing > max_gap_s, np.round(missing, 9), 0.0)


def drop_unlabelled(windows: Windows, max_gap_s: float) -> Windows:
    """Remove windows without a label; the time they covered becomes a gap."""
    keep = windows.label >= 0
    time_s = windows.time_s[keep]
    return replace(
        windows,
        x=windows.x[keep],
        time_s=time_s,
        label=windows.label[keep],
        gap_before_s=gaps_before(time_s, windows.window_s, max_gap_s),
        wear=None if windows.wear is None else windows.wear[keep],
        facts=replace(windows.facts, unlabelled_windows_left_out=int((~keep).sum())),
    )


def unroll(x: Array, stride: int) -> Array:
    """Return the signal (n, C) that overlapping windows (N, C, T) were cut from.

    >>> signal = np.arange(10.0)
    >>> x = np.stack([signal[i : i + 4] for i in (0, 2, 4, 6)])[:, None, :]
    >>> bool((unroll(x, 2)[:, 0] == signal).all())
    True
    """
    body = x[:, :, :stride].transpose(0, 2, 1).reshape(-1, x.shape[1])
    return np.concatenate([body, x[-1:, :, stride:].transpose(0, 2, 1).reshape(-1, x.shape[1])])


def continuous_runs(x: Array, stride: int, label: Array) -> list[slice]:
    """Return the runs of consecutive windows (N, C, T) that overlap exactly and share one label."""
    overlaps = (x[1:, :, : x.shape[2] - stride] == x[:-1, :, stride:]).all(axis=(1, 2)) & (label[1:] == label[:-1])
    edges = [0, *(np.flatnonzero(~overlaps) + 1).tolist(), len(x)]
    return [slice(first, last) for first, last in pairwise(edges) if last > first]


def whole_samples(seconds: float, rate_hz: float) -> int:
    """Round a length in seconds to samples, at least one.

    >>> whole_samples(2.0, 50), whole_samples(1.905, 58.8)
    (100, 112)
    """
    if not seconds > 0:
        raise ValueError(f"Expected window_s and stride_s above 0 s, got {seconds:g}.")
    return max(round(seconds * rate_hz), 1)


def _gap_before(time_s: Array, begins: Array, window_s: float) -> Array:
    """Return the seconds since the end of the previous window where a stretch begins, else 0."""
    gap = np.zeros(len(time_s))
    later = np.flatnonzero(begins[1:]) + 1
    gap[later] = np.maximum(time_s[later] - (time_s[later - 1] + window_s), 0.0)
    return gap


def _shift(part: Windows, start: datetime | None, end: float | None, unknown_gap_s: float) -> float:
    if part.start is not None and start is not None:
        return (part.start - start).total_seconds()
    if end is None or not len(part):
        return 0.0
    return end + unknown_gap_s - float(part.time_s[0])
