"""A client of a running service."""

from __future__ import annotations

import pytest

from tests.helpers.services import running


@pytest.fixture
def client(tmp_path):
    with running(tmp_path) as client:
        yield client
