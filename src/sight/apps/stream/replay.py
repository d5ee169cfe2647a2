"""Replay of a recording in chunks, at its own pace or faster."""

import math
import time
from collections.abc import Iterator

from sight.apps.stream.table_lines import Samples
from sight.types import Recording


def replay(
    recording: Recording, *, speed: float = 1.0, chunk_s: float = 0.2, after_s: float = -math.inf
) -> Iterator[Samples]:
    """Yield a recording's samples as a device would send them, in chunks of `chunk_s` seconds.

    `speed` is relative to real time; 0 does not wait. Samples up to `after_s` are skipped: a resumed session has
    received them. The pace follows the number of samples: a gap is visible in the timestamps only, it takes no time.
    """
    if speed < 0:
        raise ValueError(f"Expected a speed of 0 or more, got {speed:g}; 0 does not wait.")
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
