"""Folders of datasets and of the cache, and files inside zips, which cannot fill the memory."""

from __future__ import annotations

import gzip
import zipfile

import pytest
from platformdirs import user_cache_path, user_data_path

from sight._util import folder_or_zip
from sight._util.folder_or_zip import FileStore, check_unpacked
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


SMALL = b"1,2\n3,4\n" * 10_000


def read_blocks(store: FileStore, name: str, blocks: list[bytes]) -> None:
    with store.open(name) as stream:
        blocks += iter(lambda: stream.read(1 << 16), b"")
    assert stream.closed


@pytest.mark.parametrize(("name", "zipped"), [("bomb.csv", True), ("bomb.csv.gz", True), ("bomb.csv.gz", False)])
def test_a_file_that_unpacks_to_far_more_than_its_size_is_not_read(tmp_path, monkeypatch, name, zipped):
    monkeypatch.setattr(folder_or_zip, "UNPACKED_BYTES", 1 << 20)
    plain = bytes(4 << 20)
    files = {name: gzip.compress(plain) if name.endswith("gz") else plain, "small.csv.gz": gzip.compress(SMALL)}
    root = tmp_path / ("data.zip" if zipped else "data")
    if zipped:
        with zipfile.ZipFile(root, "w", zipfile.ZIP_DEFLATED) as archive:
            for each, content in files.items():
                archive.writestr(each, content)
    else:
        root.mkdir()
        for each, content in files.items():
            (root / each).write_bytes(content)
    blocks, store = [], FileStore(root)
    with pytest.raises(ValueError, match="decompress it first"):
        read_blocks(store, name, blocks)
    assert sum(map(len, blocks)) <= 1 << 20
    small = []
    read_blocks(store, "small.csv.gz", small)
    assert b"".join(small) == SMALL


@pytest.mark.parametrize(("packed", "most"), [(1, 256 << 20), (2 << 20, 400 << 20)])
def test_a_file_may_unpack_to_256_mib_or_200_times_its_size(packed, most):
    check_unpacked(most, packed, "a.gz")
    with pytest.raises(ValueError, match="expected at most 200 times"):
        check_unpacked(most + 1, packed, "a.gz")


def test_a_damaged_zip_is_refused(tmp_path):
    path = tmp_path / "p.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.csv", "1,2,3\n" * 1000)
    intact = path.read_bytes()
    path.write_bytes(intact.replace(b"PK\x01\x02", b"PK\x01\x03"))  # the list of its members
    with pytest.raises(ValueError, match=r"p\.zip is truncated or damaged"):
        _ = FileStore(path).names
    path.write_bytes(intact[:60] + bytes(20) + intact[80:])  # the content of a member
    with pytest.raises(ValueError, match=r"a\.csv in .* is truncated or damaged"), FileStore(path).open("a.csv") as f:
        f.read()


def test_digits_that_are_no_decimals_are_sorted_as_text():
    assert sorted(["5²5", "5²10", "5"], key=folder_or_zip.natural) == ["5", "5²5", "5²10"]
