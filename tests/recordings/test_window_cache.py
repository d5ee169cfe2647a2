"""Cache of windows: hits, keys, damaged entries, size limit."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

import numpy as np
import pytest

from sight.recordings import window_cache
from sight.types import RecordingFacts, Windows


def windows(value=1.0, n=50):
    return Windows(
        x=np.full((n, 3, 20), value, np.float32),
        time_s=np.arange(n, dtype=float),
        label=np.arange(n) % 3 - 1,
        gap_before_s=np.zeros(n),
        wear=np.arange(n) % 2 == 0,
        window_s=2.0,
        stride_s=1.0,
        start=datetime(2024, 5, 1, 12, tzinfo=UTC),
        facts=RecordingFacts(gaps=3, gap_total_s=12.5, classes=["a", "b"], details={"share": np.float32(0.5)}),
    )


class Maker:
    def __init__(self, value=1.0):
        self.value, self.calls = value, 0

    def __call__(self):
        self.calls += 1
        return windows(self.value)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("SIGHT_CACHE", str(folder))
    return folder


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("content")
    return path


def test_a_hit_returns_equal_windows(file):
    make = Maker()
    first, second = window_cache.cached([file], {"rate": 50}, make), window_cache.cached([file], {"rate": 50}, make)
    assert make.calls == 1
    for name in window_cache.ARRAYS:
        np.testing.assert_array_equal(getattr(second, name), getattr(windows(), name))
        assert getattr(second, name).dtype == getattr(windows(), name).dtype
    assert second.start == windows().start
    assert second.facts == first.facts
    assert first.facts.as_dict() == {"gaps": 3, "gap_total_s": 12.5, "classes": ["a", "b"], "share": 0.5}


def test_entries_depend_on_parameters_and_files(file, tmp_path):
    make = Maker()
    window_cache.cached([file], {"rate": 50}, make)
    window_cache.cached([file], {"rate": 25}, make)
    (tmp_path / "q.csv").write_text("other")
    window_cache.cached([tmp_path / "q.csv"], {"rate": 50}, make)
    window_cache.cached([], {"rate": 50}, make)
    assert make.calls == 4


def test_a_changed_file_is_read_again(file):
    """Same name, same size, same time of change: only the content differs."""
    window_cache.cached([file], {}, Maker(1.0))
    times = file.stat()
    file.write_text("CONTENT")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert window_cache.cached([file], {}, Maker(2.0)).x[0, 0, 0] == 2


def test_hashes_are_kept_until_the_file_changes(file, monkeypatch):
    monkeypatch.setattr(window_cache, "SETTLED_NS", -1)
    before = window_cache.file_hash(file)
    assert any(str(file.resolve()) in identity for identity in window_cache._hashes)
    file.write_text("another content")
    assert window_cache.file_hash(file) != before


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 broken", None])
def test_a_damaged_entry_is_made_again(file, home, damage):
    window_cache.cached([file], {}, Maker())
    entry = next(home.glob("*.npz"))
    entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2] if damage is None else damage)
    make = Maker()
    assert len(window_cache.cached([file], {}, make)) == 50
    assert make.calls == 1
    assert window_cache.cached([file], {}, make).x.shape == (50, 3, 20)
    assert make.calls == 1


@pytest.mark.parametrize("change", ["x", "label", "header", "entry of other files"])
def test_an_altered_entry_is_made_again(file, home, change):
    window_cache.cached([file], {"rate": 1}, Maker(3.0))
    window_cache.cached([file], {}, Maker())
    other, entry = sorted(home.glob("*.npz"), key=lambda path: path.stat().st_mtime_ns)
    if change == "entry of other files":
        entry.write_bytes(other.read_bytes())
    else:
        with np.load(entry) as stored:
            arrays = dict(stored)
        arrays[change] = (
            np.array(str(arrays[change]).replace("12.5", "13.5")) if change == "header" else arrays[change] + 1
        )
        np.savez(entry, **arrays)
    make = Maker()
    assert (window_cache.cached([file], {}, make).x == 1).all()
    assert make.calls == 1


def test_a_read_only_folder_is_tolerated(file, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file, not a folder")
    monkeypatch.setenv("SIGHT_CACHE", str(tmp_path / "taken"))
    assert len(window_cache.cached([file], {}, Maker())) == 50


def test_least_recently_used_entries_are_removed_first(file):
    for rate in (1, 2, 3):
        window_cache.cached([file], {"rate": rate}, Maker())
        time.sleep(0.02)
    each = window_cache.size() // 3
    window_cache.cached([file], {"rate": 1}, Maker())  # used again, so 2 is the least recently used
    time.sleep(0.02)
    window_cache.cached([file], {"rate": 4}, Maker(), limit_bytes=int(3.5 * each))
    made = {rate: Maker() for rate in (1, 2, 3, 4)}
    for rate in (1, 3, 4):
        window_cache.cached([file], {"rate": rate}, made[rate])
    assert [made[rate].calls for rate in (1, 3, 4)] == [0, 0, 0]
    window_cache.cached([file], {"rate": 2}, made[2])
    assert made[2].calls == 1


def test_remove_by_dataset_and_all(file, home):
    window_cache.cached([file], {"dataset": "hapt"}, Maker())
    window_cache.cached([file], {"dataset": "hugadb"}, Maker())
    total = window_cache.size()
    freed = window_cache.remove("hapt")
    assert 0 < freed < total
    assert window_cache.size() == total - freed
    assert window_cache.remove() == total - freed
    assert window_cache.size() == 0
    assert not list(home.glob("*"))


def test_a_failure_leaves_no_file(file, home):
    class Stop(Exception):
        pass

    def fails():
        raise Stop

    with pytest.raises(Stop):
        window_cache.cached([file], {}, fails)
    assert not home.exists() or not list(home.iterdir())
