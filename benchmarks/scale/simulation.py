"""Two simulations of sizes nobody measured here: a cell of live wearers, and a cohort of recordings.

Both take measured costs and stated guesses of how machines fail, and are cheap enough to rerun with other guesses. They
check an argument (does work pile up, what do deaths cost, how much does an uneven spread cost), not a price.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How machines misbehave; all guesses.

    Parameters
    ----------
    spread
        Standard deviation of the logarithm of a task's time.
    straggler_share, straggler_factor
        Share of tasks that take so many times longer.
    deaths_per_core_day
        Processes that die, for each core and day.
    driver_deaths_per_day
        Drivers that die, for each stream and day.
    restart_s
        From the death of a driver to its first trigger; of a worker to its first task.
    """

    spread: float = 0.15
    straggler_share: float = 0.01
    straggler_factor: float = 4.0
    deaths_per_core_day: float = 0.01
    driver_deaths_per_day: float = 0.1
    restart_s: float = 60.0


NO_FAULTS = Faults(spread=0, straggler_share=0, deaths_per_core_day=0, driver_deaths_per_day=0)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One stream with its own driver, checkpoint and output.

    Parameters
    ----------
    wearers, window_s
        How many, each with one window in so many seconds.
    trigger_s
        Time between triggers, where they keep up.
    cores, partitions, shards
        Tasks run on so many cores at a time; every shard belongs to the partition its hash says.
    core_s_per_window
        Time of a core in the whole batch for one window.
    fixed_s
        Time of a trigger that does not depend on how much it holds.
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
    """Simulate a cell trigger by trigger, and tell how old windows are when they are answered.

    A trigger takes all windows that arrived since the one before took its own. Where the driver dies inside a trigger,
    the trigger runs again with the same windows after the restart; where a worker dies, its tasks run again.
    """
    rng = np.random.default_rng(seed)
    share = np.bincount(rng.integers(cell.partitions, size=cell.shards), minlength=cell.partitions) / cell.shards
    now = taken_until = 0.0
    ages, weights, lengths = [], [], []
    while now < 3600 * hours:
        now = max(now, taken_until + cell.trigger_s)
        arrived_from, taken_until = taken_until, now
        windows = cell.wearers * (taken_until - arrived_from) / cell.window_s
        took, driver_died = 0.0, True
        while driver_died:
            busy = cell.fixed_s + _batch(cell, faults, windows * share, rng)
            driver_died = _dies(busy, faults.driver_deaths_per_day, rng)
            took += busy if not driver_died else busy * rng.random() + faults.restart_s
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
    """Return how long the tasks of a trigger take on the cores, each taken by the first free one."""
    seconds = windows * cell.core_s_per_window * _noise(faults, len(windows), rng)
    died = _dies(seconds, faults.deaths_per_core_day, rng)
    seconds = seconds + died * (seconds * rng.random(len(seconds)) + faults.restart_s)
    free = [0.0] * cell.cores
    for task in np.sort(seconds)[::-1]:
        heapq.heapreplace(free, free[0] + float(task))
    return max(free)


def _dies(seconds: Any, deaths_per_day: float, rng: Any) -> Any:
    """Whether a process that may die at any moment does so within these seconds, for each of them."""
    return rng.random(np.shape(seconds)) < -np.expm1(-seconds * deaths_per_day / 86400)


def _noise(faults: Faults, count: int, rng: Any) -> Any:
    slow = np.where(rng.random(count) < faults.straggler_share, faults.straggler_factor, 1.0)
    return slow * np.exp(faults.spread * rng.normal(size=count) - faults.spread**2 / 2)


def most_wearers(cell: Cell, faults: Faults, age_s: float, **options: Any) -> int:
    """Return how many wearers a cell holds so that 99 % of windows are answered within `age_s`, to two digits."""
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
    """Recordings as jobs on workers.

    Parameters
    ----------
    recordings, seconds_each
        How many, and the time of one on one worker.
    memory_gb
        What one needs while it runs.
    node_cores, node_memory_gb
        Of each machine; it runs as many recordings as both allow.
    nodes
        Machines.
    """

    seconds_each: float
    memory_gb: float
    recordings: int = 100_000
    nodes: int = 8
    node_cores: int = 16
    node_memory_gb: float = 64.0

    @property
    def workers(self) -> int:
        """Recordings that run at the same time."""
        return self.nodes * min(self.node_cores, int(self.node_memory_gb / self.memory_gb))


def batch(cohort: Cohort, faults: Faults, seed: int = 0) -> dict[str, float]:
    """Simulate a cohort job by job: a worker that dies loses its recording, which goes to the end of the queue."""
    rng = np.random.default_rng(seed)
    seconds = cohort.seconds_each * _noise(faults, cohort.recordings, rng)
    rate = faults.deaths_per_core_day / 86400
    waiting, free = list(range(cohort.recordings))[::-1], [0.0] * cohort.workers
    heapq.heapify(free)
    done_s = lost_s = 0.0
    deaths = 0
    while waiting:
        job, start = waiting.pop(), heapq.heappop(free)
        lived = rng.exponential(1 / rate) if rate else np.inf
        if lived < seconds[job]:
            deaths += 1
            lost_s += lived
            waiting.insert(0, job)
            heapq.heappush(free, start + lived + faults.restart_s)
        else:
            done_s = max(done_s, start + seconds[job])
            heapq.heappush(free, start + seconds[job])
    useful = float(seconds.sum())
    return {
        "workers": float(cohort.workers),
        "hours": done_s / 3600,
        "deaths": float(deaths),
        "lost_share": lost_s / useful,
        "efficiency": useful / (done_s * cohort.workers),
        "cores_idle_for_memory": 1 - cohort.workers / (cohort.nodes * cohort.node_cores),
    }
