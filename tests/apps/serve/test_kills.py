"""The durability check of benchmarks/live/kills.py: its comparison, and a short run with each store."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from benchmarks.live import kills

from tests.conftest import ROOT
from tests.helpers.requirements import program


def test_lost_duplicated_and_changed_windows_are_detected():
    whole = [{"window": window, "q": [0.5, 0.5]} for window in range(5)]
    assert kills.compare(whole, whole) == {"lost": 0, "twice": 0, "differing": 0}
    assert kills.compare(whole[:-1], whole) == {"lost": 1, "twice": 0, "differing": 0}
    assert kills.compare([*whole, whole[2]], whole) == {"lost": 0, "twice": 1, "differing": 0}
    changed = [*whole[:-1], {"window": 4, "q": [0.5, 0.5000000000000001]}]
    assert kills.compare(changed, whole) == {"lost": 0, "twice": 0, "differing": 1}
    good = {"acknowledged": kills.compare(whole, whole), "stored": kills.compare(whole, whole)}
    good |= {"chunks_unaccounted": 0, "changed_when_repeated": 0}
    assert kills.sound(good)
    assert not kills.sound(good | {"stored": kills.compare(changed, whole)})
    assert not kills.sound(good | {"chunks_unaccounted": 1})


@pytest.mark.long
@pytest.mark.timeout(290)
@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_five_kills_lose_nothing(store, tmp_path):
    if store == "redis":
        program("redis-server", package="redis-server")
    out = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.live.kills", "--kills", "5", "--store", store, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads(out.read_text())
    assert report["sound"]
    assert (report["kills"], report["chunks_unaccounted"], len(report["wearers"])) == (5, 0, 8)
    assert all(row["windows"] > 5 for row in report["wearers"])
    assert {(row["method"], row["transport"]) for row in report["wearers"]} == {
        (method, transport) for method in ("sight", "keel") for transport in ("websocket", "http")
    }
