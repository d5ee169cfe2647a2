"""Spreads work over processes: this machine's, or a cluster's. Results come as they are ready, with their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

ENGINES = "loky, serial, dask:local:N or dask:ADDRESS"


def spread(
    function: Callable[..., Any], work: Sequence[tuple[Any, ...]], engine: str = "loky", jobs: int | None = None
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

    Examples
    --------
    >>> list(spread(divmod, [(7, 2), (9, 4)], engine="serial"))
    [(0, (3, 1)), (1, (2, 1))]
    """
    kind, _, place = engine.partition(":")
    if engine == "serial":
        yield from ((at, function(*arguments)) for at, arguments in enumerate(work))
    elif engine == "loky":
        yield from _loky(function, work, jobs)
    elif kind == "dask" and place:
        yield from _dask(function, work, place)
    else:
        raise ValueError(f"Expected engine {ENGINES}, got {engine!r}.")


def _placed(function: Callable[..., Any], at: int, arguments: tuple[Any, ...]) -> tuple[int, Any]:
    return at, function(*arguments)


def _loky(function: Callable[..., Any], work: Sequence[tuple[Any, ...]], jobs: int | None) -> Iterator[tuple[int, Any]]:
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    calls = (joblib.delayed(_placed)(function, at, arguments) for at, arguments in enumerate(work))
    # One thread a process: workers do not fight for cores, and sums come out the same on any number of them.
    with joblib.parallel_config(backend="loky", n_jobs=jobs or -1, inner_max_num_threads=1):
        try:
            yield from joblib.Parallel(return_as="generator_unordered", pre_dispatch="all", batch_size=1)(calls)
        except TerminatedWorkerError:
            raise ChildProcessError(
                "A worker process died, perhaps for lack of memory; run the same command again, with fewer --jobs if "
                "it repeats: what is finished is kept."
            ) from None


def _dask(function: Callable[..., Any], work: Sequence[tuple[Any, ...]], place: str) -> Iterator[tuple[int, Any]]:
    with _client(place) as client:
        ats, arguments = range(len(work)), list(work)
        futures = client.map(_placed, [function] * len(work), ats, arguments, pure=False)
        for _, result in import_module("distributed").as_completed(futures, with_results=True):
            yield result


@contextmanager
def _client(place: str) -> Iterator[Any]:
    dask: Any = import_module("distributed")
    if not place.startswith("local:"):
        with dask.Client(place) as client:
            yield client
        return
    count = place.removeprefix("local:")
    if not count.isdigit() or int(count) < 1:
        raise ValueError(f"Expected engine dask:local:N with N of 1 or more, got dask:{place}.")
    with (
        dask.LocalCluster(n_workers=int(count), threads_per_worker=1, dashboard_address=None) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client
