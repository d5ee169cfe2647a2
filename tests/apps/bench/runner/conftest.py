"""A setting whose source models train in a second."""

from __future__ import annotations

import pytest

from tests.apps.bench.runner.runner_helpers import TINY


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A setting whose source models train in a second, in a folder where all tests share rows and models."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "tiny.toml").write_text(TINY)
    return folder
