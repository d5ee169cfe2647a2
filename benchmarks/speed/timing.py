"""Timing that is robust to other load: one thread, warm-up, interleaved runs, medians."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sight.apps.bench.worker import package_versions
from sight.types import Array

Task = Callable[[int], object]
#: Processor time, which other processes of the machine hardly change; on Windows its steps are too coarse.
clock = time.perf_counter if os.name == "nt" else time.process_time


def medians(tasks: Mapping[str, Task], rounds: int, warm_up: int = 10) -> dict[str, float]:
    """Return the median seconds of processor time of each task.

    Tasks alternate, so that other load affects all of them and ratios stay valid. Each runs twice in a row and the
    second run counts: its data is then in the caches, as in a live stream.

    Parameters
    ----------
    tasks
        Name to function; its argument is the number of the round, so that it can use another window each time.
    rounds, warm_up
        Number of runs that count, and of runs before them that do not.

    Examples
    --------
    >>> times = medians({"short": lambda n: sum(range(10)), "long": lambda n: sum(range(10_000))}, rounds=20)
    >>> times["short"] < times["long"]
    True
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    order = list(tasks.items())
    for n in range(-warm_up, rounds):
        for name, task in order if n % 2 else reversed(order):
            task(max(n, 0))
            began = clock()
            task(max(n, 0))
            took = clock() - began
            if n >= 0:
                seconds[name].append(took)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def streams(
    tasks: Mapping[str, Callable[[Array], object]],
    pieces: Sequence[Array],
    rounds: int,
    before: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Return the seconds each task takes over all pieces of a stream, after one warm-up pass.

    The median over rounds is taken for each piece, so that an interruption affects one piece and not a whole pass,
    while pieces that cost more, such as those on which a method updates, keep their weight. `before` is called before
    each pass; it resets a method, so that passes are alike.
    """
    seconds = {name: np.empty((rounds, len(pieces))) for name in tasks}
    for n in range(-1, rounds):
        before()
        for at, piece in enumerate(pieces):
            for name, task in tasks.items():
                began = clock()
                task(piece)
                took = clock() - began
                if n >= 0:
                    seconds[name][n, at] = took
    return {name: float(np.median(values, axis=0).sum()) for name, values in seconds.items()}


def alone(task: Task, rounds: int, warm_up: int = 10) -> float:
    """Return the median seconds of a single task, with its data in the processor's caches."""
    return medians({"task": task}, rounds, warm_up)["task"]


def one_thread() -> None:
    """Limit torch to one thread; onnxruntime sessions of sight always use one."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    with suppress(ImportError):
        import torch

        torch.set_num_threads(1)


def machine() -> dict[str, Any]:
    """Return processor, system, load and versions."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "threads": 1,
        "load_average_at_start": load,
        **package_versions("numpy", "numba", "onnxruntime", "torch"),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


#: Packages outside the base install; a new process in which they cannot be imported simulates it.
NOT_IN_BASE = ("torch", "numba", "pandas", "scipy", "pyarrow", "onnx")

_LOAD = """
import sys, time
for name in {blocked!r}:
    sys.modules[name] = None
began = time.process_time()
import sight
source = sight.load({path!r})
took = time.process_time() - began
try:
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
except OSError:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
print(took, peak)
"""


def import_and_load(path: Path, times: int = 5) -> tuple[float, float]:
    """Return median seconds and peak resident megabytes of ``import sight; sight.load(path)``, base packages only."""
    code = _LOAD.format(blocked=NOT_IN_BASE, path=str(path))
    found = []
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        found.append([float(value) for value in done.stdout.split()])
    seconds, peak_kib = np.median(found, axis=0)
    return float(seconds), float(peak_kib) * 1024 / 1e6
