"""The queue before the session manager: who waits for whom, what is processed together, and what is still open."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from sight.apps.serve import ingest_queue
from sight.apps.serve.chunks import Ack, Chunk
from sight.apps.serve.errors import Refused
from sight.apps.serve.ingest_queue import IngestQueue
from sight.apps.serve.metrics_and_logs import Metrics

#: Longer than any test may take: what would wait for it would fail the test.
NEVER_S = 600.0


class Recorder:
    """Stands for a session manager: acknowledges every chunk, and records the batches."""

    store_s = 0.0

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()

    def ingest(self, chunks):
        assert self.gate.wait(30)
        self.batches.append([chunk.seq for chunk in chunks])
        return [Ack(chunk, [], ("a",), 10.0) for chunk in chunks]


def chunk(seq: int) -> Chunk:
    return Chunk("anna", seq, np.zeros((1, 3), np.float32))


def run(scenario, manager: Recorder, capacity: int = 100) -> None:
    async def scene() -> None:
        queue = IngestQueue(manager, Metrics(), capacity, lambda *_: None)
        await asyncio.wait_for(scenario(queue), 60)
        await queue.stop()

    asyncio.run(scene())


def test_a_chunk_that_comes_alone_does_not_wait(monkeypatch):
    monkeypatch.setattr(ingest_queue, "BATCH_S", NEVER_S)
    manager = Recorder()

    async def scenario(queue):
        await queue.send(chunk(1))

    run(scenario, manager)
    assert manager.batches == [[1]]


def test_chunks_in_quick_succession_are_processed_together(monkeypatch):
    monkeypatch.setattr(ingest_queue, "BATCH_S", 0.5)
    manager = Recorder()

    async def scenario(queue):
        await asyncio.gather(*(queue.send(chunk(seq)) for seq in range(1, 6)))

    run(scenario, manager)
    assert manager.batches == [[1], [2, 3, 4, 5]]


def test_a_full_batch_does_not_wait(monkeypatch):
    monkeypatch.setattr(ingest_queue, "BATCH_S", NEVER_S)
    monkeypatch.setattr(ingest_queue, "BATCH_SIZE", 3)
    manager = Recorder()

    async def scenario(queue):
        await asyncio.gather(*(queue.send(chunk(seq)) for seq in range(1, 8)))

    run(scenario, manager)
    assert manager.batches == [[1], [2, 3, 4], [5, 6, 7]]


def test_calls_run_between_batches_and_before_chunks_that_wait(monkeypatch):
    monkeypatch.setattr(ingest_queue, "BATCH_S", 0.0)
    manager, order = Recorder(), []

    async def scenario(queue):
        manager.gate.clear()
        first = asyncio.create_task(queue.send(chunk(1)))
        await asyncio.sleep(0)
        second = asyncio.create_task(queue.send(chunk(2)))
        called = asyncio.create_task(queue.call(lambda: order.append(list(manager.batches))))
        await asyncio.sleep(0.05)
        manager.gate.set()
        await asyncio.gather(first, second, called)

    run(scenario, manager)
    assert order == [[[1]]]
    assert manager.batches == [[1], [2]]


def test_the_capacity_counts_chunks_that_wait():
    manager = Recorder()

    async def scenario(queue):
        manager.gate.clear()
        sent = [asyncio.create_task(queue.send(chunk(seq))) for seq in (1, 2, 3)]
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="busy"):
            queue.put(chunk(4), lambda *_: None)
        assert queue.metrics.depth._value.get() == 2  # the first one is in work
        manager.gate.set()
        await asyncio.gather(*sent)
        assert queue.metrics.depth._value.get() == 0

    run(scenario, manager, capacity=2)
    assert sorted(seq for batch in manager.batches for seq in batch) == [1, 2, 3]


def test_other_tasks_run_while_many_acknowledgements_are_delivered(monkeypatch):
    """A batch of long chunks would otherwise stop the event loop for seconds."""
    monkeypatch.setattr(ingest_queue, "TURN_S", 0.0)
    manager, order = Recorder(), []

    async def scenario(queue):
        for seq in (1, 2, 3):
            queue.put(chunk(seq), lambda outcome, _: order.append(outcome.seq))
        while 3 not in order:
            order.append("other")
            await asyncio.sleep(0)

    run(scenario, manager)
    assert manager.batches == [[1], [2, 3]]
    assert [entry for entry in order if entry != "other"] == [1, 2, 3]
    assert order[order.index(2) + 1] == "other"


def test_draining_waits_for_chunks_that_wait_and_for_those_in_work():
    manager, delivered = Recorder(), []

    async def scenario(queue):
        await queue.drain()  # nothing is open
        manager.gate.clear()
        for seq in (1, 2):
            queue.put(chunk(seq), lambda outcome, _: delivered.append(outcome.seq))
        drained = asyncio.create_task(queue.drain())
        await asyncio.sleep(0.05)
        assert not drained.done()
        manager.gate.set()
        await drained
        assert delivered == [1, 2]

    run(scenario, manager)


class Sample(Recorder):
    """Acknowledges chunk 1 with two windows and three dropped samples, repeats it, and has forgotten what 3 dropped."""

    def ingest(self, chunks):
        super().ingest(chunks)
        known = {1: {"dropped": 3}, 2: {"dropped": 5, "duplicate": True}, 3: {"dropped": None}}
        return [Ack(chunk, [None, None], ("a",), 10.0, **known[chunk.seq]) for chunk in chunks]


def test_what_is_acknowledged_is_counted_once():
    latencies = []

    async def scenario(queue):
        for seq in (1, 2, 3):
            latencies.append((await queue.send(chunk(seq)))[1])
        text = queue.metrics.text().decode()
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("sight_"))
        assert values['sight_chunks_total{duplicate="false"}'] == "2.0"
        assert values['sight_chunks_total{duplicate="true"}'] == "1.0"
        assert (values["sight_windows_total"], values["sight_samples_dropped_total"]) == ("4.0", "3.0")
        assert (values["sight_batch_chunks_count"], values["sight_batch_chunks_sum"]) == ("3.0", "3.0")
        assert values["sight_latency_seconds_count"] == "3.0"
        assert sum(latencies) == pytest.approx(1e3 * float(values["sight_latency_seconds_sum"]), abs=0.02)

    run(scenario, Sample())
    assert min(latencies) > 0


def test_a_subscription_that_fails_is_logged_and_the_chunk_is_acknowledged(caplog):
    def failing(*_):
        raise ZeroDivisionError

    async def scenario(queue):
        queue.on_ack = failing
        assert (await queue.send(chunk(1)))[0].seq == 1

    run(scenario, Recorder())
    (record,) = caplog.records
    assert (record.message, record.wearer) == ("publication failed", "anna")
