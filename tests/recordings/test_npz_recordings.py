"""Windows in npz files: round trip, and no pickle is executed."""

from __future__ import annotations

import dataclasses
import io
import pickle
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from sight.recordings.npz_recordings import Npz, read_npz, write_npz
from sight.types import Windows
from tests.helpers.layouts import RNG


def some_windows(n=6):
    return Windows(
        x=RNG.normal(size=(n, 3, 20)).astype(np.float32),
        time_s=np.arange(n) * 1.5,
        label=np.array([0, 1, -1, 1, 0, 2])[:n],
        gap_before_s=np.array([0, 0, 7.5, 0, 0, 0])[:n],
        window_s=2.0,
        stride_s=1.5,
        wear=np.array([True, True, False, True, True, True])[:n],
        start=datetime(2020, 2, 29, 12, 30, tzinfo=UTC),
    )


def test_round_trip(tmp_path):
    windows, classes = some_windows(), ("sit", "walk", "lie")
    write_npz(windows, tmp_path / "S01.npz", classes)
    assert [path.name for path in tmp_path.iterdir()] == ["S01.npz"]
    again, names = read_npz(tmp_path / "S01.npz")
    assert names == classes
    from_dataset = Npz(tmp_path).windows("S01")
    assert Npz(tmp_path).classes == classes
    for other in (again, from_dataset):
        for field in dataclasses.fields(Windows):
            mine, theirs = getattr(windows, field.name), getattr(other, field.name)
            if isinstance(mine, np.ndarray):
                np.testing.assert_array_equal(mine, theirs)
                assert mine.dtype == theirs.dtype
            elif field.name != "facts":
                assert mine == theirs
    with np.load(tmp_path / "S01.npz") as plain:  # readable by the authors' code
        assert plain["y"].tolist() == ["sit", "walk", "", "walk", "sit", "lie"]
        assert plain["x"].shape == (6, 3, 20)


@pytest.mark.parametrize("items", [["sit", "walk", "sit"], [np.str_("sit"), np.str_("walk"), np.str_("größer")]])
def test_object_arrays_of_strings(tmp_path, items):
    y = np.empty(3, dtype=object)
    y[:] = items
    np.savez(tmp_path / "S1.npz", x=np.zeros((3, 3, 10)), y=y)
    dataset = Npz(tmp_path, rate=20.0)
    assert dataset.classes == tuple(sorted({str(item) for item in items}))
    windows = dataset.windows("S1")
    assert [dataset.classes[k] for k in windows.label] == [str(item) for item in items]
    assert windows.time_s.tolist() == [0, 0.5, 1.0]
    assert windows.x.dtype == np.float32


class Malicious:
    def __reduce__(self):
        return (Path.touch, (Path("executed"),))


@pytest.mark.parametrize("item", [Malicious(), 3, None, b"sit", ["sit"], np.float64(2)])
def test_other_objects_are_rejected(tmp_path, monkeypatch, item):
    monkeypatch.chdir(tmp_path)
    y = np.empty(2, dtype=object)
    y[0], y[1] = "sit", item
    np.savez(tmp_path / "S1.npz", x=np.zeros((2, 3, 10)), y=y)
    with pytest.raises(ValueError, match="objects other than strings"):
        Npz(tmp_path)
    assert not Path("executed").exists()


def test_pickles_and_wrong_arrays_are_rejected(tmp_path):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    stream.write(pickle.dumps(Malicious()))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("y.npy", stream.getvalue())
    with pytest.raises(ValueError, match="objects other than strings"):
        read_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=np.zeros((2, 3)), y=np.array(["a", "b"]))
    with pytest.raises(ValueError, match="expected x"):
        read_npz(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", data=np.zeros(3))
    with pytest.raises(ValueError, match="got data"):
        read_npz(tmp_path / "c.npz")
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match="not a complete npz"):
        read_npz(tmp_path / "d.npz")
    write_npz(some_windows(), tmp_path / "e.npz", ("sit", "walk", "lie"))
    with pytest.raises(ValueError, match="label 'lie'"):
        read_npz(tmp_path / "e.npz", classes=("sit", "walk"))


def test_recordings_join_overlapping_windows(tmp_path):
    signal = RNG.normal(size=(3, 100)).astype(np.float32)
    x = np.stack([signal[:, i : i + 20] for i in range(0, 81, 10)])
    np.savez(tmp_path / "S1.npz", x=x, y=np.array(["walk"] * 9))
    (recording,) = Npz(tmp_path, rate=10.0, stride=1.0).recordings("S1")
    np.testing.assert_array_equal(recording.values.T, signal)


@pytest.mark.parametrize("changes", [{"stride_s": 1e300}, {"window_s": 1e12}, {"time_s": np.array([0, 1e9, 2e9])}])
def test_windows_of_centuries_are_refused(tmp_path, changes):
    write_npz(dataclasses.replace(some_windows(3), **changes), tmp_path / "S01.npz", ("sit", "walk", "lie"))
    with pytest.raises(ValueError, match=r"S01\.npz: expected windows of at most 400 days"):
        read_npz(tmp_path / "S01.npz")
