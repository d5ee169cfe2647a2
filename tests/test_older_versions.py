"""Files of older versions: models, state files and databases of sight 0.1 continue as 0.1 would have.

`tests/data/v0_1/make.py` made the files. Processors differ in the last bits: where this one computes the first half of
the stream as the one that made the files did, the second half must agree bit for bit, otherwise closely.
"""

from __future__ import annotations

import shutil
import sqlite3

import numpy as np
import pytest

from sight.apps.serve.model_catalogue import ModelCatalogue
from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.sqlite_store import SCHEMA, SqliteStore
from sight.apps.stream import Session, state_file
from sight.models.load import load
from sight.registry import method
from sight.testing import toy_network
from tests.conftest import ROOT
from tests.helpers.sessions import send

FILES = ROOT / "tests" / "data" / "v0_1"
SENSOR_HZ, SECONDS = 40.0, 60
METHODS = {"anna": "keel", "ben": "sight"}


#: Hyper-parameters with which Keel predicts as in 0.1; its corrections of class frequencies have changed since.
KEEL = {"prototypes": 0.3, "align": 0.6, "debias": 0.0, "guard": False, "hazard": 0.1}
KEEL |= {"penalty": 99.0, "pooled": 1.0}
PARAMS = {"keel": KEEL, "sight": {}}


def make_method(name):
    return method(name, **PARAMS[name])


@pytest.fixture(scope="module")
def expected():
    with np.load(FILES / "expected.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def model():
    return load(FILES / "model@1.onnx")


@pytest.fixture(scope="module")
def agree(expected, model):
    """Return a function that compares events with recorded ones."""
    exact = {}
    for name in METHODS.values():
        events = Session(model, make_method(name), rate_in_hz=SENSOR_HZ).push(
            expected["values"][: len(expected["values"]) // 2]
        )
        exact[name] = np.array_equal([event.q for event in events], expected[f"{name}.before.q"])

    def compare(events, key, name):
        assert [event.time_s for event in events] == expected[f"{key}.time_s"].tolist()
        for part in "qp":
            values = np.stack([getattr(event, part) for event in events])
            np.testing.assert_allclose(values, expected[f"{key}.{part}"], rtol=0, atol=0 if exact[name] else 1e-4)

    return compare


def copy_store(folder) -> SqliteStore:
    shutil.copy(FILES / "sight.sqlite", folder)
    return SqliteStore(folder / "sight.sqlite")


@pytest.mark.parametrize("name", METHODS.values())
def test_a_state_file_of_0_1_continues(name, model, expected, agree, tmp_path):
    half = len(expected["values"]) // 2
    session = state_file.load(FILES / f"{name}.state", Session(model, make_method(name), rate_in_hz=SENSOR_HZ))
    file = state_file.save(tmp_path / "new.state", session)
    events = session.push(expected["values"][half:])
    agree(events, f"{name}.after", name)
    again = state_file.load(file, Session(model, make_method(name), rate_in_hz=SENSOR_HZ))
    assert np.array_equal([event.q for event in again.push(expected["values"][half:])], [event.q for event in events])


def test_a_state_file_of_0_1_still_has_to_fit(model):
    with pytest.raises(ValueError, match="saved at 40 Hz"):
        state_file.load(FILES / "keel.state", Session(model, make_method("keel"), rate_in_hz=50.0))


def test_a_checkpoint_of_0_1_predicts_the_same(expected, model):
    source = load(FILES / "model.safetensors")
    events = Session(model, method("none"), rate_in_hz=SENSOR_HZ).cut(expected["values"])
    np.testing.assert_allclose(source.encode(events.x)[1], model.encode(events.x)[1], atol=1e-5)
    assert source.card.sight_version.startswith("0.1")


def test_a_database_of_0_1_is_migrated_and_continues(expected, agree, tmp_path):
    store = copy_store(tmp_path)
    manager = SessionManager(ModelCatalogue.load([FILES / "model@1.onnx"]), store)
    parts = np.split(expected["values"], SECONDS)
    for wearer, name in METHODS.items():
        agree(manager.events(wearer), f"{name}.before", name)
        acks = [send(manager, wearer, parts[seq - 1], seq) for seq in range(SECONDS // 2 + 1, SECONDS + 1)]
        agree([event for ack in acks for event in ack.events], f"{wearer}.after", name)
        assert manager.info(wearer)["params"] == make_method(name).params()
        assert send(manager, wearer, parts[28], 29).duplicate
    manager.close()
    backup = tmp_path / "sight.sqlite.v2.bak"
    assert backup.stat().st_mode & 0o777 == 0o600
    versions = [sqlite3.connect(file).execute("PRAGMA user_version").fetchone()[0] for file in (backup, store.path)]
    assert versions == [2, SCHEMA]
    again = SessionManager(ModelCatalogue.load([FILES / "model@1.onnx"]), SqliteStore(store.path))
    assert [again.info(wearer)["seq"] for wearer in METHODS] == [SECONDS, SECONDS]
    again.close()


def test_an_interrupted_migration_is_repeated(expected, tmp_path, monkeypatch):
    monkeypatch.setattr("sight.apps.serve.store_migration.seal", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        copy_store(tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "sight.sqlite.v2.bak").exists()
    store = SqliteStore(tmp_path / "sight.sqlite")
    manager = SessionManager(ModelCatalogue.load([FILES / "model@1.onnx"]), store)
    assert manager.info("anna")["seq"] == SECONDS // 2
    manager.close()


def test_damage_in_a_database_of_0_1_stays_with_its_wearer(tmp_path):
    shutil.copy(FILES / "sight.sqlite", tmp_path)
    database = sqlite3.connect(tmp_path / "sight.sqlite")
    with database:
        database.execute("UPDATE state_1 SET state = zeroblob(length(state))")
    database.close()
    manager = SessionManager(ModelCatalogue.load([FILES / "model@1.onnx"]), SqliteStore(tmp_path / "sight.sqlite"))
    with pytest.raises(ValueError, match="anna"):
        manager.info("anna")
    assert manager.info("ben")["seq"] == SECONDS // 2
    manager.close()


def test_unknown_versions_are_refused_and_left_alone(tmp_path):
    for version, text in ((1, "no release"), (SCHEMA + 1, "upgrade sight")):
        shutil.copy(FILES / "sight.sqlite", tmp_path)
        database = sqlite3.connect(tmp_path / "sight.sqlite")
        database.execute(f"PRAGMA user_version = {version}")
        database.close()
        with pytest.raises(ValueError, match=text):
            SqliteStore(tmp_path / "sight.sqlite")


@pytest.mark.parametrize("name", ["eata", "tent"])
def test_older_names_in_states_are_accepted(name):
    adapter = method(name).bind(toy_network())
    state = adapter.state()
    older = {new: old for old, new in adapter.renamed.items()}
    saved = {}
    for key, value in state.items():
        first, *rest = key.split(".", 1)
        saved[".".join([older.get(first, first), *rest])] = value
    assert saved.keys() != state.keys()
    adapter.clone().bind(toy_network()).restore(saved)
    both = saved | {"random.words": state["random.words"]}
    with pytest.raises(ValueError, match="expected state"):
        adapter.restore(both)
