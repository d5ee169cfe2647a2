"""Locks between processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sight.apps.serve import locks

HOLD = """
import sys, time
from pathlib import Path
from sight.apps.serve import locks
lock = locks.acquire(Path(sys.argv[1]), 10.0)
print("held", flush=True)
time.sleep(60)
"""


def test_a_lock_is_exclusive_and_ends_with_its_process(tmp_path):
    path = tmp_path / "a.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(TimeoutError, match="still locked"):
        locks.acquire(path, 0.05)
    holder.kill()
    holder.wait()
    with locks.locked(path, 5.0), pytest.raises(TimeoutError):
        locks.acquire(path, 0.05)
    with locks.locked(path, 0.05):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["a.lock"]


def test_existing_files_become_private(tmp_path):
    path = tmp_path / "a"
    path.write_text("content")
    path.chmod(0o664)
    locks.create_private(path)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("content", 0o600)
    locks.make_private(tmp_path)  # a folder is left alone
    assert tmp_path.stat().st_mode & 0o100
