"""One thread does the work: chunks of all wearers wait a moment, then go to the keeper together, strictly in turn."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from sight.serve.chunk_format import Arrival
from sight.serve.errors import KeeperError, StoreFailed
from sight.serve.limits import Refused
from sight.serve.monitoring import Metrics, log
from sight.serve.session_manager import Ack, Chunk, Keeper
from sight.types import Array

Outcome: TypeAlias = Ack | Exception
Deliver: TypeAlias = Callable[["Work", Outcome], None]
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Work:
    """A chunk on its way, whom to tell, and, once it is done, how its wearer is served and when its samples were."""

    arrival: Arrival
    deliver: Deliver
    since: float = field(default_factory=time.perf_counter)
    facts: Mapping[str, Any] = field(default_factory=dict)
    time_s: Array | None = None

    @property
    def latency_ms(self) -> float:
        """Milliseconds since it arrived."""
        return (time.perf_counter() - self.since) * 1e3


class Batcher:
    """Collects chunks on the event loop and hands them to the keeper in its one thread.

    Parameters
    ----------
    keeper
        Does the work; nothing else may touch it while the batcher runs.
    metrics
        Where chunks, windows and seconds are counted.
    gather_s
        How long the first chunk of a batch waits for others.
    most
        Chunks of one batch.
    queue
        Chunks that may wait; beyond it `put` refuses.
    """

    def __init__(
        self, keeper: Keeper, metrics: Metrics, *, gather_s: float = 0.004, most: int = 128, queue: int = 20_000
    ) -> None:
        self.keeper, self.metrics = keeper, metrics
        self.gather_s, self.most, self.queue = gather_s, most, queue
        self.listeners: list[Callable[[Work, Ack], None]] = []
        self._waiting: deque[Work] = deque()
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeper")
        self._task: asyncio.Task[None] | None = None
        self._facts: dict[str, Mapping[str, Any]] = {}

    def start(self) -> None:
        """Begin to work, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def put(self, arrival: Arrival, deliver: Deliver) -> None:
        """Queue a chunk; `deliver` is called on the loop with its outcome. Refuses where too many wait."""
        if len(self._waiting) >= self.queue:
            raise Refused("busy", "The service is busy; send the same chunk again in a moment.", 503)
        self._waiting.append(Work(arrival, deliver))
        self.metrics.depth.set(len(self._waiting))
        self._idle.clear()
        self._some.set()

    async def send(self, arrival: Arrival) -> tuple[Work, Ack]:
        """Queue a chunk and wait for its outcome."""
        future: asyncio.Future[tuple[Work, Outcome]] = asyncio.get_running_loop().create_future()

        def deliver(work: Work, outcome: Outcome) -> None:
            if not future.done():
                future.set_result((work, outcome))

        self.put(arrival, deliver)
        work, outcome = await future
        if isinstance(outcome, Exception):
            raise outcome
        return work, outcome

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run anything else that needs the keeper, in its thread, between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))

    async def drain(self) -> None:
        """Wait until nothing waits."""
        await self._idle.wait()

    async def stop(self) -> None:
        """Finish what waits, then end the thread."""
        await self.drain()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._some.wait()
            if len(self._waiting) < self.most:
                await asyncio.sleep(self.gather_s)
            batch = [self._waiting.popleft() for _ in range(min(self.most, len(self._waiting)))]
            outcomes = await loop.run_in_executor(self._thread, self._ingest, batch)
            self._told(batch, outcomes)
            if not self._waiting:
                self._some.clear()
                self._idle.set()

    def forget(self, wearer: str) -> None:
        """Look up anew how a wearer is served, for it may have changed."""
        self._facts.pop(wearer, None)

    def _ingest(self, batch: Sequence[Work]) -> Sequence[Outcome]:
        """Place chunks on their wearers' clocks and ingest them; runs in the keeper's thread."""
        start = time.perf_counter()
        try:
            return self.keeper.ingest([self._chunk(work) for work in batch])
        except Exception as error:  # nobody of this batch is acknowledged
            log.exception("batch failed", extra={"chunks": len(batch)})
            return [error] * len(batch)
        finally:
            self.metrics.ingest.inc(time.perf_counter() - start)
            self.metrics.store.set(self.keeper.store_s)

    def _chunk(self, work: Work) -> Chunk:
        one = work.arrival
        if one.wearer not in self._facts:
            with suppress(KeeperError, StoreFailed):  # told when it is ingested
                self._facts[one.wearer] = self.keeper.facts(one.wearer)
        work.facts, work.time_s = self._facts.get(one.wearer, {}), one.time_s
        if one.t0 is not None and work.time_s is None and work.facts:
            work.time_s = one.t0 + np.arange(len(one.values)) / work.facts["rate_hz"]
        return Chunk(one.wearer, one.seq, one.values, work.time_s)

    def _told(self, batch: Sequence[Work], outcomes: Sequence[Outcome]) -> None:
        self.metrics.batch.observe(len(batch))
        self.metrics.depth.set(len(self._waiting))
        for work, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Ack):
                self.metrics.chunks.labels(str(outcome.duplicate).lower()).inc()
                self.metrics.latency.observe(work.latency_ms / 1e3)
                self.metrics.windows.inc(0 if outcome.duplicate else len(outcome.events))
                for listener in self.listeners:
                    with _logged("listener failed", work):
                        listener(work, outcome)
            with _logged("delivery failed", work):
                work.deliver(work, outcome)


@contextmanager
def _logged(event: str, work: Work) -> Iterator[None]:
    """Note what fails in telling one about a chunk, and go on: the chunk is durable, and others wait for theirs."""
    try:
        yield
    except Exception:
        log.exception(event, extra={"wearer": work.arrival.wearer})
