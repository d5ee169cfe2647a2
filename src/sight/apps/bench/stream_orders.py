"""Orders in which the benchmark presents a subject's windows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sight.apps.bench.simulated_days import ORDERS as DAY_ORDERS, day_stream
from sight.apps.bench.trials import Setting, Trial
from sight.types import Array, Windows

#: Windows that stay together when a stream is shuffled in blocks.
BLOCK = 32


def stream_index(labels: Array, trial: Trial, setting: Setting, classes: Sequence[str]) -> Array | None:
    """Return the window at each position of a trial's stream; None if the subject lacks windows for it.

    `labels` are the class indices of the target's windows in recorded order, `classes` their names.
    """
    kind, _, name = trial.order.partition(" ")
    if kind in DAY_ORDERS:
        named = {"dominating": name or next(iter(setting.sedentary), ""), "standing": setting.standing}
        indices = {key: list(classes).index(value) for key, value in named.items() if value}
        # Targets with equal seeds would share the lengths of their bouts, and with them the realised shares.
        seed = [trial.seed, *f"{trial.target} {trial.order}".encode()]
        return day_stream(labels, kind, seed, **indices)
    index = _ordered(labels, trial)
    return index[: len(index) // setting.whole_batches * setting.whole_batches] if setting.whole_batches else index


def _ordered(labels: Array, trial: Trial) -> Array:
    rng = np.random.default_rng(trial.seed)
    index = np.arange(len(labels))
    if trial.order == "activity":
        return np.argsort(labels, kind="stable")
    if trial.order == "blocks":
        blocks = np.array_split(index, range(BLOCK, len(index), BLOCK))
        return np.concatenate([blocks[i] for i in rng.permutation(len(blocks))])
    return rng.permutation(len(index)) if trial.order == "shuffled" else index


def reorder(windows: Windows, index: Array, *, gaps: bool = False) -> Windows:
    """Return the windows of an index as one stream; without gaps, recordings are joined and times evenly spaced."""
    x, label = windows.x[index], windows.label[index]
    if gaps:
        time_s, gap_before_s, start = windows.time_s[index], windows.gap_before_s[index], windows.start
    else:
        time_s, gap_before_s, start = np.arange(len(index)) * windows.stride_s, np.zeros(len(index)), None
    return replace(windows, x=x, label=label, time_s=time_s, gap_before_s=gap_before_s, wear=None, start=start)
