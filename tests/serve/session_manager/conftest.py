"""One keeper of toy models for the tests of a module."""

from __future__ import annotations

import pytest

from sight.serve.session_manager import (
    Keeper,
)
from sight.serve.sqlite_store import SqliteStore
from sight.sources.onnx_export import export_onnx
from sight.testing import toy_network
from tests.helpers.keeping import toy_models


@pytest.fixture(scope="module")
def models():
    return toy_models()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A real network in a file."""
    return export_onnx(toy_network("cnn"), tmp_path_factory.mktemp("models") / "toy@1.onnx")


@pytest.fixture
def model(models):
    return models.get("toy@1")


@pytest.fixture
def keeper(models, tmp_path):
    """Takes no snapshot for so long that all samples are in the log."""
    keeper = Keeper(models, SqliteStore(tmp_path / "store.db"), snapshot_every=10**6)
    yield keeper
    keeper.close()
