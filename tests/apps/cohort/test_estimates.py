"""Estimates of a cohort run: memory of recordings and remaining time."""

from __future__ import annotations

import os

import pytest

from sight.apps.cohort.memory_budget import PROCESS_BYTES, SUBJECT_BYTES, available_bytes, estimate_bytes, parse_bytes
from sight.apps.cohort.run import time_left


@pytest.mark.parametrize(
    ("elapsed_s", "done", "total", "text"),
    [
        (100, 50, 100, "about 100 s left"),
        (60, 10, 100, "about 9 min left"),
        (3600, 25, 100, "about 3.0 h left"),
        (1, 99, 100, ""),
    ],
)
def test_the_remaining_time_is_in_proportion_to_the_remaining_bytes(elapsed_s, done, total, text):
    assert time_left(elapsed_s, done, total) == text


def test_memory_is_estimated_from_the_file(folder, tmp_path):
    assert estimate_bytes(()) == SUBJECT_BYTES
    assert estimate_bytes([folder / "torn.npz"]) == PROCESS_BYTES
    assert estimate_bytes([tmp_path / "gone.csv"]) == PROCESS_BYTES
    assert estimate_bytes([folder / "P2.parquet"], overlap=3) > estimate_bytes([folder / "P2.parquet"]) > PROCESS_BYTES
    week = tmp_path / "week.cwa"
    week.touch()
    os.truncate(week, 244_000_000)
    assert 2.3e9 < estimate_bytes([week]) < 5e9  # measured for such a week, and not much more
    assert 0 < available_bytes() < 1 << 45


@pytest.mark.parametrize(("text", "bytes_"), [("2GB", 2e9), ("1.5 GiB", 1.5 * 2**30), ("300M", 3e8), ("17", 17)])
def test_amounts_of_memory_are_parsed(text, bytes_):
    assert parse_bytes(text) == bytes_


@pytest.mark.parametrize("text", ["much", "0", "-3GB", "3 apples"])
def test_invalid_amounts_of_memory_are_refused(text):
    with pytest.raises(ValueError, match="such as 8GB"):
        parse_bytes(text)
