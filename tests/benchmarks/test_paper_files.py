"""Made files of the paper's datasets in full size."""

from __future__ import annotations

import pytest
from benchmarks.scale.paper_files import read, write_files


@pytest.mark.parametrize(
    ("dataset", "share", "names", "windows"),
    [("harth", 0.01, ["S001.csv", "S002.csv"], 59), ("capture24", 0.001, ["P001.csv.gz", "P002.csv.gz"], 9)],
)
def test_files_are_read_in_the_official_layout(tmp_path, monkeypatch, dataset, share, names, windows):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path))
    files = list(write_files(dataset, 2, share, tmp_path))
    assert [path.name for _, path in files] == names
    found = read(dataset, files[0][0])
    assert found["windows"] == windows
    assert found["peak_mb"] > 0
