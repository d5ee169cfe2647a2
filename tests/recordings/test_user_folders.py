"""Folders of datasets and of the cache, by operating system and environment variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from sight.datasets import data_folder
from sight.recordings import window_cache


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Use a folder of the test as the user's home, without variables that name other folders."""
    for name in ("SIGHT_DATA", "SIGHT_CACHE", "XDG_DATA_HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "data", "cache"),
    [
        ("linux", ".local/share/sight", ".cache/sight"),
        ("darwin", "Library/Application Support/sight", "Library/Caches/sight"),
        ("win32", "AppData/Local/sight/data", "AppData/Local/sight/cache"),
    ],
)
def test_default_folders(home, monkeypatch, platform, data, cache):
    monkeypatch.setattr("sys.platform", platform)
    assert data_folder() == home / data
    assert window_cache.folder() == home / cache


@pytest.mark.parametrize(
    ("platform", "variable", "data"),
    [
        ("linux", "XDG_DATA_HOME", "elsewhere/sight"),
        ("win32", "LOCALAPPDATA", "elsewhere/sight/data"),
        ("linux", "SIGHT_DATA", "elsewhere"),
        ("darwin", "SIGHT_DATA", "elsewhere"),
    ],
)
def test_variables_name_other_folders(home, monkeypatch, platform, variable, data):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv(variable, str(home / "elsewhere"))
    assert data_folder() == home / data


def test_an_empty_variable_is_ignored(home, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("SIGHT_DATA", "")
    assert data_folder() == home / ".local" / "share" / "sight"
