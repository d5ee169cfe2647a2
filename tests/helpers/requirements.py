"""What a machine may lack: data, programs, environments. Such tests are skipped by name, or fail on request."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

#: With this variable set to 1, a test whose data or program is missing fails instead of being skipped.
REQUIRE_ALL = "SIGHT_REQUIRE_ALL"


def all_required() -> bool:
    return os.environ.get(REQUIRE_ALL, "") not in ("", "0")


def missing(what: str) -> NoReturn:
    """Skip the test that needs `what`, or fail it if everything is required."""
    (pytest.fail if all_required() else pytest.skip)(what)
    raise AssertionError("unreachable")


def data_folder() -> Path:
    """Return the folder of the real recordings."""
    return Path(os.environ["SIGHT_DATA"])


def require(path: Path) -> Path:
    """Return the path of real data."""
    if not path.exists():
        missing(f"real data: {path.name} is not in {path.parent}; set SIGHT_DATA to its folder")
    return path


def program(*names: str, package: str) -> str:
    """Return the path of the first installed program, servers in /usr/sbin included."""
    places = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
    found = next(filter(None, (shutil.which(name, path=places) for name in names)), None)
    return found or missing(f"{names[0]} is not installed; Debian: apt-get install {package}")
