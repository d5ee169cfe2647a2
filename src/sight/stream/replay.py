"""A recording as a device: its samples in chunks, at the pace they were recorded or faster."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sight.signal.windows import UNKNOWN_GAP_S
from sight.stream.line_parser import Samples
from sight.types import Recording


def replay(
    recording: Recording, *, speed: float = 1.0, chunk_s: float = 0.2, after_s: float = -math.inf
) -> Iterator[Samples]:
    """Yield a recording's samples as a device would send them.

    Parameters
    ----------
    recording
        On any clock.
    speed
        How much faster than life; 0 does not wait at all.
    chunk_s
        Seconds of signal sent at once.
    after_s
        Samples up to this time are left out: a stream that goes on has them already.

    Notes
    -----
    Pace follows the number of samples, so a gap in the recording is told by its timestamps and takes no time.

    Examples
    --------
    >>> import numpy as np
    >>> recording = Recording(values=np.zeros((10, 3)), time_s=np.arange(10) / 10, channels=("x", "y", "z"), unit="g",
    ...                       rate_hz=10)
    >>> [len(samples.values) for samples in replay(recording, speed=0, chunk_s=0.4)]
    [4, 4, 2]
    >>> [samples.time_s[0].item() for samples in replay(recording, speed=0, chunk_s=0.4, after_s=0.5)]
    [0.6]
    """
    if speed < 0:
        raise ValueError(f"Expected a speed of 0 or more, got {speed:g}; 0 does not wait at all.")
    size = max(round(chunk_s * recording.rate_hz), 1)
    later = recording.time_s > after_s
    begin = int(later.argmax()) if later.any() else len(later)
    began = time.monotonic()
    for first in range(begin, len(recording.values), size):
        chunk = slice(first, first + size)
        if speed:
            sent = min(first + size, len(recording.values)) - begin
            time.sleep(max(began + sent / recording.rate_hz / speed - time.monotonic(), 0.0))
        yield Samples(recording.values[chunk], recording.time_s[chunk])


def on_one_clock(recordings: Iterable[Recording], *, shared: bool = False) -> Iterator[Recording]:
    """Shift the times of one person's recordings so that they follow each other, as `sight.signal.join` does.

    Parameters
    ----------
    recordings
        In time order.
    shared
        Whether their times count from the same moment already.

    Notes
    -----
    Where a recording does not tell when it began, an hour is assumed between it and the one before.
    """
    start = end_s = None
    for recording in recordings:
        if not len(recording.time_s):
            continue
        start = start or recording.start
        shift = 0.0
        if recording.start is not None and start is not None:
            shift = (recording.start - start).total_seconds()
        elif end_s is not None and not shared:
            shift = end_s + UNKNOWN_GAP_S - float(recording.time_s[0])
        moved = replace(recording, time_s=recording.time_s + shift) if shift else recording
        end_s = float(moved.time_s[-1])
        yield moved
