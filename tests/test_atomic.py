"""Atomic writes: files are complete or absent, with the usual permissions."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import numpy as np
import pytest

from sight.atomic import staged_file, staged_files, write_atomic, write_json


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
    with staged_files(tmp_path / "set", names) as draft:
        for name in names:
            (draft / name).write_text("first")
    moves, replace = [], os.replace
    monkeypatch.setattr("os.replace", lambda source, path: (moves.append(path.name), replace(source, path)))
    with pytest.raises(FileNotFoundError), staged_files(tmp_path / "set", names) as draft:
        (draft / "a").write_text("second")
    assert moves == ["a", "b"]
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == ["a", "b"]


def test_json_of_arrays_dates_and_non_finite_numbers(tmp_path):
    content = {"a": np.array([1.5, np.nan]), "b": np.int64(3), "c": datetime(2025, 3, 1, tzinfo=UTC), 4: ("x", None)}
    read = json.loads(write_json(tmp_path / "a.json", content | {"d": {1}, "e": tmp_path}).read_text("utf-8"))
    assert read == {
        **{"a": [1.5, None], "b": 3, "c": "2025-03-01T00:00:00+00:00", "4": ["x", None]},
        **{"d": [1], "e": str(tmp_path)},
    }
