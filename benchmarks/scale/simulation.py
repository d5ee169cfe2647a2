"""Simulations of sizes that were not measured: a cell of live wearers, and a cohort of recordings.

Both use measured costs and assumed failure rates, and are fast enough to rerun with other assumptions. They show
whether work accumulates and what failures and uneven distribution cost; they do not give prices.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Assumed faults of machines.

    Parameters
    ----------
    spread
        Standard deviation of the logarithm of a task's time.
    straggler_share, straggler_factor
        Share of tasks that take so many times longer.
    failures_per_core_day
        Processes that fail, per core and day.
    driver_failures_per_day
        Drivers that fail, per stream and day.
    restart_s
        Time from a failure to the first trigger of a driver, or the first task of a worker.
    """

    spread: float = 0.15
    straggler_share: float = 0.01
    straggler_factor: float = 4.0
    failures_per_core_day: float = 0.01
    driver_failures_per_day: float = 0.1
    restart_s: float = 60.0


NO_FAULTS = Faults(spread=0, straggler_share=0, failures_per_core_day=0, driver_failures_per_day=0)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One stream with its own driver, checkpoint and output.

    Parameters
    ----------
    wearers, window_s
        Number of wearers, and seconds between two windows of one.
    trigger_s
        Time between triggers if they keep up.
    cores, partitions, shards
        Cores, tasks of a trigger, and shards, which are assigned to partitions by hash.
    core_s_per_window
        Core time of the whole batch per window.
    fixed_s
        Time of a trigger that does not depend on the number of windows.
    """

    wearers: int
    core_s_per_window: float
    fixed_s: float
    window_s: float = 10.0
    trigger_s: float = 10.0
    cores: int = 16
    partitions: int = 32
    shards: int = 512


def live(cell: Cell, faults: Faults, hours: float = 6.0, seed: int = 0) -> dict[str, float]:
    """Simulate a cell trigger by trigger, and return the age of windows when they are predicted.

    A trigger processes all windows that arrived since the previous one started. If the driver fails within a trigger,
    the trigger runs again with the same windows after the restart; if a worker fails, its tasks run again.
    """
    rng = np.random.default_rng(seed)
    share = np.bincount(rng.integers(cell.partitions, size=cell.shards), minlength=cell.partitions) / cell.shards
    now = taken_until = 0.0
    ages, weights, lengths = [], [], []
    while now < 3600 * hours:
        now = max(now, taken_until + cell.trigger_s)
        arrived_from, taken_until = taken_until, now
        windows = cell.wearers * (taken_until - arrived_from) / cell.window_s
        took, driver_failed = 0.0, True
        while driver_failed:
            busy = cell.fixed_s + _batch(cell, faults, windows * share, rng)
            driver_failed = _fails(busy, faults.driver_failures_per_day, rng)
            took += busy if not driver_failed else busy * rng.random() + faults.restart_s
        now += took
        lengths.append(took)
        # Windows arrive evenly over the span that this trigger took.
        ages.append(now - np.linspace(arrived_from, taken_until, 20))
        weights.append(np.full(20, windows / 20))
    age, weight = np.concatenate(ages), np.concatenate(weights)
    order = np.argsort(age)
    reached = np.cumsum(weight[order]) / weight.sum()
    at = {q: float(age[order][np.searchsorted(reached, q)]) for q in (0.5, 0.99)}
    return {
        "load": cell.wearers * cell.core_s_per_window / cell.window_s / cell.cores,
        "triggers": float(len(lengths)),
        "trigger_median_s": float(np.median(lengths)),
        "trigger_worst_s": float(np.max(lengths)),
        "age_median_s": at[0.5],
        "age_99_s": at[0.99],
        "age_last_s": float(ages[-1].max()),
    }


def _batch(cell: Cell, faults: Faults, windows: Any, rng: Any) -> float:
    """Return the time of a trigger's tasks, each run by the first free core."""
    seconds = windows * cell.core_s_per_window * _noise(faults, len(windows), rng)
    failed = _fails(seconds, faults.failures_per_core_day, rng)
    seconds = seconds + failed * (seconds * rng.random(len(seconds)) + faults.restart_s)
    free = [0.0] * cell.cores
    for task in np.sort(seconds)[::-1]:
        heapq.heapreplace(free, free[0] + float(task))
    return max(free)


def _fails(seconds: Any, failures_per_day: float, rng: Any) -> Any:
    """Return whether a process with this failure rate fails within these seconds, for each of them."""
    return rng.random(np.shape(seconds)) < -np.expm1(-seconds * failures_per_day / 86400)


def _noise(faults: Faults, count: int, rng: Any) -> Any:
    slow = np.where(rng.random(count) < faults.straggler_share, faults.straggler_factor, 1.0)
    return slow * np.exp(faults.spread * rng.normal(size=count) - faults.spread**2 / 2)


def most_wearers(cell: Cell, faults: Faults, age_s: float, **options: Any) -> int:
    """Return the largest number of wearers for which 99 % of windows are predicted within `age_s`, to two digits."""
    low, high = 0, int(2 * cell.cores * cell.window_s / cell.core_s_per_window)
    while high - low > max(0.01 * high, 1):
        middle = (low + high) // 2
        if live(replace(cell, wearers=middle), faults, **options)["age_99_s"] <= age_s:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """Recordings as jobs of workers.

    Parameters
    ----------
    recordings, seconds_each
        Number of recordings, and the time of one on one worker.
    memory_gb
        Memory of one while it runs.
    node_cores, node_memory_gb
        Cores and memory of a machine; it runs as many recordings as both allow.
    nodes
        Number of machines.
    """

    seconds_each: float
    memory_gb: float
    recordings: int = 100_000
    nodes: int = 8
    node_cores: int = 16
    node_memory_gb: float = 64.0

    @property
    def workers(self) -> int:
        """Number of recordings that run at the same time."""
        return self.nodes * min(self.node_cores, int(self.node_memory_gb / self.memory_gb))


def batch(cohort: Cohort, faults: Faults, seed: int = 0) -> dict[str, float]:
    """Simulate a cohort job by job; a worker that fails loses its recording, which returns to the queue."""
    rng = np.random.default_rng(seed)
    seconds = cohort.seconds_each * _noise(faults, cohort.recordings, rng)
    rate = faults.failures_per_core_day / 86400
    waiting, free = list(range(cohort.recordings))[::-1], [0.0] * cohort.workers
    heapq.heapify(free)
    done_s = lost_s = 0.0
    failures = 0
    while waiting:
        job, start = waiting.pop(), heapq.heappop(free)
        uptime = rng.exponential(1 / rate) if rate else np.inf
        if uptime < seconds[job]:
            failures += 1
            lost_s += uptime
            waiting.insert(0, job)
            heapq.heappush(free, start + uptime + faults.restart_s)
        else:
            done_s = max(done_s, start + seconds[job])
            heapq.heappush(free, start + seconds[job])
    useful = float(seconds.sum())
    return {
        "workers": float(cohort.workers),
        "hours": done_s / 3600,
        "failures": float(failures),
        "lost_share": lost_s / useful,
        "efficiency": useful / (done_s * cohort.workers),
        "cores_idle_for_memory": 1 - cohort.workers / (cohort.nodes * cohort.node_cores),
    }
