"""Queue of chunks in front of the session manager, which runs in one thread and gets chunks in batches."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar

from sight.apps.serve.chunk_batch import Outcome
from sight.apps.serve.chunks import Ack, Chunk
from sight.apps.serve.errors import Refused
from sight.apps.serve.metrics_and_logs import Metrics, log
from sight.apps.serve.session_manager import SessionManager

#: How long the first chunk of a batch waits for others, and most chunks in one batch.
GATHER_S, BATCH_SIZE = 0.004, 128
#: Called on the event loop with the outcome of a chunk and its latency in milliseconds.
Deliver: TypeAlias = Callable[[Outcome, float], None]
P = ParamSpec("P")
T = TypeVar("T")


class _Pending(NamedTuple):
    """A chunk in the queue, the callback for its outcome, and when it arrived."""

    chunk: Chunk
    deliver: Deliver
    arrived: float


class IngestQueue:
    """Collects chunks on the event loop and passes them to the session manager in its thread.

    Nothing else may use the session manager while the queue runs. `on_ack` is called on the event loop with each
    acknowledgement and its latency in milliseconds.
    """

    def __init__(
        self, manager: SessionManager, metrics: Metrics, capacity: int, on_ack: Callable[[Ack, float], None]
    ) -> None:
        self.manager, self.metrics, self.on_ack = manager, metrics, on_ack
        self._queue: asyncio.Queue[_Pending] = asyncio.Queue(capacity)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sessions")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def put(self, chunk: Chunk, deliver: Deliver) -> None:
        """Queue a chunk; raise `Refused` with status 503 if the queue is full."""
        try:
            self._queue.put_nowait(_Pending(chunk, deliver, time.perf_counter()))
        except asyncio.QueueFull:
            text = "The service is busy; send the same chunk again in a moment."
            raise Refused("busy", text, 503) from None
        self.metrics.depth.set(self._queue.qsize())

    async def send(self, chunk: Chunk) -> tuple[Ack, float]:
        """Queue a chunk; return its acknowledgement and latency in milliseconds, or raise its error."""
        future: asyncio.Future[tuple[Outcome, float]] = asyncio.get_running_loop().create_future()

        def deliver(outcome: Outcome, latency_ms: float) -> None:
            if not future.done():
                future.set_result((outcome, latency_ms))

        self.put(chunk, deliver)
        outcome, latency_ms = await future
        if isinstance(outcome, Exception):
            raise outcome
        return outcome, latency_ms

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the thread of the session manager, between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))

    async def drain(self) -> None:
        await self._queue.join()

    async def stop(self) -> None:
        await self.drain()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=True)

    async def _run(self) -> None:
        while True:
            batch = [await self._queue.get()]
            if self._queue.qsize() < BATCH_SIZE:
                await asyncio.sleep(GATHER_S)
            while len(batch) < BATCH_SIZE and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            self._report(batch, await self.call(self._ingest, [pending.chunk for pending in batch]))
            for _ in batch:
                self._queue.task_done()

    def _ingest(self, chunks: Sequence[Chunk]) -> Sequence[Outcome]:
        start = time.perf_counter()
        try:
            return self.manager.ingest(chunks)
        except Exception as error:
            log.exception("batch failed", extra={"chunks": len(chunks)})
            return [error] * len(chunks)
        finally:
            self.metrics.ingest.inc(time.perf_counter() - start)
            self.metrics.store.set(self.manager.store_s)

    def _report(self, batch: Sequence[_Pending], outcomes: Sequence[Outcome]) -> None:
        """Count and deliver the outcomes; a callback that fails is logged and affects no other chunk."""
        self.metrics.batch.observe(len(batch))
        self.metrics.depth.set(self._queue.qsize())
        for pending, outcome in zip(batch, outcomes, strict=True):
            latency_s = time.perf_counter() - pending.arrived
            latency_ms = round(latency_s * 1e3, 2)
            if isinstance(outcome, Ack):
                self.metrics.chunks.labels(str(outcome.duplicate).lower()).inc()
                self.metrics.latency.observe(latency_s)
                self.metrics.windows.inc(0 if outcome.duplicate else len(outcome.events))
                self.metrics.dropped.inc(0 if outcome.duplicate else outcome.dropped or 0)
                try:
                    self.on_ack(outcome, latency_ms)
                except Exception:
                    log.exception("publication failed", extra={"wearer": pending.chunk.wearer})
            try:
                pending.deliver(outcome, latency_ms)
            except Exception:
                log.exception("delivery failed", extra={"wearer": pending.chunk.wearer})
