"""Helpers for datasets that place windows themselves, whose files contain windows, or that drop windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sight.types import Array, Recording, Windows


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

    Examples
    --------
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

    Examples
    --------
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
