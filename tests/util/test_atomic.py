"""Atomic writes: files are complete or absent, with the usual permissions."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import numpy as np
import pytest

from sight._util.atomic import require_space, staged_file, staged_files, write_atomic, write_json


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_new_files_have_the_permissions_of_the_umask(tmp_path):
    previous = os.umask(0o027)
    try:
        path = write_atomic(tmp_path / "new" / "a.bin", b"abc")
    finally:
        os.umask(previous)
    assert path.read_bytes() == b"abc"
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_error_keeps_the_previous_file(tmp_path):
    path = write_atomic(tmp_path / "a.bin", b"old")
    with pytest.raises(TypeError), staged_file(path) as draft:
        draft.write_bytes("text")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_last_file_of_a_set_marks_it_as_complete(tmp_path, monkeypatch):
    names = ("a", "b", "done")

    def write(text):
        with staged_files(tmp_path / "set", names) as draft:
            for name in names:
                (draft / name).write_text(text)

    write("first")
    with pytest.raises(FileNotFoundError), staged_files(tmp_path / "set", names) as draft:
        (draft / "a").write_text("second")  # and no others
    assert {path.read_text() for path in (tmp_path / "set").iterdir()} == {"first"}
    replace = os.replace

    def fail(source, path):
        if path.name == "b":
            raise OSError("power lost")
        replace(source, path)

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="power lost"):
        write("second")
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == ["a", "b"]


@pytest.fixture
def calls(monkeypatch):
    """Names of the files and folders that are synchronised or replaced, in order."""
    calls, sync, replace = [], os.fsync, os.replace

    def record_sync(handle):
        calls.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))))
        sync(handle)

    def record_replace(source, path):
        calls.append(("name", os.path.basename(path)))
        replace(source, path)

    monkeypatch.setattr("os.fsync", record_sync)
    monkeypatch.setattr("os.replace", record_replace)
    return calls


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to name open files")
def test_content_reaches_the_disk_before_its_name(tmp_path, calls):
    write_atomic(tmp_path / "new" / "a.bin", b"abc")
    made, (content, draft), *rest = calls
    assert made == ("sync", tmp_path.name)
    assert (content, draft[:6]) == ("sync", ".a.bin")
    assert rest == [("name", "a.bin"), ("sync", "new")]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to name open files")
def test_the_mark_of_a_set_reaches_the_disk_last(tmp_path, calls):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "done").write_text("old")
    with staged_files(folder, ("a", "done")) as draft:
        for name in ("a", "done"):
            (draft / name).write_text("new")
    contents = [("sync", "a"), ("sync", "done")]
    assert calls == [*contents, ("sync", "set"), ("name", "a"), ("sync", "set"), ("name", "done"), ("sync", "set")]


def test_json_of_arrays_dates_and_non_finite_numbers(tmp_path):
    content = {"a": np.array([1.5, np.nan]), "b": np.int64(3), "c": datetime(2025, 3, 1, tzinfo=UTC), 4: ("x", None)}
    read = json.loads(write_json(tmp_path / "a.json", content | {"d": {1}, "e": tmp_path}).read_text("utf-8"))
    assert read == {
        **{"a": [1.5, None], "b": 3, "c": "2025-03-01T00:00:00+00:00", "4": ["x", None]},
        **{"d": [1], "e": str(tmp_path)},
    }


def test_space_for_a_file_is_checked_without_changing_anything(tmp_path):
    resource = pytest.importorskip("resource", reason="limits of POSIX")
    path = write_atomic(tmp_path / "a.bin", b"old")
    require_space(path, 1 << 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, hard))  # a full disk, for this process
    try:
        with pytest.raises(OSError, match=r"a.bin cannot be written .* free 1 MiB"):
            require_space(path, 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match="is a folder"):
        require_space(tmp_path, 1)
    with pytest.raises(OSError, match="cannot be written"):
        require_space(path / "b.bin", 1)
