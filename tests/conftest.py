"""Where real data lie, and the rule that continuous integration never skips them silently."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Small networks on few cores: a second thread is slower, and results should not depend on the machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


def data_folder() -> Path:
    return Path(os.environ.get("SIGHT_DATA", SHARED / "data"))


def require(path: Path) -> Path:
    """Return the path, or skip by name; where CI=true a missing file is a failure."""
    if not path.exists():
        message = f"real data: {path} is not here; set SIGHT_DATA to its folder"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture
def real():
    """Give the path of a file of the real data by name."""
    return lambda name: require(data_folder() / name)


@pytest.fixture
def golden():
    """Give the path of a golden file of the authors' code by name."""
    return lambda name: require(Path(os.environ.get("SIGHT_GOLDEN", SHARED / "golden")) / name)
