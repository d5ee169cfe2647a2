"""CAPTURE-24 read from small files in its official layout, and its memory."""

from __future__ import annotations

import gzip
import sys
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from sight.datasets.capture24 import Capture24
from tests.helpers.layouts import ANNOTATIONS, capture_hours, capture_lines
from tests.helpers.memory import peak_megabytes


@pytest.fixture
def capture(tmp_path):
    root = tmp_path / "capture24"
    root.mkdir()
    dictionary = pd.DataFrame({"annotation": list(ANNOTATIONS), "label:Walmsley2020": list(ANNOTATIONS.values())})
    dictionary["label:Willetts2018"] = ["sleep", "sit-stand", "walking", "mixed"]
    dictionary.to_csv(root / "annotation-label-dictionary.csv", index=False)
    sleep, office, walk, _ = ANNOTATIONS
    table = capture_lines([("", 15, 0), (sleep, 30, 0), (office, 20, 125), ("", 20, 0), (walk, 10, 0)])
    table.to_csv(root / "P001.csv.gz", index=False)
    return root, table


def test_unannotated_stretches_and_gaps_are_kept(capture):
    root, table = capture
    dataset = Capture24(root)
    (recording,) = dataset.recordings("P001")
    np.testing.assert_array_equal(recording.values, table[["x", "y", "z"]].to_numpy(np.float32))
    names = np.array([*dataset.classes, "none"])[recording.labels]
    assert list(dict.fromkeys(names)) == ["none", "sleep", "sedentary", "light"]
    assert (recording.labels == -1).sum() == 3500
    assert recording.start == datetime(2016, 11, 13, 2, 18, tzinfo=UTC)
    windows = dataset.windows("P001")
    assert windows.x.shape == (9, 3, 1000)  # 45 s give four, 50 s five
    assert windows.gap_before_s.tolist() == [0, 0, 0, 0, pytest.approx(130, abs=0.02), 0, 0, 0, 0]
    assert windows.label.tolist() == [
        -1,
        0,
        0,
        0,
        1,
        1,
        -1,
        -1,
        2,
    ]  # in the second window, half unlabelled, the class wins


def test_label_sets_and_block_size(capture, monkeypatch):
    root, _ = capture
    whole = next(Capture24(root).recordings("P001"))
    monkeypatch.setattr("sight.datasets.capture24.BLOCK_BYTES", 4000)
    pieces = next(Capture24(root).recordings("P001"))
    np.testing.assert_array_equal(whole.values, pieces.values)
    np.testing.assert_array_equal(whole.labels, pieces.labels)
    np.testing.assert_array_equal(whole.time_s, pieces.time_s)
    assert Capture24(root, labels="Willetts2018").classes == ("mixed", "sit-stand", "sleep", "walking")


def test_damaged_and_foreign_files_are_rejected(capture):
    root, table = capture
    whole = (root / "P001.csv.gz").read_bytes()
    (root / "P002.csv.gz").write_bytes(whole[: len(whole) // 2])
    table.rename(columns={"z": "w"}).to_csv(root / "P003.csv.gz", index=False)
    table.assign(annotation="jumping on the moon").to_csv(root / "P004.csv.gz", index=False)
    table[:0].to_csv(root / "P005.csv.gz", index=False)
    table[:500].to_csv(root / "P006.csv.gz", index=False)
    table.assign(x="much").to_csv(root / "P007.csv.gz", index=False)
    (root / "P008.csv.gz").write_bytes(gzip.compress(b""))
    dataset = Capture24(root)
    expected = {
        "P002": "truncated or damaged",
        "P003": "expected columns time, x, y, z, annotation",
        "P004": "jumping on the moon",
        "P005": "has no samples|is empty",
        "P006": "no window of 10 s",
        "P007": "expected columns time, x, y, z, annotation",
        "P008": "is empty",
    }
    for subject, words in expected.items():
        with pytest.raises(ValueError, match=words) as caught:
            dataset.windows(subject)
        assert "\n" not in str(caught.value)
    (root / "annotation-label-dictionary.csv").unlink()
    with pytest.raises(ValueError, match=r"dictionary.* is missing"):
        Capture24(root).windows("P001")


READ = """
from sight.datasets.capture24 import Capture24
windows = Capture24(sys.argv[1]).windows("P001", cache=False)
print(len(windows), (windows.label < 0).sum())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize(("hours", "limit_mb"), [(2, 300), pytest.param(24, 1000, marks=pytest.mark.long)])
def test_memory_of_a_long_recording(tmp_path, hours, limit_mb):
    capture_hours(tmp_path, hours)
    windows, unlabelled, peak_mb = peak_megabytes(READ, tmp_path)
    assert (windows, unlabelled) == (360 * hours, 360)
    assert peak_mb < limit_mb
