"""Toy models and session managers."""

from __future__ import annotations

import pytest

from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.sqlite_store import SqliteStore
from tests.helpers.services import write_onnx
from tests.helpers.sessions import toy_models


@pytest.fixture(scope="package")
def models():
    return toy_models()


@pytest.fixture(scope="package")
def exported(tmp_path_factory):
    """Path of a network in a file."""
    return write_onnx(tmp_path_factory.mktemp("models") / "toy@1.onnx")


@pytest.fixture
def model(models):
    return models.get("toy@1")


@pytest.fixture
def manager(models, tmp_path):
    """A manager that takes no snapshot, so that all samples stay in the log."""
    manager = SessionManager(models, SqliteStore(tmp_path / "store.db"), snapshot_every=10**6)
    yield manager
    manager.close()
