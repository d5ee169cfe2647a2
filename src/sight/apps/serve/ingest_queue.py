"""Queue of chunks in front of the session manager, which runs in one thread and gets chunks in batches."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar

from sight.apps.serve.chunk_batch import Outcome
from sight.apps.serve.chunks import Ack, Chunk
from sight.apps.serve.errors import Refused
from sight.apps.serve.metrics_and_logs import Metrics, log
from sight.apps.serve.session_manager import SessionManager

#: Least time between the starts of two batches, and most chunks in one. A chunk that comes alone does not wait, and
#: many wearers share the costs of a batch.
BATCH_S, BATCH_SIZE = 0.004, 128
#: How long acknowledgements are delivered before other tasks of the event loop run.
TURN_S = 0.01
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
    acknowledgement and its latency in milliseconds. One batch is in work at a time; calls run between two batches.
    """

    def __init__(
        self, manager: SessionManager, metrics: Metrics, capacity: int, on_ack: Callable[[Ack, float], None]
    ) -> None:
        self.manager, self.metrics, self.capacity, self.on_ack = manager, metrics, capacity, on_ack
        self._waiting: deque[_Pending] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sessions")
        self._started = -math.inf  # when the latest batch was started
        self._idle = asyncio.Event()  # set while no chunk waits or is in work
        self._idle.set()

    def put(self, chunk: Chunk, deliver: Deliver) -> None:
        """Queue a chunk; raise `Refused` with status 503 if the queue is full."""
        if len(self._waiting) >= self.capacity:
            raise Refused("busy", "The service is busy; send the same chunk again in a moment.", 503)
        self._waiting.append(_Pending(chunk, deliver, time.perf_counter()))
        self.metrics.depth.set(len(self._waiting))
        if self._idle.is_set():
            self._start_batch()

    def _start_batch(self) -> None:
        """Start a batch of what waits, or do so later if the latest one was started just now."""
        if not self._waiting:
            self._idle.set()
            return
        self._idle.clear()
        loop, wait_s = asyncio.get_running_loop(), self._started + BATCH_S - time.perf_counter()
        if wait_s > 0 and len(self._waiting) < BATCH_SIZE:
            loop.call_later(wait_s, self._start_batch)
            return
        self._started = time.perf_counter()
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_SIZE))]
        self.metrics.batch.observe(len(batch))
        self.metrics.depth.set(len(self._waiting))
        # Not awaited: fewer turns of the event loop between a chunk and its acknowledgement.
        self._thread.submit(self._process, loop, batch)

    def _process(self, loop: asyncio.AbstractEventLoop, batch: Sequence[_Pending]) -> None:
        outcomes = self._ingest([pending.chunk for pending in batch])
        loop.call_soon_threadsafe(self._report, zip(batch, outcomes, strict=True))

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
        await self._idle.wait()

    async def stop(self) -> None:
        await self.drain()
        self._thread.shutdown(wait=True)

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

    def _report(self, results: Iterator[tuple[_Pending, Outcome]]) -> None:
        """Deliver outcomes for a short time, then let other tasks run; start the next batch after the last one."""
        end = time.perf_counter() + TURN_S
        for pending, outcome in results:
            self._deliver(pending, outcome)
            if time.perf_counter() > end:
                asyncio.get_running_loop().call_soon(self._report, results)
                return
        self._start_batch()

    def _deliver(self, pending: _Pending, outcome: Outcome) -> None:
        """Count and deliver an outcome; a callback that fails is logged and affects no other chunk."""
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
