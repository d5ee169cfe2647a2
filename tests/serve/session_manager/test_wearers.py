"""Who is served with what: creating, moving, forgetting, exporting, and the models beside each other."""

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

from sight.registry import method
from sight.serve.limits import Limits
from sight.serve.model_catalog import Model, Models
from sight.serve.session_manager import (
    BadRequest,
    Conflict,
    Keeper,
    LimitReached,
    UnknownModel,
    UnknownWearer,
)
from sight.serve.sqlite_store import SqliteStore
from sight.stream.session import Session
from sight.testing import toy_network
from tests.helpers.keeping import METHODS, alone, create, killed, same, send, walk

# --- wearers ---------------------------------------------------------------------------------------------------------


def test_creating_twice_must_agree(keeper):
    facts = keeper.create("anna", model="toy", method="SIGHT", params={"tau": 0.1, "routing": False}, rate_hz=20)
    assert (facts["model"], facts["method"], facts["rate_hz"]) == ("toy@2", "sight", 20.0)
    assert (facts["params"]["tau"], facts["params"]["routing"], facts["params"]["beta"]) == (0.1, False, 1.0)
    assert (facts["classes"][0], facts["channels"], facts["seq"], facts["time_s"]) == (
        "activity 0",
        ["x", "y", "z"],
        0,
        None,
    )
    assert keeper.create("anna") == facts
    assert keeper.create("anna", model="toy", method="sight", params={"routing": False, "tau": 0.1}) == facts
    for other in ({"model": "toy@1"}, {"method": "keel"}, {"params": {"tau": 0.2}}, {"rate_hz": 10.0}):
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
        ({"params": {"tua": 1}, "method": "sight"}, BadRequest, "no parameter 'tua'"),
        ({"params": {"tau": "warm"}, "method": "sight"}, BadRequest, "expected tau > 0"),
        ({"params": {"tau": -1}, "method": "sight"}, BadRequest, "tau > 0"),
        ({"params": {"tau": [1]}, "method": "sight"}, BadRequest, "expected tau > 0"),
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
