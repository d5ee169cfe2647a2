"""Folders of datasets and of the cache: the user's, or those that variables name."""

from __future__ import annotations

import pytest
from platformdirs import user_cache_path, user_data_path

from sight.datasets import data_folder
from sight.recordings import window_cache


@pytest.mark.parametrize("value", [None, ""])
def test_folders_of_the_user_are_the_default(monkeypatch, value):
    for name in ("SIGHT_DATA", "SIGHT_CACHE"):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    assert data_folder() == user_data_path("sight", appauthor=False).resolve()
    assert window_cache.folder() == user_cache_path("sight", appauthor=False)


def test_variables_name_other_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SIGHT_CACHE", str(tmp_path / "cache"))
    assert (data_folder(), window_cache.folder()) == (tmp_path / "data", tmp_path / "cache")
