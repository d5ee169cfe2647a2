"""Fixtures of the tests of the service."""

from __future__ import annotations

import pytest

from sight.apps.serve import sqlite_file
from tests.helpers.sessions import RedisServer


@pytest.fixture(autouse=True)
def no_reserve(monkeypatch):
    """Hold back no space on the disk for each of the many stores."""
    monkeypatch.setattr(sqlite_file, "RESERVE_BYTES", 0)


@pytest.fixture(scope="module")
def server():
    """Redis server of one module."""
    server = RedisServer()
    yield server
    server.close()
