"""Windows that a protocol places itself, windows that a file already holds, and windows left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from sight.types import Array, Recording, Windows

#: Any moment will do to line up recordings that share a clock nobody can read.
SOME_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)


def join_on_one_clock(parts: Sequence[Windows]) -> Windows:
    """Join windows of recordings whose `time_s` count from the same moment, though nobody knows which."""
    from sight.signal import join

    return replace(join([replace(part, start=SOME_MOMENT) for part in parts]), start=None)


def place(recording: Recording, starts: Array, labels: Array, settings: Mapping[str, Any]) -> Windows:
    """Cut windows at given samples of an evenly sampled recording.

    Parameters
    ----------
    recording
        On an even clock.
    starts, labels
        First sample and class of each window.
    settings
        `rate_hz`, `window_s`, `stride_s` and `max_gap_s`.
    """
    length = round(settings["window_s"] * recording.rate_hz)
    index = starts[:, None] + np.arange(length)  # (N, T)
    time_s = recording.time_s[starts]
    return Windows(
        x=np.ascontiguousarray(recording.values[index].transpose(0, 2, 1)),
        time_s=time_s,
        label=labels.astype(np.int64),
        gap_before_s=gaps(time_s, settings["window_s"], settings["max_gap_s"]),
        window_s=settings["window_s"],
        stride_s=settings["stride_s"],
        start=recording.start,
        facts=dict(recording.facts),
    )


def gaps(time_s: Array, window_s: float, max_gap_s: float) -> Array:
    """Return the seconds missing between the end of each window and the start of the next, 0 if few.

    Examples
    --------
    >>> gaps(np.array([0.0, 1.0, 3.2, 9.0]), window_s=2.0, max_gap_s=0.5)
    array([0. , 0. , 0. , 3.8])
    """
    missing = np.diff(time_s, prepend=time_s[:1] - window_s) - window_s
    return np.where(missing > max_gap_s, np.round(missing, 9), 0.0)


def without_unlabelled(windows: Windows, max_gap_s: float) -> Windows:
    """Leave out windows without a label; what is missing in between counts as a gap."""
    keep = windows.label >= 0
    time_s = windows.time_s[keep]
    return replace(
        windows,
        x=windows.x[keep],
        time_s=time_s,
        label=windows.label[keep],
        gap_before_s=gaps(time_s, windows.window_s, max_gap_s),
        wear=None if windows.wear is None else windows.wear[keep],
        facts={**windows.facts, "unlabelled_windows_left_out": int((~keep).sum())},
    )


def unroll(x: Array, stride: int) -> Array:
    """Lay overlapping windows (N, C, T) end to end again, (n, C): the inverse of cutting.

    Examples
    --------
    >>> signal = np.arange(10.0)
    >>> x = np.stack([signal[i : i + 4] for i in (0, 2, 4, 6)])[:, None, :]
    >>> bool((unroll(x, 2)[:, 0] == signal).all())
    True
    """
    body = x[:, :, :stride].transpose(0, 2, 1).reshape(-1, x.shape[1])
    return np.concatenate([body, x[-1:, :, stride:].transpose(0, 2, 1).reshape(-1, x.shape[1])])


def stretches(x: Array, stride: int, label: Array) -> list[slice]:
    """Find runs of windows that overlap exactly and carry one label; each run is one unbroken recording."""
    overlaps = (x[1:, :, : x.shape[2] - stride] == x[:-1, :, stride:]).all(axis=(1, 2)) & (label[1:] == label[:-1])
    edges = [0, *(np.flatnonzero(~overlaps) + 1).tolist(), len(x)]
    return [slice(first, last) for first, last in pairwise(edges) if last > first]
