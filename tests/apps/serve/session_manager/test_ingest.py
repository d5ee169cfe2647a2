"""Each chunk is applied exactly once, bit for bit, across batches, kills, evictions and repeats."""

from __future__ import annotations

import numpy as np
import pytest

from sight.apps.serve import session_manager, wearer_session
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.errors import ReusedNumber, WrongSequence
from sight.apps.serve.model_catalogue import ModelCatalogue
from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.sqlite_store import SqliteStore
from sight.apps.serve.store import open_store
from sight.recordings.signal import prepare
from sight.registry import method
from sight.results.prediction_loop import run
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
    stored_events,
    uninterrupted,
)

# --- predictions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_predictions_equal_those_of_evaluate(exported, tmp_path, name):
    models, values = ModelCatalogue.load([exported]), make_stream(3, 60)
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
        assert same_events(stored_events(manager, wearer), events[wearer]), wearer
    manager.close()


def test_a_redis_store_gives_the_same_events(models, model):
    server = RedisServer()
    try:
        rng, values = np.random.default_rng(4), make_stream(9, 60)
        manager = SessionManager(models, open_store(server.url), snapshot_every=5)
        create(manager, ["anna"])
        events = []
        parts = split_randomly(values, rng)
        for part in parts:
            events += send(manager, "anna", part).events
            if rng.random() < 0.2:
                manager = SessionManager(models, open_store(server.url), snapshot_every=5)
        assert same_events(events, uninterrupted(model, values, "sight"))
        assert same_events(stored_events(manager, "anna", after=20, limit=10), events[21:31])
        assert send(manager, "anna", parts[0], seq=1).duplicate
        with pytest.raises(ReusedNumber):
            send(manager, "anna", parts[1], seq=1)
        assert manager.start_sequence("anna")["seq"] == 0
        assert send(manager, "anna", parts[1], seq=1).seq == 1
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
    for number, ack in enumerate(first):
        again = send(manager, "anna", values[number * 50 : number * 50 + 50], seq=ack.seq)
        assert again.duplicate
        assert not ack.duplicate
        assert same_events(again.events, ack.events)
    rest = send(manager, "anna", values[150:], seq=4)
    assert same_events([e for ack in (*first, rest) for e in ack.events], uninterrupted(model, values, "sight"))


def test_a_used_number_with_other_content_is_refused(models, tmp_path):
    """Whatever holds the chunk: the log, a snapshot, or the state after a kill."""
    values, other = make_stream(1, 30), make_stream(2, 30)
    manager = SessionManager(models, SqliteStore(tmp_path / "store.db"), snapshot_every=3)
    create(manager, ["anna"])
    time_s = np.arange(300) / 10
    for number in range(1, 11):
        part = slice(number * 10, number * 10 + 10)
        (ack,) = manager.ingest([Chunk("anna", number, values[part], t0=float(time_s[part][0]))])
        assert not ack.duplicate
    for _ in range(2):
        for number in (1, 5, 10):
            part = slice(number * 10, number * 10 + 10)
            for values_now, times in (
                (other[part], time_s[part]),
                (values[part], None),
                (values[part], time_s[part] + 1),
            ):
                with pytest.raises(ReusedNumber, match="POST /v1/wearers/anna/sequence") as raised:
                    send(manager, "anna", values_now, seq=number, time_s=times)
                assert (raised.value.expected, raised.value.status) == (11, 409)
            assert send(manager, "anna", values[part], seq=number, time_s=time_s[part]).duplicate
        manager = after_kill(manager, tmp_path / "killed") if manager.store.path.parent == tmp_path else manager
    assert manager.info("anna")["seq"] == 10
    manager.close()


def test_other_content_under_a_number_of_the_same_batch_is_refused(manager):
    create(manager, ["anna"])
    values = make_stream(1, 5)
    one, two, three = manager.ingest([Chunk("anna", 1, values), Chunk("anna", 1, values + 1), Chunk("anna", 2, values)])
    assert isinstance(two, ReusedNumber)
    assert two.expected == 2
    assert (one.seq, three.seq) == (1, 2)


def test_a_number_too_old_to_compare_is_refused(manager, monkeypatch):
    monkeypatch.setattr(wearer_session, "REMEMBERED", 4)
    create(manager, ["anna"])
    parts = [make_stream(number, 1) for number in range(8)]
    for part in parts:
        send(manager, "anna", part)
    assert send(manager, "anna", parts[4], seq=5).duplicate
    with pytest.raises(ReusedNumber):
        send(manager, "anna", parts[3], seq=4)


def test_a_new_sequence_counts_from_one_and_keeps_everything_else(manager, model, tmp_path):
    values = make_stream(3, 60)
    create(manager, ["anna"])
    first = [send(manager, "anna", values[at : at + 100], seq=at // 100 + 1) for at in (0, 100, 200)]
    info = manager.start_sequence("anna")
    assert (info["seq"], info["count"]) == (0, 29)
    again = after_kill(manager, tmp_path / "killed")
    second = [send(again, "anna", values[at : at + 100], seq=at // 100 - 2) for at in (300, 400, 500)]
    assert [ack.seq for ack in second] == [1, 2, 3]
    assert same_events([e for ack in first + second for e in ack.events], uninterrupted(model, values, "sight"))
    repeated = send(again, "anna", values[300:400], seq=1)
    assert repeated.duplicate
    assert same_events(repeated.events, second[0].events)
    for number, part in ((1, values[:100]), (5, values[:100])):
        with pytest.raises(WrongSequence) as raised:
            send(again, "anna", part, seq=number)
        assert raised.value.expected == 4
    assert same_events(stored_events(again, "anna"), uninterrupted(model, values, "sight"))
    assert again.reset("anna")["seq"] == 3
    with pytest.raises(ReusedNumber):
        send(again, "anna", values[:100], seq=1)
    assert again.start_sequence("anna")["seq"] == 0
    again.close()


# --- times that do not increase --------------------------------------------------------------------------------------


def test_a_time_in_the_future_silences_a_wearer_for_seconds_only(manager, tmp_path):
    values, time_s = make_stream(5, 60), np.arange(600) / 10
    create(manager, ["anna"])
    assert send(manager, "anna", values[:100], time_s=time_s[:100]).dropped == 0
    assert send(manager, "anna", values[:1], time_s=np.array([9e9])).dropped == 0
    acks = [send(manager, "anna", values[at : at + 50], time_s=time_s[at : at + 50]) for at in range(100, 250, 50)]
    again = after_kill(manager, tmp_path / "killed")
    acks += [send(again, "anna", values[at : at + 50], time_s=time_s[at : at + 50]) for at in range(250, 600, 50)]
    assert [ack.dropped for ack in acks[:3]] == [50, 50, 0]
    assert sum(len(ack.events) for ack in acks[:2]) == 0
    assert sum(len(ack.events) for ack in acks[2:]) == 39
    assert max(event.time_s for ack in acks for event in ack.events) == 58.0
    info = again.info("anna")
    assert (info["samples"], info["dropped"], info["time_s"]) == (501, 100, 59.9)
    assert send(again, "anna", values[550:], seq=12, time_s=time_s[550:]).dropped is None  # sent again
    again.close()


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
    kept = [event.window for event in stored_events(manager, "anna")]
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
