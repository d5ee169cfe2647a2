"""Parallel map: memory budget, order, and workers that die."""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import dataclass

import pytest

from sight._util.parallel import is_local, map_unordered


def hold(folder, name, wanted=1):
    """Create a marker file while running; return the largest number of markers seen.

    Up to 20 seconds pass until `wanted` calls run together once: a worker may start slowly.
    """
    mark, met = folder / f"{name}.mark", folder / "met"
    mark.touch()
    most, began = 0, time.monotonic()
    while time.monotonic() < began + (0.2 if wanted == 1 or met.exists() else 20):
        most = max(most, len(list(folder.glob("*.mark"))))
        if most >= wanted > 1:
            met.touch()
        time.sleep(0.02)
    mark.unlink()
    return most


@pytest.mark.parametrize(("budget", "at_once"), [(150, 1), (1000, 2)])
def test_calls_run_together_only_within_the_budget(tmp_path, budget, at_once):
    arguments = [(tmp_path, name, at_once) for name in "abcdef"]
    sizes = [100, 140, 90, 100, 120, 80]
    found = dict(map_unordered(hold, arguments, "loky", 2, memory=sizes, budget=budget))
    assert sorted(found) == list(range(6))
    assert max(found.values()) == at_once


def test_a_call_larger_than_the_budget_runs_alone(tmp_path):
    found = dict(
        map_unordered(hold, [(tmp_path, name) for name in "abcd"], "loky", 2, memory=[500, 40, 40, 600], budget=100)
    )
    assert (found[0], found[3]) == (1, 1)
    assert len(found) == 4


def test_the_largest_calls_start_first():
    order = [index for index, _ in map_unordered(divmod, [(7, 2)] * 4, "serial", memory=[3, 9, 9, 5])]
    assert order == [1, 2, 3, 0]


@dataclass(frozen=True)
class Task:
    """Kills its own process, or returns a value."""

    deadly: bool

    def __call__(self) -> str:
        if self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.2)
        return "alive"


def call(task):
    return task()


@pytest.mark.long
@pytest.mark.parametrize("engine", ["loky", "dask:local:2"])
def test_only_the_call_that_kills_its_worker_is_lost(engine):
    tasks = [(Task(deadly=index == 2),) for index in range(6)]
    results = dict(map_unordered(call, tasks, engine, 2, memory=[1] * 6, budget=10, on_lost=lambda i: f"lost {i}"))
    assert results == {index: "lost 2" if index == 2 else "alive" for index in range(6)}


@pytest.mark.long
def test_a_dead_worker_raises_without_on_lost():
    with pytest.raises(ChildProcessError, match="worker process died"):
        list(map_unordered(call, [(Task(deadly=True),)], "loky", 1))


def log_error():
    logging.getLogger("distributed.worker").error("Failed to communicate with scheduler during heartbeat.")


@pytest.mark.long
def test_errors_that_workers_log_are_not_printed(capfd):
    assert dict(map_unordered(log_error, [()], "dask:local:1")) == {0: None}
    assert "heartbeat" not in capfd.readouterr().err
    assert "DASK_LOGGING__DISTRIBUTED" not in os.environ  # programs that this process starts log as usual


def interrupt_own_process():
    os.kill(os.getpid(), signal.SIGINT)
    return "finished"


def test_workers_ignore_ctrl_c():
    assert dict(map_unordered(interrupt_own_process, [()], "loky", 2)) == {0: "finished"}


def test_engines_are_local_or_not():
    assert [is_local(engine) for engine in ("serial", "loky", "dask:local:2", "dask:tcp://a:1")] == [True] * 3 + [False]
    with pytest.raises(ValueError, match="Expected engine"):
        list(map_unordered(call, [], "spark"))
