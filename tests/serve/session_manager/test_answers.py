"""The keeper: each chunk exactly once, to the last bit, whatever stops it; one wearer's trouble is nobody else's."""

from __future__ import annotations

import numpy as np
import pytest

from sight.evaluate import run
from sight.registry import method
from sight.serve import session_manager as keeping
from sight.serve.model_catalog import Models
from sight.serve.session_manager import (
    BadChunk,
    Chunk,
    Keeper,
    WrongSequence,
)
from sight.serve.sqlite_store import SqliteStore
from sight.serve.store import open_store
from sight.signal import prepare
from sight.types import Recording
from tests.helpers.keeping import METHODS, RedisServer, alone, create, killed, pieces, same, send, walk

# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", METHODS)
def test_answers_are_those_of_the_offline_path(exported, tmp_path, kind):
    models, values = Models.load([exported]), walk(3, 60)
    keeper = Keeper(models, SqliteStore(tmp_path / "store.db"), snapshot_every=7)
    keeper.create("anna", method=kind)
    recording = Recording(
        values=values, time_s=np.arange(len(values)) / 10, channels=("x", "y", "z"), unit="g", rate_hz=10.0
    )
    windows = prepare(recording, rate_hz=10.0, window_s=2.0, stride_s=1.0)
    expected = run(method(kind).bind(models.get().source), windows)
    acks = [send(keeper, "anna", piece) for piece in pieces(values, np.random.default_rng(0))]
    events = [event for ack in acks for event in ack.events]
    assert len(events) == len(windows) == 59
    assert (np.stack([event.q for event in events]) == expected.q).all()
    assert (np.stack([event.p for event in events]) == expected.p).all()
    keeper.close()


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("seed", [0, 1])
def test_kills_and_batches_change_no_bit(models, model, tmp_path, kind, seed):
    """Four wearers in batches of random composition, the service killed after every fifth or so."""
    rng = np.random.default_rng(seed)
    names = ["anna", "ben", "carla", "dan"]
    streams = {name: walk(number, 80) for number, name in enumerate(names)}
    left = {name: pieces(values, rng) for name, values in streams.items()}
    keeper = Keeper(models, SqliteStore(tmp_path / "store.db"), snapshot_every=int(rng.integers(1, 12)))
    create(keeper, names, kind)
    answers = {name: [] for name in names}
    kills = 0
    while any(left.values()):
        batch = []
        for name in rng.permutation(names):
            for _ in range(min(int(rng.integers(0, 4)), len(left[name]))):
                batch.append(Chunk(str(name), None, left[name].pop(0)))
        for ack in keeper.ingest(batch):
            answers[ack.wearer] += ack.events
        if rng.random() < 0.2:
            keeper, kills = killed(keeper, tmp_path / f"kill{kills}"), kills + 1
    assert kills >= 3
    for name in names:
        assert same(answers[name], alone(model, streams[name], kind)), name
        assert same(keeper.events(name), answers[name]), name
    keeper.close()


def test_the_same_in_redis(models, model):
    server = RedisServer()
    try:
        rng, values = np.random.default_rng(4), walk(9, 60)
        keeper = Keeper(models, open_store(server.url), snapshot_every=5)
        create(keeper, ["anna"])
        events = []
        for piece in pieces(values, rng):
            events += send(keeper, "anna", piece).events
            if rng.random() < 0.2:
                keeper = Keeper(models, open_store(server.url), snapshot_every=5)
        assert same(events, alone(model, values, "sight"))
        assert same(keeper.events("anna", after=20, limit=10), events[21:31])
        repeated = send(keeper, "anna", values[:5], seq=1)
        assert repeated.duplicate
        keeper.delete("anna")
        keeper.close()
    finally:
        server.close()


def test_gaps_and_timestamps_are_replayed_too(keeper, model, tmp_path):
    values = walk(5, 40)
    time_s = 1.7e9 + np.arange(len(values)) / 10 + 60.0 * (np.arange(len(values)) >= 200)
    create(keeper, ["anna"], "keel")
    first = send(keeper, "anna", values[:150], time_s=time_s[:150]).events
    again = killed(keeper, tmp_path / "killed")
    events = first + send(again, "anna", values[150:], time_s=time_s[150:]).events
    assert same(events, alone(model, values, "keel", time_s))
    assert [event.gap_s > 50 for event in events].count(True) == 1
    again.close()


# --- numbers of chunks -----------------------------------------------------------------------------------------------


def test_a_repeated_chunk_is_answered_as_before_and_not_applied(keeper, model):
    values = walk(1, 30)
    create(keeper, ["anna"])
    first = [send(keeper, "anna", values[at : at + 50], seq=number) for number, at in enumerate(range(0, 150, 50), 1)]
    for ack in first:
        again = send(keeper, "anna", np.zeros((3, 3), np.float32), seq=ack.seq)
        assert again.duplicate
        assert not ack.duplicate
        assert same(again.events, ack.events)
    rest = send(keeper, "anna", values[150:], seq=4)
    assert same([e for ack in (*first, rest) for e in ack.events], alone(model, values, "sight"))


def test_repeats_in_one_batch(keeper):
    create(keeper, ["anna"])
    values = walk(1, 5)
    one, two, three = keeper.ingest([Chunk("anna", 1, values), Chunk("anna", 1, values), Chunk("anna", 2, values)])
    assert [ack.duplicate for ack in (one, two, three)] == [False, True, False]
    assert same(one.events, two.events)
    assert len(one.events) == 4
    assert keeper.facts("anna")["seq"] == 2


def test_a_chunk_left_out_is_named(keeper):
    create(keeper, ["anna"])
    with pytest.raises(WrongSequence, match="expected chunk 1, got 3") as told:
        send(keeper, "anna", walk(1, 5), seq=3)
    assert told.value.expected == 1
    assert send(keeper, "anna", walk(1, 5)).seq == 1
    with pytest.raises(BadChunk, match="numbered from 1"):
        send(keeper, "anna", walk(1, 5), seq=0)


# --- memory and disk -------------------------------------------------------------------------------------------------


def test_few_places_in_memory_change_no_answer(models, model, tmp_path):
    keeper = Keeper(models, SqliteStore(tmp_path / "store.db"), resident=2, snapshot_every=50)
    names = [f"w{number}" for number in range(7)]
    create(keeper, names)
    streams = {name: walk(number, 30) for number, name in enumerate(names)}
    answers = {name: [] for name in names}
    rng = np.random.default_rng(0)
    for at in range(0, 300, 20):
        some = [str(name) for name in rng.permutation(names)]
        for ack in keeper.ingest([Chunk(name, None, streams[name][at : at + 20]) for name in some]):
            answers[ack.wearer] += ack.events
        assert keeper.in_memory == 2
    for name in names:
        assert same(answers[name], alone(model, streams[name], "sight"))
        keeper.picture(name)
    assert keeper.in_memory <= 3
    keeper.close()


def test_the_log_stays_short_and_old_answers_go(models, tmp_path):
    keeper = Keeper(models, SqliteStore(tmp_path / "store.db"), snapshot_every=5, keep=30)
    create(keeper, ["anna", "ben"])
    longest = 0
    for second in range(100):
        keeper.ingest([Chunk(name, None, walk(second, 1)) for name in ("anna", "ben")])
        longest = max(longest, len(keeper.store.load("anna").inputs))
    assert 2 <= longest <= 5
    kept = [event.window for event in keeper.events("anna")]
    assert kept == list(range(kept[0], 99))
    assert 30 <= len(kept) <= 36
    assert send(keeper, "anna", walk(0, 1), seq=1).events == []  # so long ago that only the number is known
    keeper.close()


def test_chunks_without_windows_are_saved_too(keeper, monkeypatch):
    monkeypatch.setattr(keeping, "MOST_ROWS", 8)
    create(keeper, ["anna"])
    late = np.zeros(2)  # the clock stands still, so that no window is ever complete
    for _ in range(20):
        send(keeper, "anna", walk(0, 1)[:2], time_s=late)
    stored = keeper.store.load("anna")
    assert (stored.seq, len(stored.inputs)) == (16, 4)


def test_closing_leaves_nothing_to_replay(models, tmp_path):
    keeper = Keeper(models, SqliteStore(tmp_path / "store.db"), snapshot_every=50)
    create(keeper, ["anna"])
    send(keeper, "anna", walk(0, 5))
    keeper.close()
    store = SqliteStore(tmp_path / "store.db")
    assert (store.load("anna").seq, store.load("anna").inputs) == (1, [])
    store.close()
