"""Spreads work over processes: this machine's, or a cluster's. Results come as they are ready, with their place."""

from __future__ import annotations

import concurrent.futures
import logging
import math
import signal
import sys
import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

ENGINES = "loky, serial, dask:local:N or dask:ADDRESS"

#: What a worker of a cluster has of this resource, in bytes, bounds what it holds at once.
MEMORY = "memory"

Submit: TypeAlias = Callable[[int], "concurrent.futures.Future[Any]"]


def map_unordered(
    function: Callable[..., Any],
    work: Sequence[tuple[Any, ...]],
    engine: str = "loky",
    jobs: int | None = None,
    *,
    memory: Sequence[int] | None = None,
    budget: int | None = None,
    lost: Callable[[int], Any] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Call a function with each of these arguments, and yield (place, result) in the order of finishing.

    Parameters
    ----------
    function
        Found by its name in every process; what it takes and gives must travel between them.
    work
        Arguments of each call.
    engine
        "serial" in this process; "loky" in processes of this machine; "dask:local:N" in N processes whose death is
        survived; "dask:ADDRESS" on a running cluster, which must see the same folders.
    jobs
        Processes of "loky"; all cores by default.
    memory
        Bytes that each call needs. The largest come first, and none starts before it fits; one that fits nowhere runs
        alone.
    budget
        Bytes that calls may need together on this machine, or on each worker of a running cluster that does not
        declare a resource called "memory"; no bound by default, there what Dask grants the worker.
    lost
        Gives the result of a call that takes its worker with it whenever it is tried; by default that is an error.

    Examples
    --------
    >>> list(map_unordered(divmod, [(7, 2), (9, 4)], engine="serial"))
    [(0, (3, 1)), (1, (2, 1))]
    >>> [at for at, _ in map_unordered(divmod, [(7, 2), (9, 4)], engine="serial", memory=[1, 5])]
    [1, 0]
    """
    kind, _, place = engine.partition(":")
    waiting = _Waiting(memory or [0] * len(work), budget or sys.maxsize)
    if engine == "serial":
        yield from ((at, function(*work[at])) for at in waiting.largest_first())
        return
    if engine == "loky":
        opened = _loky(function, work, jobs)
    elif kind == "dask" and place:
        opened = _dask(function, work, place, memory, budget)
    else:
        raise ValueError(f"Expected engine {ENGINES}, got {engine!r}.")
    with opened as pool:
        if pool.guarded:
            waiting.budget = sys.maxsize
        # One call waits beside each that runs, so that no process waits for us; where memory is watched, none does.
        yield from _flow(pool, waiting, pool.slots if memory else lambda: 2 * pool.slots(), lost)


class _Waiting:
    """Calls that wait for memory, by size."""

    def __init__(self, sizes: Sequence[int], budget: int) -> None:
        self.budget = budget
        self.size: dict[int, float] = dict(enumerate(sizes))
        # Of equal ones the first given goes first.
        self.queue = sorted((size, -at) for at, size in self.size.items())

    def largest_first(self) -> list[int]:
        return [-at for _, at in reversed(self.queue)]

    def take(self, running: Sequence[int]) -> int | None:
        """Choose the largest that fits beside the running ones; what fits nowhere starts when nothing runs."""
        free = self.budget - sum(self.size[at] for at in running)
        place = bisect_right(self.queue, (free, 1)) - 1
        if not self.queue or (place < 0 and running):
            return None
        return -self.queue.pop(place)[1]  # -1, the largest, where nothing fits

    def again_alone(self, at: int) -> None:
        self.size[at] = math.inf
        insort(self.queue, (math.inf, -at))


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """Processes that take calls."""

    submit: Submit
    slots: Callable[[], int]  # calls it may hold at once where memory is watched
    died: type[Exception]  # what a call gives whose worker died
    guarded: bool = False  # the pool itself watches memory


def _flow(
    pool: _Pool, waiting: _Waiting, slots: Callable[[], int], lost: Callable[[int], Any] | None
) -> Iterator[tuple[int, Any]]:
    running: dict[concurrent.futures.Future[Any], int] = {}
    while True:
        while len(running) < slots() and (at := waiting.take(list(running.values()))) is not None:
            running[pool.submit(at)] = at
        if not running:
            return
        for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
            at = running.pop(future)
            try:
                result = future.result()
            except pool.died:
                if lost is None:
                    raise ChildProcessError(
                        "A worker process died, perhaps for lack of memory; run the same command again, with fewer "
                        "--jobs if it repeats: what is finished is kept."
                    ) from None
                if waiting.size[at] < math.inf:
                    waiting.again_alone(at)  # a worker that dies takes innocent neighbours along
                    continue
                result = lost(at)
            yield at, result


@contextmanager
def _loky(function: Callable[..., Any], work: Sequence[tuple[Any, ...]], jobs: int | None) -> Iterator[_Pool]:
    import joblib
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    count = jobs or joblib.cpu_count()
    # One thread a process: workers do not fight for cores, and sums come out the same on any number of them.
    threads = dict.fromkeys((f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA")), "1")
    threads["VECLIB_MAXIMUM_THREADS"] = "1"

    def executor() -> Any:
        return get_reusable_executor(max_workers=count, timeout=300, env=threads)

    try:
        yield _Pool(
            submit=lambda at: executor().submit(function, *work[at]), slots=lambda: count, died=TerminatedWorkerError
        )
    except BaseException:
        executor().shutdown(wait=True, kill_workers=True)
        raise


@contextmanager
def _dask(
    function: Callable[..., Any],
    work: Sequence[tuple[Any, ...]],
    place: str,
    memory: Sequence[int] | None,
    budget: int | None,
) -> Iterator[_Pool]:
    dask: Any = import_module("distributed")
    cluster = not place.startswith("local:")
    with _client(place, watched=True) if memory else _client(place) as client:
        most = _declared(client, budget) if cluster and memory else 0
        workers = max(1, len(client.nthreads()))

        def submit(at: int) -> concurrent.futures.Future[Any]:
            needs = {"resources": {MEMORY: min(memory[at], most)}} if memory and most else {}
            future: concurrent.futures.Future[Any] = client.get_executor(pure=False, **needs).submit(
                function, *work[at]
            )
            return future

        yield _Pool(
            submit=submit,
            # A cluster may grow, and is given twice what it can do at once, so that no worker waits for us.
            slots=(lambda: 2 * max(1, sum(client.nthreads().values()))) if cluster else lambda: workers,
            died=dask.KilledWorker,
            guarded=bool(most),
        )


def _declared(client: Any, budget: int | None) -> int:
    """Have every worker declare its memory, if it does not already, and return the largest."""
    declared = client.run(_declare, budget).values()
    return int(max(declared, default=0))


async def _declare(budget: int | None, dask_worker: Any) -> float:
    if MEMORY not in dask_worker.state.total_resources:
        granted = dask_worker.memory_manager.memory_limit
        await dask_worker.set_resources(**{MEMORY: budget or granted or sys.maxsize})
    return float(dask_worker.state.total_resources[MEMORY])


@contextmanager
def _client(place: str, watched: bool = False) -> Iterator[Any]:
    dask: Any = import_module("distributed")
    if not place.startswith("local:"):
        with dask.Client(place) as client:
            yield client
        return
    count = place.removeprefix("local:")
    if not count.isdigit() or int(count) < 1:
        raise ValueError(f"Expected engine dask:local:N with N of 1 or more, got dask:{place}.")
    # Where we watch memory ourselves, an even share for each worker would end a large recording that has room.
    limits = {"memory_limit": 0} if watched else {}
    with _deaf():
        cluster = dask.LocalCluster(
            n_workers=int(count),
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.ERROR,  # that processes are slow to end, or were told to, is no news
            **limits,
        )
    with cluster, dask.Client(cluster) as client:
        yield client


@contextmanager
def _deaf() -> Iterator[None]:
    """Have processes that start meanwhile ignore Ctrl-C: this one answers it, and ends them in good order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
