"""Backups: taken while the service writes, complete, checked when they are restored."""

from __future__ import annotations

import json
import shutil
import sqlite3
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

from sight._util.hashing import file_sha256
from sight.apps.serve.backup import DATABASE, MANIFEST, backup, backup_dated, restore
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


@pytest.mark.parametrize("name", ["format", "files", "wearers", "created"])
def test_a_list_of_another_form_is_refused(data, tmp_path, name):
    backup(data[0], tmp_path / "copy")
    manifest = json.loads((tmp_path / "copy" / MANIFEST).read_text())
    value = manifest.pop(name)
    changed = {"format": {"format": float("inf")}, "files": {"files": list(value.items()) if name == "files" else []}}
    (tmp_path / "copy" / MANIFEST).write_text(json.dumps(manifest | changed.get(name, {})))
    with pytest.raises(ValueError, match=r"not a backup .* no readable backup\.json"):
        restore(tmp_path / "copy", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def relist(folder, **files):
    """Change the list of a backup; a digest of None is that of the file."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"] |= {name: digest or file_sha256(folder / name) for name, digest in files.items()}
    (folder / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/hostname", "models/../../outside", "models", "other", "./tokens.json"]
)
def test_only_files_of_a_backup_are_restored(data, tmp_path, name):
    backup(data[0], tmp_path / "copy")
    (tmp_path / "outside").write_bytes(b"secret")
    (tmp_path / "copy" / "other").write_bytes(b"other")
    relist(tmp_path / "copy", **{name: "0" * 64})
    with pytest.raises(ValueError, match=r"expected sight\.sqlite, tokens\.json and models in backup\.json"):
        restore(tmp_path / "copy", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_what_a_backup_does_not_list_is_not_restored(data, tmp_path):
    backup(data[0], tmp_path / "copy")
    (tmp_path / "copy" / "models" / "b.onnx").write_bytes(b"added")
    restore(tmp_path / "copy", tmp_path / "restored")
    assert [path.name for path in (tmp_path / "restored" / "models").iterdir()] == ["a.onnx"]
    manifest = json.loads((tmp_path / "copy" / MANIFEST).read_text())
    del manifest["files"][DATABASE]
    (tmp_path / "copy" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="use another backup"):
        restore(tmp_path / "copy", tmp_path / "again")


@pytest.mark.parametrize("link", ["tokens.json", "models/a.onnx", "models"])
def test_links_are_not_restored(data, tmp_path, link):
    """Whoever restores as root would otherwise copy any file into the data folder."""
    backup(data[0], tmp_path / "copy")
    path, outside = tmp_path / "copy" / link, tmp_path / "outside"
    path.rename(outside)
    path.symlink_to(outside)
    with pytest.raises(ValueError, match="is missing or a link"):
        restore(tmp_path / "copy", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER more AFTER INSERT ON inputs_1 BEGIN DELETE FROM wearers; END",
        "CREATE VIEW wearer AS SELECT * FROM wearers",
        "CREATE TABLE other (x)",
        "CREATE TABLE state_7 (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL CHECK (abs(seq) > 0), state BLOB NOT NULL)",
        "CREATE INDEX events_1_by_window ON events_1 (window)",
    ],
)
def test_a_database_with_anything_foreign_is_neither_restored_nor_opened(data, tmp_path, statement):
    backup(data[0], tmp_path / "copy")
    database = sqlite3.connect(tmp_path / "copy" / DATABASE)
    database.execute(statement)
    database.commit()
    database.close()
    relist(tmp_path / "copy", **{DATABASE: None})
    with pytest.raises(ValueError, match="not created by sight"):
        restore(tmp_path / "copy", tmp_path / "restored")
    with pytest.raises(ValueError, match="not created by sight"):
        SqliteStore(tmp_path / "copy" / DATABASE)


def test_dated_backups_replace_the_oldest(data, tmp_path, monkeypatch):
    folder, out = data[0], tmp_path / "backups"
    days = iter(range(1, 10))
    now = SimpleNamespace(now=lambda _: datetime(2030, 5, next(days) // 2 + 1, tzinfo=UTC), strptime=datetime.strptime)
    monkeypatch.setattr("sight.apps.serve.backup.datetime", now)
    names = []
    for _ in range(4):
        made, manifest, removed = backup_dated(folder, out, keep=2)
        names.append(made.name)
        assert manifest["wearers"] == 1
        if len(names) == 1:
            (out / "2020-01-01T000000Z").mkdir()  # no backup
            (out / "notes").mkdir()
            (out / "2020-01-02T000000Z").symlink_to(made)
            (out / ".2020-01-03T000000Z.removed").mkdir()  # of a run that was killed
    assert names == [f"2030-05-0{day}T000000Z" for day in (1, 2, 3, 4)]
    assert removed == names[1:2]
    kept = [path.name for path in sorted(out.iterdir())]
    assert kept == ["2020-01-01T000000Z", "2020-01-02T000000Z", *names[2:], "notes"]
    restore(out / names[-1], tmp_path / "restored")


def test_a_dated_backup_that_fails_removes_nothing(data, tmp_path):
    folder, manager = data
    made, _, _ = backup_dated(folder, tmp_path / "backups", keep=1)
    made.rename(tmp_path / "backups" / "2020-01-01T000000Z")
    manager.close()
    (folder / DATABASE).write_bytes(b"damaged" * 1000)
    with pytest.raises(ValueError, match="cannot be copied"):
        backup_dated(folder, tmp_path / "backups", keep=1)
    assert len(list((tmp_path / "backups").iterdir())) == 1


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
