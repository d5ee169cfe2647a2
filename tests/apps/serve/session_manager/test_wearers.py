"""Creating, moving, resetting, exporting and deleting wearers, and several models at once."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import zipfile
from functools import partial
from hashlib import sha256

import numpy as np
import pytest
import safetensors.numpy

from sight.apps.serve import model_catalogue
from sight.apps.serve.errors import Conflict, Refused, UnknownModel, UnknownWearer
from sight.apps.serve.limits import Limits
from sight.apps.serve.model_catalogue import Model, ModelCatalogue
from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.sqlite_store import SqliteStore
from sight.apps.serve.wearer_archive import ArchiveWriter
from sight.apps.stream.session import Session
from sight.base import OutputAdapter
from sight.methods.ema import EMA
from sight.registry import method
from sight.testing import toy_network
from tests.helpers.services import write_onnx
from tests.helpers.sessions import (
    after_kill,
    create,
    make_stream,
    same_events,
    send,
    stored_events,
    uninterrupted,
)

# --- wearers ---------------------------------------------------------------------------------------------------------


def test_creating_twice_must_agree(manager):
    info = manager.create("anna", model="toy", method="SIGHT", params={"tau": 0.1, "routing": False}, rate_hz=20)
    assert (info["model"], info["method"], info["rate_hz"]) == ("toy@2", "sight", 20.0)
    assert (info["params"]["tau"], info["params"]["routing"], info["params"]["beta"]) == (0.1, False, 1.0)
    assert (info["classes"][0], info["channels"]) == ("activity 0", ["x", "y", "z"])
    assert (info["seq"], info["time_s"]) == (0, None)
    assert manager.create("anna") == info
    assert manager.create("anna", model="toy", method="sight", params={"routing": False, "tau": 0.1}) == info
    send(manager, "anna", make_stream(1, 1))
    info = manager.info("anna")
    for other, difference in (
        ({"model": "toy@1"}, "model is toy@2, not toy@1"),
        ({"method": "keel"}, "method is sight, not keel"),
        ({"params": {"tau": 0.2, "routing": False}}, "tau is 0.1, not 0.2"),
        ({"rate_hz": 10.0}, "rate_hz is 20.0, not 10.0"),
    ):
        with pytest.raises(Conflict, match=f"^anna exists: {difference}; delete"):
            manager.create("anna", **other)
    assert manager.info("anna") == info
    assert [row["wearer"] for row in manager.wearers()] == ["anna"]


def test_the_rate_can_be_changed_until_samples_were_sent(manager):
    manager.create("anna", model="toy@1")
    with pytest.raises(Conflict, match="model is toy@1"):
        manager.create("anna", model="toy@2", rate_hz=20.0)
    with pytest.raises(Refused, match="between 1 and 1000 Hz"):
        manager.create("anna", rate_hz=1e6)
    assert manager.info("anna")["rate_hz"] == 10.0
    assert manager.create("anna", rate_hz=20.0)["rate_hz"] == 20.0
    assert send(manager, "anna", make_stream(1, 10), seq=1).rate_hz == 20.0
    with pytest.raises(Conflict, match=r"rate_hz is 20.0, not 10.0"):
        manager.create("anna", rate_hz=10.0)
    manager.reset("anna")
    assert (manager.create("anna", rate_hz=10.0)["rate_hz"], manager.info("anna")["seq"]) == (10.0, 1)


def test_defaults_are_the_recommended_method_and_the_newest_model(manager):
    info = manager.create("anna")
    assert (info["model"], info["method"], info["rate_hz"]) == ("four@1", "keel", 10.0)


@pytest.mark.parametrize(
    ("options", "error", "keyword"),
    [
        ({"model": "nothing"}, UnknownModel, "'nothing'"),
        ({"method": "nothing"}, Refused, "'nothing'"),
        ({"method": "tent"}, Refused, "adapts the network"),
        ({"params": {"tua": 1}, "method": "sight"}, Refused, "tua"),
        ({"params": {"tau": "warm"}, "method": "sight"}, Refused, "tau"),
        ({"params": {"tau": -1}, "method": "sight"}, Refused, "tau > 0"),
        ({"params": {"tau": [1]}, "method": "sight"}, Refused, "tau"),
        ({"rate_hz": 1e6}, Refused, "between 1 and 1000 Hz"),
        ({"rate_hz": float("nan")}, Refused, "between 1 and 1000 Hz"),
    ],
)
def test_invalid_options_are_refused(manager, options, error, keyword):
    with pytest.raises(error, match=keyword):
        manager.create("anna", **options)
    with pytest.raises(UnknownWearer):
        manager.info("anna")


def test_keel_norm_runs_on_files_that_take_statistics(tmp_path):
    from sight.models.export.onnx import export_onnx

    (tmp_path / "models").mkdir()
    export_onnx(toy_network(), tmp_path / "models" / "moving@1.onnx", norms=True)
    export_onnx(toy_network(), tmp_path / "models" / "plain@1.onnx")
    models = ModelCatalogue.load([tmp_path / "models"])
    manager = SessionManager(models, SqliteStore(tmp_path / "store.db"))
    with pytest.raises(Refused, match="sight export --norms"):
        manager.create("anna", model="plain@1", method="keel-norm")
    values = {name: 2 * make_stream(seed, 40) + 1 for seed, name in enumerate(("anna", "ben"))}
    for name in values:
        manager.create(name, model="moving@1", method="keel-norm")
    for first in range(0, 400, 80):
        for name, own in values.items():
            send(manager, name, own[first : first + 80], seq=first // 80 + 1)
    for name, own in values.items():
        assert same_events(stored_events(manager, name), uninterrupted(models.get("moving@1"), own, "keel-norm"))
    manager.close()


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "x" * 65, "é", "a\n", ".", "..", "..."])
def test_invalid_names_are_refused(manager, name):
    with pytest.raises(Refused, match="1 to 64 letters"):
        manager.create(name)


def test_the_number_of_wearers_is_limited(models, tmp_path):
    manager = SessionManager(models, SqliteStore(tmp_path / "store.db"), limits=Limits(wearers=2))
    create(manager, ["anna", "ben"])
    with pytest.raises(Refused, match="at most 2 wearers"):
        manager.create("carla")
    manager.delete("anna")
    manager.create("carla")
    manager.close()


@pytest.mark.parametrize(
    ("name", "params"),
    [("t3a", {"M": 10**6}), ("tca", {"M": 10**7}), ("lame", {"rule": "stream", "batch": 10**5})],
)
def test_a_method_with_a_large_state_is_refused_before_it_is_allocated(manager, monkeypatch, name, params):
    def fail(*_):
        raise AssertionError("an adapter was bound")

    monkeypatch.setattr(Model, "adapter", fail)
    with pytest.raises(Refused, match=r"at most 4194304 bytes .* raise the limit state_bytes") as raised:
        manager.create("anna", model="toy@1", method=name, params=params)
    assert (raised.value.status, raised.value.reason) == (413, "state")
    assert "anna" not in manager.store.wearers()


def test_methods_of_usual_size_are_created(manager):
    for name in ("none", "ema", "sticky", "sticky-learned", "oatta", "t3a", "tca", "sight", "keel"):
        manager.create(name, model="toy@1", method=name)
        assert manager.adaptation(name)["state_bytes"] <= manager.limits.state_bytes
    manager.create("lame", model="toy@1", method="lame", params={"rule": "stream"})


def test_a_method_that_does_not_declare_its_size_is_refused(manager, monkeypatch):
    monkeypatch.setattr(EMA, "_max_state_bytes", OutputAdapter._max_state_bytes)
    with pytest.raises(Refused, match="does not declare"):
        manager.create("anna", method="ema")


def test_reset_keeps_the_numbers_of_chunks(manager, model, tmp_path):
    values = make_stream(2, 30)
    create(manager, ["anna"])
    send(manager, "anna", values[::-1].copy())
    info = manager.reset("anna")
    assert (info["seq"], info["count"]) == (1, 0)
    assert stored_events(manager, "anna") == []
    again = after_kill(manager, tmp_path / "killed")
    assert same_events(send(again, "anna", values, seq=2).events, uninterrupted(model, values, "sight"))
    again.close()


def test_moving_keeps_the_state(manager, models, tmp_path):
    values = make_stream(2, 60)
    create(manager, ["anna"])
    send(manager, "anna", values[:305])
    before = manager.adaptation("anna")
    assert manager.move("anna", "toy@2")["model"] == "toy@2"
    assert manager.adaptation("anna") == before
    again = after_kill(manager, tmp_path / "killed")
    first, second = (Session(models.get(name).source, method("sight")) for name in ("toy@1", "toy@2"))
    first.push(values[:305])
    expected = second.restore(first.state()).push(values[305:])
    events = send(again, "anna", values[305:]).events
    assert [event.window for event in events] == [event.window for event in expected]
    for one, two in zip(events, expected, strict=True):
        assert one.q == pytest.approx(two.q, abs=1e-5)
    with pytest.raises(Conflict, match="classes, number of features"):
        again.move("anna", "four")
    again.close()


def test_deleting_is_final(manager):
    create(manager, ["anna"])
    send(manager, "anna", make_stream(0, 5))
    manager.delete("anna")
    calls = (manager.info, manager.adaptation, manager.export, manager.reset, manager.delete)
    for call in (*calls, partial(stored_events, manager)):
        with pytest.raises(UnknownWearer):
            call("anna")
    assert manager.wearers() == []
    create(manager, ["anna"])
    assert manager.info("anna")["seq"] == 0


@pytest.mark.parametrize(
    ("name", "origins"), [("sight", ("method", "wearer")), ("keel", ("method", "model")), ("none", ("day", "model"))]
)
def test_the_adaptation_summary_contains_frequencies_and_time_use(manager, name, origins):
    create(manager, [name], name)
    values, day = make_stream(7, 60), 86_400.0 * 20_000
    events = send(manager, name, values, time_s=day - 20 + np.arange(len(values)) / 10).events
    today = [event for event in events if event.time_s >= day]
    time_use_s = np.bincount([event.q.argmax() for event in today], minlength=5)
    summary = manager.adaptation(name)
    assert summary["time_use_s"] == time_use_s.tolist()
    assert sum(summary["class_frequencies"]) == pytest.approx(1)
    assert (summary["frequencies_from"], summary["prototypes_from"]) == origins
    assert np.diag(summary["similarity"]) == pytest.approx(np.ones(5))
    assert summary["count"] == len(events)
    assert (summary["state_bytes"] > 0) == (name != "none")


def test_an_export_contains_plain_files(manager, model):
    create(manager, ["anna"])
    values = make_stream(0, 12)
    events = send(manager, "anna", values[:60]).events + send(manager, "anna", values[60:]).events
    writer = ArchiveWriter(manager.export("anna"))
    packed = zipfile.ZipFile(
        io.BytesIO(writer.start() + writer.add(events[:4]) + writer.add(events[4:]) + writer.finish())
    )
    assert packed.testzip() is None
    lines = [json.loads(line) for line in packed.read("events.jsonl").splitlines()]
    assert [line["window"] for line in lines] == list(range(11))
    assert np.float32(lines[-1]["q"]) == pytest.approx(events[-1].q, rel=1e-7)
    info = json.loads(packed.read("wearer.json"))
    assert (info["wearer"], info["adaptation"]["count"]) == ("anna", 11)
    state = safetensors.numpy.load(packed.read("state.safetensors"))
    session = Session(model.source, method("sight"))
    session.push(values)
    assert (state["session.adapter.prototypes"] == session.state()["adapter.prototypes"]).all()
    logged = safetensors.numpy.load(packed.read("inputs.safetensors"))
    assert set(logged) == {"1.values", "2.values"}
    send(manager, "anna", values[:5], time_s=np.arange(20.0, 25.0))
    writer = ArchiveWriter(manager.export("anna"))
    packed = zipfile.ZipFile(io.BytesIO(writer.start() + writer.finish()))
    logged = safetensors.numpy.load(packed.read("inputs.safetensors"))
    assert (logged["3.time_s"] == np.arange(20.0, 25.0)).all()
    assert (logged["3.values"] == values[:5]).all()


@pytest.mark.parametrize("name", ["snapshot_every", "keep", "resident"])
def test_numbers_of_a_manager_are_above_zero(models, name):
    with pytest.raises(ValueError, match=name):
        SessionManager(models, None, **{name: 0})


# --- models ----------------------------------------------------------------------------------------------------------


def test_models_are_named_by_file_and_content(exported, tmp_path):
    for name in ("my model", "step@10", "step@9", "walk@b", "walk@a"):
        shutil.copyfile(exported, tmp_path / f"{name}.onnx")
    os.utime(tmp_path / "walk@b.onnx", (1, 1))
    models = ModelCatalogue.load([tmp_path])
    digest = sha256(exported.read_bytes()).hexdigest()
    expected = [f"my-model@h{digest[:8]}", "step@9", "step@10", "walk@b", "walk@a"]
    assert [model.id for model in models] == expected
    assert {model.digest for model in models} == {digest}
    assert [models.get(name).id for name in ("step", "walk", "step@9")] == ["step@10", "walk@a", "step@9"]
    assert models.get().id == expected[0]
    assert ModelCatalogue.load([tmp_path / "step@9.onnx", tmp_path]).get().id == "step@10"


def test_a_version_in_a_card_is_cleaned(tmp_path):
    write_onnx(tmp_path / "walk.onnx", version="2 \x1b[31m<script>/../" + "x" * 100)
    (model,) = ModelCatalogue.load([tmp_path])
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", model.version)
    assert model.version.startswith("2-31m-script-..-x")


def test_unknown_and_missing_models_are_refused(models, tmp_path):
    with pytest.raises(UnknownModel, match="toy@1"):
        models.get("toy@9")
    with pytest.raises(ValueError, match="no model in"):
        ModelCatalogue.load([tmp_path])
    with pytest.raises(ValueError, match="at least one model"):
        ModelCatalogue.load([])


def test_methods_with_many_params_share_a_bounded_number_of_templates(model, monkeypatch):
    monkeypatch.setattr(model_catalogue, "MAX_TEMPLATES", 2)
    rates = (0.1, 0.2, 0.3, 0.1)
    assert [model.adapter("sight", {"tau": tau}).tau for tau in rates] == list(rates)
    assert len(model._templates) <= 2


def test_torch_models_encode_independently_of_the_batch():
    source = toy_network("transformer")
    model = Model("t", "1", "", source, source.card)
    x = np.random.default_rng(0).normal(size=(9, 3, 20)).astype(np.float32)
    z, p = model.encode(x)
    for t in range(9):
        z_one, p_one = model.encode(x[t : t + 1])
        assert (z[t] == z_one[0]).all()
        assert (p[t] == p_one[0]).all()
