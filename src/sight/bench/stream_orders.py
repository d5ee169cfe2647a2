"""Orders in which the benchmark presents a subject's windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sight.bench.plan import Trial
from sight.types import Windows

#: Windows that stay together when a stream is shuffled in blocks.
BLOCK = 32


def reorder(windows: Windows, trial: Trial, *, use_gaps: bool = False) -> Windows:
    """Return a stream in the order of a trial; without gaps, recordings are joined and times are evenly spaced."""
    n = len(windows)
    if use_gaps and trial.order == "chronological":
        return windows
    rng = np.random.default_rng(trial.seed)
    index = np.arange(n)
    if trial.order == "blocks":
        blocks = np.array_split(index, range(BLOCK, n, BLOCK))
        index = np.concatenate([blocks[i] for i in rng.permutation(len(blocks))])
    elif trial.order == "shuffled":
        index = rng.permutation(n)
    time_s, gaps = np.arange(n) * windows.stride_s, np.zeros(n)
    x, label = windows.x[index], windows.label[index]
    return replace(windows, x=x, label=label, time_s=time_s, gap_before_s=gaps, wear=None, start=None)
