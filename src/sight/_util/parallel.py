"""Parallel map over the processes of this machine or of a Dask cluster, within a memory budget."""

import concurrent.futures
import logging
import math
import os
import signal
import sys
import threading
import time
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

ENGINES = "loky, serial, dask:local:N or dask:ADDRESS"

#: Dask resource, in bytes, that limits what a cluster worker runs at once.
MEMORY = "memory"

Future: TypeAlias = "concurrent.futures.Future[Any]"


def map_unordered(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    engine: str = "loky",
    jobs: int | None = None,
    *,
    memory: Sequence[int] | None = None,
    budget: int | None = None,
    on_lost: Callable[[int], Any] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Call a function with each tuple of arguments, and yield (index, result) in the order of completion.

    Function, arguments and results must be picklable. The engine "serial" runs in this process; "loky" in `jobs`
    processes of this machine, all cores by default; "dask:local:N" in N processes of this machine, whose death is
    survived; "dask:ADDRESS" on a running cluster that sees the same folders.

    `memory` holds the bytes that each call needs, `budget` those that calls may need together on this machine, or on
    each worker of a cluster that declares no resource called "memory". The largest calls start first, a call waits
    until it fits, and one that is larger than the budget runs alone. Without a budget calls are unlimited here, and
    limited by Dask's memory limit there.

    ``on_lost(index)`` returns the result of a call whose worker dies every time; without it a dead worker raises
    ChildProcessError.
    """
    kind, _, address = engine.partition(":")
    queue = _Queue(memory or [0] * len(arguments), budget or sys.maxsize)
    if engine == "serial":
        yield from ((index, function(*arguments[index])) for index in queue.largest_first())
        return
    if engine == "loky":
        opened = _loky_pool(function, arguments, jobs)
    elif kind == "dask" and address:
        opened = _dask_pool(function, arguments, address, memory, budget)
    else:
        raise ValueError(f"Expected engine {ENGINES}, got {engine!r}.")
    with opened as pool:
        if pool.limits_memory:
            queue.budget = sys.maxsize
        # Each process has a second call waiting, so that it never idles; not if memory is limited.
        yield from _run(pool, queue, pool.slots if memory else lambda: 2 * pool.slots(), on_lost)


def is_local(engine: str) -> bool:
    return engine in ("serial", "loky") or engine.startswith("dask:local:")


class _Queue:
    def __init__(self, sizes: Sequence[int], budget: int) -> None:
        self.budget = budget
        self.size: dict[int, float] = dict(enumerate(sizes))
        # Negative indices: of calls of equal size the first given starts first.
        self.waiting = sorted((size, -index) for index, size in self.size.items())

    def largest_first(self) -> list[int]:
        return [-negative for _, negative in reversed(self.waiting)]

    def pop(self, running: Sequence[int]) -> int | None:
        """Remove and return the largest call that fits beside the running ones; any call fits if none is running."""
        free = self.budget - sum(self.size[index] for index in running)
        place = bisect_right(self.waiting, (free, 1)) - 1
        if not self.waiting or (place < 0 and running):
            return None
        return -self.waiting.pop(place)[1]  # place is -1, the largest, if nothing fits

    def retry_alone(self, index: int) -> None:
        self.size[index] = math.inf
        insort(self.waiting, (math.inf, -index))


@dataclass(frozen=True, kw_only=True)
class _Pool:
    submit: Callable[[int], Future]
    slots: Callable[[], int]  # number of calls it may hold at once
    worker_died: type[Exception]  # raised by a call whose worker died
    limits_memory: bool = False  # whether the pool itself enforces the memory budget


def _run(
    pool: _Pool, queue: _Queue, slots: Callable[[], int], on_lost: Callable[[int], Any] | None
) -> Iterator[tuple[int, Any]]:
    running: dict[Future, int] = {}
    while True:
        while len(running) < slots() and (index := queue.pop(list(running.values()))) is not None:
            running[pool.submit(index)] = index
        if not running:
            return
        for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
            index = running.pop(future)
            try:
                result = future.result()
            except pool.worker_died:
                if on_lost is None:
                    raise ChildProcessError(
                        "A worker process died, perhaps for lack of memory; run the same command again, with fewer "
                        "--jobs if it happens again. Finished results are kept."
                    ) from None
                if queue.size[index] < math.inf:
                    queue.retry_alone(index)  # another call in the same worker may have caused its death
                    continue
                result = on_lost(index)
            yield index, result


@contextmanager
def _loky_pool(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], jobs: int | None) -> Iterator[_Pool]:
    import joblib
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    count = jobs or joblib.cpu_count()
    # One thread per process: workers do not compete for cores, and sums do not depend on the number of threads.
    libraries = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA")
    threads = {f"{name}_NUM_THREADS": "1" for name in libraries} | {"VECLIB_MAXIMUM_THREADS": "1"}

    def executor() -> Any:
        return get_reusable_executor(
            max_workers=count, timeout=300, env=threads, initializer=_begin_worker, initargs=(os.getpid(),)
        )

    try:
        yield _Pool(
            submit=lambda index: executor().submit(function, *arguments[index]),
            slots=lambda: count,
            worker_died=TerminatedWorkerError,
        )
    except BaseException:
        executor().shutdown(wait=True, kill_workers=True)
        raise


def _begin_worker(parent: int) -> None:
    """Ignore Ctrl-C, which the parent process handles by stopping its workers, and exit if the parent was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


@contextmanager
def _dask_pool(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    address: str,
    memory: Sequence[int] | None,
    budget: int | None,
) -> Iterator[_Pool]:
    dask: Any = import_module("distributed")
    cluster = not address.startswith("local:")
    with _client(address, limited=True) if memory else _client(address) as client:
        declared = client.run(_declare_memory, budget) if cluster and memory else {}
        largest = int(max(declared.values(), default=0))
        workers = max(1, len(client.nthreads()))

        def submit(index: int) -> Future:
            needs = {"resources": {MEMORY: min(memory[index], largest)}} if memory and largest else {}
            future: Future = client.get_executor(pure=False, **needs).submit(function, *arguments[index])
            return future

        yield _Pool(
            submit=submit,
            # A cluster may grow. It gets twice as many calls as it has threads, so that no worker idles.
            slots=(lambda: 2 * max(1, sum(client.nthreads().values()))) if cluster else lambda: workers,
            worker_died=dask.KilledWorker,
            limits_memory=bool(largest),
        )


async def _declare_memory(budget: int | None, dask_worker: Any) -> float:
    if MEMORY not in dask_worker.state.total_resources:
        limit = dask_worker.memory_manager.memory_limit
        await dask_worker.set_resources(**{MEMORY: budget or limit or sys.maxsize})
    return float(dask_worker.state.total_resources[MEMORY])


@contextmanager
def _environment_kept(*names: str) -> Iterator[None]:
    """Restore environment variables at the end."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _client(address: str, limited: bool = False) -> Iterator[Any]:
    """Connect to a cluster, or start one of ``local:N`` processes; `limited` means that the caller limits memory."""
    dask: Any = import_module("distributed")
    if not address.startswith("local:"):
        with dask.Client(address) as client:
            yield client
        return
    count = address.removeprefix("local:")
    if not count.isdigit() or int(count) < 1:
        raise ValueError(f"Expected engine dask:local:N with N of 1 or more, got dask:{address}.")
    # Workers log lost connections as errors while the cluster closes; what fails in a call is raised here.
    config: Any = import_module("dask.config")
    key = "distributed.nanny.pre-spawn-environ"
    quiet = {**config.get(key), "DASK_LOGGING__DISTRIBUTED": "critical"}
    with _environment_kept(*quiet, "PYTHONHASHSEED"):  # Dask sets them in this process, too
        with _sigint_ignored(), config.set({key: quiet}):
            cluster = dask.LocalCluster(
                n_workers=int(count),
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.ERROR,  # warnings about workers that are slow to end
                # Dask would give each worker an equal share of memory, and kill it for one large recording.
                **({"memory_limit": 0} if limited else {}),
            )
        disabled = logging.root.manager.disable
        try:
            with cluster, dask.Client(cluster) as client:
                try:
                    yield client
                except BaseException:
                    logging.disable(logging.ERROR)  # calls that are cut off log errors while the cluster closes
                    raise
        finally:
            logging.disable(disabled)


@contextmanager
def _sigint_ignored() -> Iterator[None]:
    """Let processes that start meanwhile ignore Ctrl-C; this process handles it and stops them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
