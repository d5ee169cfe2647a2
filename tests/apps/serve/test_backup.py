"""Backups: taken while the service writes, complete, checked when they are restored."""

from __future__ import annotations

import json
import shutil
import sqlite3

import numpy as np
import pytest

from sight.apps.serve.backup import DATABASE, MANIFEST, backup, restore
from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.sqlite_store import SqliteStore
from sight.apps.serve.tokens import TokenFile
from tests.helpers.services import ChildService, serve_command, write_onnx
from tests.helpers.sessions import create, make_stream, same_events, send, toy_models, uninterrupted


@pytest.fixture
def data(tmp_path):
    """A data folder with tokens and a model, and the manager of a service that uses it."""
    folder = tmp_path / "data"
    manager = SessionManager(toy_models(), SqliteStore(folder / DATABASE), snapshot_every=7)
    create(manager, ["anna"], "keel")
    TokenFile(folder / "tokens.json").add(["read"])
    (folder / "models").mkdir()
    (folder / "models" / "a.onnx").write_bytes(b"model")
    yield folder, manager
    manager.store.close()


def test_a_backup_of_a_running_service_continues_bit_for_bit(data, tmp_path):
    folder, manager = data
    values = make_stream(3, 120)
    parts = np.split(values, 40)
    events = [event for seq in range(25) for event in send(manager, "anna", parts[seq], seq + 1).events]
    manifest = backup(folder, tmp_path / "copy")
    assert set(manifest["files"]) == {DATABASE, "tokens.json", "models/a.onnx"}
    assert manifest["wearers"] == 1
    send(manager, "anna", parts[25], 26)  # the service continues
    assert restore(tmp_path / "copy", tmp_path / "restored") == json.loads((tmp_path / "copy" / MANIFEST).read_text())
    again = SessionManager(toy_models(), SqliteStore(tmp_path / "restored" / DATABASE))
    assert again.info("anna")["seq"] == 25
    events += [event for seq in range(25, 40) for event in send(again, "anna", parts[seq], seq + 1).events]
    assert same_events(events, uninterrupted(toy_models().get("toy@1"), values, "keel"))
    assert len(TokenFile(tmp_path / "restored" / "tokens.json").tokens()) == 1
    assert (tmp_path / "restored" / "models" / "a.onnx").read_bytes() == b"model"
    again.close()


def test_a_backup_of_killed_and_of_stopped_services(data, tmp_path):
    folder, manager = data
    send(manager, "anna", make_stream(3, 2), 1)
    shutil.copytree(folder, tmp_path / "killed")
    manager.close()
    for name, source in (("killed", tmp_path / "killed"), ("stopped", folder)):
        backup(source, tmp_path / f"copy-{name}")
        restore(tmp_path / f"copy-{name}", tmp_path / f"restored-{name}")
        store = SqliteStore(tmp_path / f"restored-{name}" / DATABASE)
        stored = store.load("anna")
        assert stored.seq + len(stored.inputs) == 1
        store.close()


def test_only_the_owner_can_read_a_backup(data, tmp_path):
    backup(data[0], tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "restored")
    for folder in (tmp_path / "copy", tmp_path / "restored"):
        modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in (folder, *folder.rglob("*"))}
        assert modes == {(True, 0o700), (False, 0o600)}


@pytest.mark.parametrize("name", [DATABASE, "tokens.json", "models/a.onnx", MANIFEST])
@pytest.mark.parametrize("missing", [False, True])
def test_a_damaged_backup_is_refused(data, tmp_path, name, missing):
    backup(data[0], tmp_path / "copy")
    file = tmp_path / "copy" / name
    if missing:
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 255
        file.write_bytes(content)
    result = serve_command("restore", tmp_path / "copy", tmp_path / "restored")
    assert result.exit_code == 2
    assert not (tmp_path / "restored").exists()


def test_nothing_is_overwritten(data, tmp_path):
    folder, _ = data
    backup(folder, tmp_path / "copy")
    with pytest.raises(ValueError, match="exists"):
        backup(folder, tmp_path / "copy")
    with pytest.raises(ValueError, match="not empty"):
        restore(tmp_path / "copy", folder)
    with pytest.raises(ValueError, match=r"no sight\.sqlite"):
        backup(tmp_path / "copy" / "models", tmp_path / "other")
    manifest = json.loads((tmp_path / "copy" / MANIFEST).read_text())
    (tmp_path / "copy" / MANIFEST).write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(ValueError, match="upgrade sight"):
        restore(tmp_path / "copy", tmp_path / "new")


def test_an_empty_folder_is_restored_into(data, tmp_path):
    backup(data[0], tmp_path / "copy")
    (tmp_path / "new").mkdir()
    restore(tmp_path / "copy", tmp_path / "new")
    assert (tmp_path / "new" / "models" / "a.onnx").read_bytes() == b"model"


@pytest.mark.parametrize("kind", ["not a database", "newer", "damaged page"])
def test_a_database_that_cannot_be_used_is_not_copied(data, tmp_path, kind):
    folder, manager = data
    manager.close()
    if kind == "newer":
        database = sqlite3.connect(folder / DATABASE)
        database.execute("PRAGMA user_version = 99")
        database.close()
    else:
        content = (folder / DATABASE).read_bytes()
        start = 0 if kind == "not a database" else 4096
        (folder / DATABASE).write_bytes(content[:start] + bytes([255]) * 2048 + content[start + 2048 :])
    with pytest.raises(ValueError, match=r"cannot be copied|damaged"):
        backup(folder, tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_the_commands_copy_a_service_that_runs(tmp_path):
    model = write_onnx(tmp_path / "toy@1.onnx")
    child = ChildService(tmp_path / "data", "-m", str(model))
    client = child.ready()
    client.put("/v1/wearers/anna").raise_for_status()
    chunk = {"seq": 1, "values": make_stream(1, 5).tolist()}
    client.post("/v1/wearers/anna/samples", json=chunk).raise_for_status()
    for words in (("backup", tmp_path / "data", tmp_path / "copy"), ("restore", tmp_path / "copy", tmp_path / "new")):
        result = serve_command(*words)
        assert result.exit_code == 0, result.output
        assert "1 wearers" in result.output
    assert client.post("/v1/wearers/anna/samples", json=chunk | {"seq": 2}).status_code == 200
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").iterdir()}
    modes.pop("service.log")  # created by this test
    assert set(modes.values()) == {0o600}
    assert child.stop() == 0
    again = ChildService(tmp_path / "new", "-m", str(model))
    assert again.ready().get("/v1/wearers/anna").json()["seq"] == 1
    assert again.stop() == 0
