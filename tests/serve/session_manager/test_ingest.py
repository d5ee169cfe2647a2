"""Each chunk is applied exactly once, bit for bit, across batches, kills, evictions and repeats."""

from __future__ import annotations

import numpy as np
import pytest

from sight.evaluate import run
from sight.registry import method
from sight.serve import session_manager
from sight.serve.chunks import Chunk
from sight.serve.errors import WrongSequence
from sight.serve.model_catalog import ModelCatalog
from sight.serve.session_manager import SessionManager
from sight.serve.sqlite_store import SqliteStore
from sight.serve.store import open_store
from sight.signal import prepare
from sight.types import Recording
from tests.helpers.sessions import (
    METHODS,
    RedisServer,
    after_kill,
    create,
    make_stream,
    same_events,
    send,
    split_randomly,
    uninterrupted,
)

# --- predictions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_predictions_equal_those_of_evaluate(exported, tmp_path, name):
    models, values = ModelCatalog.load([exported]), make_stream(3, 60)
    manager = SessionManager(models, SqliteStore(tmp_path / "store.db"), snapshot_every=7)
    manager.create("anna", method=name)
    recording = Recording(
        values=values, time_s=np.arange(len(values)) / 10, channels=("x", "y", "z"), unit="g", rate_hz=10.0
    )
    windows = prepare(recording, rate_hz=10.0, window_s=2.0, stride_s=1.0)
    expected = run(method(name).bind(models.get().source), windows)
    acks = [send(manager, "anna", part) for part in split_randomly(values, np.random.default_rng(0))]
    events = [event for ack in acks for event in ack.events]
    assert len(events) == len(windows) == 59
    assert (np.stack([event.q for event in events]) == expected.q).all()
    assert (np.stack([event.p for event in events]) == expected.p).all()
    manager.close()


@pytest.mark.parametrize("name", METHODS)
def test_kills_and_batches_change_no_bit(models, model, tmp_path, name):
    """Four wearers in batches of random composition; the service is killed after about every fifth batch."""
    rng = np.random.default_rng(0)
    wearers = ["anna", "ben", "carla", "dan"]
    streams = {wearer: make_stream(number, 80) for number, wearer in enumerate(wearers)}
    left = {wearer: split_randomly(values, rng) for wearer, values in streams.items()}
    manager = SessionManager(models, SqliteStore(tmp_path / "store.db"), snapshot_every=int(rng.integers(1, 12)))
    create(manager, wearers, name)
    events = {wearer: [] for wearer in wearers}
    kills = 0
    while any(left.values()):
        batch = []
        for wearer in rng.permutation(wearers):
            for _ in range(min(int(rng.integers(0, 4)), len(left[wearer]))):
                batch.append(Chunk(str(wearer), None, left[wearer].pop(0)))
        for ack in manager.ingest(batch):
            events[ack.wearer] += ack.events
        if rng.random() < 0.2:
            manager, kills = after_kill(manager, tmp_path / f"kill{kills}"), kills + 1
    assert kills >= 3
    for wearer in wearers:
        assert same_events(events[wearer], uninterrupted(model, streams[wearer], name)), wearer
        assert same_events(manager.events(wearer), events[wearer]), wearer
    manager.close()


def test_a_redis_store_gives_the_same_events(models, model):
    server = RedisServer()
    try:
        rng, values = np.random.default_rng(4), make_stream(9, 60)
        manager = SessionManager(models, open_store(server.url), snapshot_every=5)
        create(manager, ["anna"])
        events = []
        for part in split_randomly(values, rng):
            events += send(manager, "anna", part).events
            if rng.random() < 0.2:
                manager = SessionManager(models, open_store(server.url), snapshot_every=5)
        assert same_events(events, uninterrupted(model, values, "sight"))
        assert same_events(manager.events("anna", after=20, limit=10), events[21:31])
        assert send(manager, "anna", values[:5], seq=1).duplicate
        manager.delete("anna")
        manager.close()
    finally:
        server.close()


def test_gaps_and_times_are_replayed(manager, model, tmp_path):
    values = make_stream(5, 40)
    time_s = 1.7e9 + np.arange(len(values)) / 10 + 60.0 * (np.arange(len(values)) >= 200)
    create(manager, ["anna"], "keel")
    first = send(manager, "anna", values[:150], time_s=time_s[:150]).events
    again = after_kill(manager, tmp_path / "killed")
    events = first + send(again, "anna", values[150:], time_s=time_s[150:]).events
    assert same_events(events, uninterrupted(model, values, "keel", time_s))
    assert [event.gap_s > 50 for event in events].count(True) == 1
    again.close()


def test_acknowledgements_carry_the_time_of_each_sample(manager):
    create(manager, ["anna"])
    values = make_stream(1, 1)
    first = send(manager, "anna", values)
    (second,) = manager.ingest([Chunk("anna", None, values, t0=5.0)])
    third = send(manager, "anna", values)
    for ack, start_s in ((first, 0.0), (second, 5.0), (third, 6.0)):
        assert ack.sample_times() == pytest.approx(start_s + np.arange(10) / 10)
    assert (second.seq, second.rate_hz) == (2, 10.0)


# --- numbers of chunks -----------------------------------------------------------------------------------------------


def test_a_repeated_chunk_returns_the_same_events_and_is_not_applied(manager, model):
    values = make_stream(1, 30)
    create(manager, ["anna"])
    first = [send(manager, "anna", values[at : at + 50], seq=number) for number, at in enumerate(range(0, 150, 50), 1)]
    for ack in first:
        again = send(manager, "anna", np.zeros((3, 3), np.float32), seq=ack.seq)
        assert again.duplicate
        assert not ack.duplicate
        assert same_events(again.events, ack.events)
    rest = send(manager, "anna", values[150:], seq=4)
    assert same_events([e for ack in (*first, rest) for e in ack.events], uninterrupted(model, values, "sight"))


def test_a_chunk_repeated_in_one_batch_is_applied_once(manager):
    create(manager, ["anna"])
    values = make_stream(1, 5)
    one, two, three = manager.ingest([Chunk("anna", 1, values), Chunk("anna", 1, values), Chunk("anna", 2, values)])
    assert [ack.duplicate for ack in (one, two, three)] == [False, True, False]
    assert same_events(one.events, two.events)
    assert len(one.events) == 4
    assert manager.info("anna")["seq"] == 2


def test_a_skipped_chunk_is_refused_with_the_expected_number(manager):
    create(manager, ["anna"])
    with pytest.raises(WrongSequence) as raised:
        send(manager, "anna", make_stream(1, 5), seq=3)
    assert raised.value.expected == 1
    assert send(manager, "anna", make_stream(1, 5)).seq == 1


# --- memory and disk -------------------------------------------------------------------------------------------------


def test_evictions_change_no_event(models, model, tmp_path):
    manager = SessionManager(models, SqliteStore(tmp_path / "store.db"), resident=2, snapshot_every=50)
    wearers = [f"w{number}" for number in range(5)]
    create(manager, wearers)
    streams = {wearer: make_stream(number, 30) for number, wearer in enumerate(wearers)}
    events = {wearer: [] for wearer in wearers}
    rng = np.random.default_rng(0)
    for at in range(0, 300, 30):
        order = [str(wearer) for wearer in rng.permutation(wearers)]
        for ack in manager.ingest([Chunk(wearer, None, streams[wearer][at : at + 30]) for wearer in order]):
            events[ack.wearer] += ack.events
        assert manager.in_memory == 2
    for wearer in wearers:
        assert same_events(events[wearer], uninterrupted(model, streams[wearer], "sight"))
        manager.adaptation(wearer)
    assert manager.in_memory <= 3
    manager.close()


def test_snapshots_shorten_the_log_and_remove_old_events(models, tmp_path):
    manager = SessionManager(models, SqliteStore(tmp_path / "store.db"), snapshot_every=5, keep=30)
    create(manager, ["anna", "ben"])
    longest = 0
    for second in range(100):
        manager.ingest([Chunk(wearer, None, make_stream(second, 1)) for wearer in ("anna", "ben")])
        longest = max(longest, len(manager.store.load("anna").inputs))
    assert 2 <= longest <= 5
    kept = [event.window for event in manager.events("anna")]
    assert kept == list(range(kept[0], 99))
    assert 30 <= len(kept) <= 36
    assert send(manager, "anna", make_stream(0, 1), seq=1).events == []  # its events are no longer stored
    manager.close()


def test_a_snapshot_is_taken_even_if_no_window_is_complete(manager, monkeypatch):
    monkeypatch.setattr(session_manager, "MAX_LOGGED", 8)
    create(manager, ["anna"])
    constant = np.zeros(2)  # the clock does not advance, so no window is ever complete
    for _ in range(20):
        send(manager, "anna", make_stream(0, 1)[:2], time_s=constant)
    stored = manager.store.load("anna")
    assert (stored.seq, len(stored.inputs)) == (16, 4)


def test_closing_saves_all_sessions(models, tmp_path):
    manager = SessionManager(models, SqliteStore(tmp_path / "store.db"), snapshot_every=50)
    create(manager, ["anna"])
    send(manager, "anna", make_stream(0, 5))
    manager.close()
    store = SqliteStore(tmp_path / "store.db")
    assert (store.load("anna").seq, store.load("anna").inputs) == (1, [])
    store.close()
