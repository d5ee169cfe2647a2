"""The tests of exported C source need a compiler."""

from __future__ import annotations

import pytest

from tests.helpers.requirements import program


@pytest.fixture(scope="session", autouse=True)
def compiler():
    return program("gcc", package="gcc")


@pytest.fixture(autouse=True)
def no_outer_make(monkeypatch):
    """Remove the options of a `make` that started the tests; the inner one would print warnings about them."""
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        monkeypatch.delenv(name, raising=False)
