"""The keeper: each chunk exactly once, to the last bit, whatever stops it; one wearer's trouble is nobody else's."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from hashlib import sha256

import numpy as np
import pytest
import safetensors.numpy

from sight.evaluate import run
from sight.registry import method
from sight.serve import keeper as keeping
from sight.serve.keeper import (
    BadChunk,
    BadRequest,
    Chunk,
    Conflict,
    Keeper,
    LimitReached,
    UnknownModel,
    UnknownWearer,
    WrongSequence,
)
from sight.serve.limits import Limits
from sight.serve.models import Model, Models
from sight.serve.sqlite import SqliteStore
from sight.serve.store import open_store
from sight.signal import prepare
from sight.sources.export import export_onnx
from sight.stream.session import Session
from sight.testing import toy_network
from sight.types import Recording
from tests.keeping import RedisServer, alone, create, killed, pieces, same, send, toy_models, walk

METHODS = ("sight", "keel")


@pytest.fixture(scope="module")
def models():
    return toy_models()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A real network in a file."""
    return export_onnx(toy_network("cnn"), tmp_path_factory.mktemp("models") / "toy@1.onnx")


@pytest.fixture
def model(models):
    return models.get("toy@1")


@pytest.fixture
def keeper(models, tmp_path):
    """Takes no snapshot for so long that all samples are in the log."""
    keeper = Keeper(models, SqliteStore(tmp_path / "store.db"), snapshot_every=10**6)
    yield keeper
    keeper.close()


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


# --- wearers ---------------------------------------------------------------------------------------------------------


def test_creating_twice_must_agree(keeper):
    facts = keeper.create("anna", model="toy", method="SIGHT", settings={"tau": 0.1, "routing": False}, rate_hz=20)
    assert (facts["model"], facts["method"], facts["rate_hz"]) == ("toy@2", "sight", 20.0)
    assert (facts["settings"]["tau"], facts["settings"]["routing"], facts["settings"]["beta"]) == (0.1, False, 1.0)
    assert (facts["classes"][0], facts["channels"], facts["seq"], facts["time_s"]) == (
        "activity 0",
        ["x", "y", "z"],
        0,
        None,
    )
    assert keeper.create("anna") == facts
    assert keeper.create("anna", model="toy", method="sight", settings={"routing": False, "tau": 0.1}) == facts
    for other in ({"model": "toy@1"}, {"method": "keel"}, {"settings": {"tau": 0.2}}, {"rate_hz": 10.0}):
        with pytest.raises(Conflict, match="anna exists: "):
            keeper.create("anna", **other)
    assert keeper.facts("anna") == facts
    assert [row["wearer"] for row in keeper.wearers()] == ["anna"]


def test_defaults_are_the_recommended_method_and_the_newest_model(keeper):
    facts = keeper.create("anna")
    assert (facts["model"], facts["method"], facts["rate_hz"]) == ("four@1", "keel", 10.0)


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({"model": "nothing"}, UnknownModel, "There is no model 'nothing'"),
        ({"method": "nothing"}, BadRequest, "no method called 'nothing'"),
        ({"method": "tent"}, BadRequest, "adapts the network itself"),
        ({"settings": {"tua": 1}, "method": "sight"}, BadRequest, "no setting 'tua'"),
        ({"settings": {"tau": "warm"}, "method": "sight"}, BadRequest, "is not a number"),
        ({"settings": {"tau": -1}, "method": "sight"}, BadRequest, "tau > 0"),
        ({"settings": {"tau": [1]}, "method": "sight"}, BadRequest, "is not a number"),
        ({"rate_hz": 1e6}, BadRequest, "between 1 and 1000 Hz"),
        ({"rate_hz": float("nan")}, BadRequest, "between 1 and 1000 Hz"),
    ],
)
def test_what_cannot_be_is_refused(keeper, asked, error, text):
    with pytest.raises(error, match=text):
        keeper.create("anna", **asked)
    with pytest.raises(UnknownWearer, match="create it first"):
        keeper.facts("anna")


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "x" * 65, "é", "a\n"])
def test_names_are_plain(keeper, name):
    with pytest.raises(ValueError, match="1 to 64 letters"):
        keeper.create(name)


def test_only_so_many_wearers(models, tmp_path):
    keeper = Keeper(models, SqliteStore(tmp_path / "store.db"), limits=Limits(wearers=2))
    create(keeper, ["anna", "ben"])
    with pytest.raises(LimitReached, match="at most 2 wearers"):
        keeper.create("carla")
    keeper.delete("anna")
    keeper.create("carla")
    keeper.close()


def test_reset_forgets_the_wearer_but_not_the_numbers(keeper, model, tmp_path):
    values = walk(2, 30)
    create(keeper, ["anna"])
    send(keeper, "anna", values[::-1].copy())
    facts = keeper.reset("anna")
    assert (facts["seq"], facts["count"]) == (1, 0)
    assert keeper.events("anna") == []
    again = killed(keeper, tmp_path / "killed")
    assert same(send(again, "anna", values, seq=2).events, alone(model, values, "sight"))
    again.close()


def test_moving_carries_what_was_learned(keeper, models, tmp_path):
    values = walk(2, 60)
    create(keeper, ["anna"])
    send(keeper, "anna", values[:305])
    before = keeper.picture("anna")
    assert keeper.move("anna", "toy@2")["model"] == "toy@2"
    assert keeper.picture("anna") == before
    again = killed(keeper, tmp_path / "killed")
    first, second = (Session(models.get(name).source, method("sight")) for name in ("toy@1", "toy@2"))
    first.push(values[:305])
    expected = second.restore(first.state()).push(values[305:])
    events = send(again, "anna", values[305:]).events
    assert [event.window for event in events] == [event.window for event in expected]
    for one, two in zip(events, expected, strict=True):
        assert one.q == pytest.approx(two.q, abs=1e-5)
    with pytest.raises(Conflict, match="four@1 differs in classes, number of features"):
        again.move("anna", "four")
    again.close()


def test_deleting_is_final(keeper):
    create(keeper, ["anna"])
    send(keeper, "anna", walk(0, 5))
    keeper.delete("anna")
    for look in (keeper.facts, keeper.picture, keeper.events, keeper.export, keeper.reset, keeper.delete):
        with pytest.raises(UnknownWearer):
            look("anna")
    assert keeper.wearers() == []
    create(keeper, ["anna"])
    assert keeper.facts("anna")["seq"] == 0


def test_the_picture_tells_habits_and_the_day(keeper):
    for kind in METHODS:
        create(keeper, [kind], kind)
        values = walk(7, 60)
        day = 86_400.0 * 20_000
        times = day - 20 + np.arange(len(values)) / 10
        events = send(keeper, kind, values, time_s=times).events
        today = [event for event in events if event.time_s >= day]
        use = np.bincount([event.q.argmax() for event in today], minlength=5)
        picture = keeper.picture(kind)
        assert picture["time_use_s"] == use.tolist()
        assert sum(picture["habit"]) == pytest.approx(1)
        assert np.diag(picture["similarity"]) == pytest.approx(np.ones(5))
        assert picture["count"] == len(events)
        assert picture["state_bytes"] > 0


def test_an_export_is_plain_files(keeper, model):
    create(keeper, ["anna"])
    values = walk(0, 12)
    events = send(keeper, "anna", values[:60]).events + send(keeper, "anna", values[60:]).events
    packed = zipfile.ZipFile(io.BytesIO(keeper.export("anna")))
    lines = [json.loads(line) for line in packed.read("events.jsonl").splitlines()]
    assert [line["window"] for line in lines] == list(range(11))
    assert np.float32(lines[-1]["q"]) == pytest.approx(events[-1].q, rel=1e-7)
    assert json.loads(packed.read("facts.json"))["wearer"] == "anna"
    state = safetensors.numpy.load(packed.read("state.safetensors"))
    session = Session(model.source, method("sight"))
    session.push(values)
    assert (state["session.adapter.prototypes"] == session.state()["adapter.prototypes"]).all()
    logged = safetensors.numpy.load(packed.read("inputs.safetensors"))
    assert set(logged) <= {"1.values", "2.values"}


# --- models ----------------------------------------------------------------------------------------------------------


def test_models_are_named_by_file_and_content(exported, tmp_path):
    for name in ("my model", "step@10", "step@9", "walk@b", "walk@a"):
        shutil.copyfile(exported, tmp_path / f"{name}.onnx")
    os.utime(tmp_path / "walk@b.onnx", (1, 1))
    models = Models.load([tmp_path])
    digest = sha256(exported.read_bytes()).hexdigest()
    expected = [f"my-model@h{digest[:8]}", "step@9", "step@10", "walk@b", "walk@a"]
    assert [model.id for model in models] == expected
    assert {model.digest for model in models} == {digest}
    assert [models.get(name).id for name in ("step", "walk", "step@9")] == ["step@10", "walk@a", "step@9"]
    assert models.get().id == expected[0]
    assert Models.load([tmp_path / "step@9.onnx", tmp_path]).get().id == "step@10"


def test_models_that_are_none(models, tmp_path):
    with pytest.raises(UnknownModel, match="toy@1"):
        models.get("toy@9")
    with pytest.raises(ValueError, match="There is no model in"):
        Models.load([tmp_path])
    with pytest.raises(ValueError, match="at least one model"):
        Models.load([])


def test_torch_models_answer_alike_in_any_batch():
    source = toy_network("transformer")
    model = Model("t", "1", "", source, source.card)
    x = np.random.default_rng(0).normal(size=(9, 3, 20)).astype(np.float32)
    z, p = model.encode(x)
    for t in range(9):
        alone_z, alone_p = model.encode(x[t : t + 1])
        assert (z[t] == alone_z[0]).all()
        assert (p[t] == alone_p[0]).all()
