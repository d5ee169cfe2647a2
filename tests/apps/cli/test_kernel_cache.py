"""Where compiled steps are kept: beside the package, with the data of a service, or in a folder of the user."""

from __future__ import annotations

import os

import pytest

from sight.apps.cli import _kernel_cache
from sight.apps.cli._kernel_cache import PACKAGE, set_kernel_cache
from tests.conftest import ROOT


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose package is read-only; returns a function that adds other read-only folders."""
    read_only = {PACKAGE}
    monkeypatch.setattr(os, "access", lambda path, _: not {path, *path.parents} & read_only)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop("NUMBA_CACHE_DIR", None)
    monkeypatch.setattr(_kernel_cache, "user_cache_path", lambda name: tmp_path / "home" / ".cache" / name)
    monkeypatch.setattr(_kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    return read_only


def chosen(folder=None) -> str | None:
    set_kernel_cache(folder)
    return os.environ.get("NUMBA_CACHE_DIR")


def test_the_package_is_used_if_it_can_be_written(machine, tmp_path):
    assert ROOT / "src" / "sight" / "methods" == PACKAGE
    machine.clear()
    assert chosen(tmp_path / "kernels") is None


def test_a_service_keeps_them_with_its_data(machine, tmp_path):
    assert chosen(tmp_path / "kernels") == str(tmp_path / "kernels")
    os.environ["NUMBA_CACHE_DIR"] = "own"
    assert chosen(tmp_path / "other") == "own"


def test_other_commands_use_the_cache_of_the_user(machine, tmp_path):
    assert chosen() is None  # the place that numba chooses itself


def test_a_user_without_a_home_has_a_private_folder(machine, tmp_path):
    machine.add(tmp_path)  # the folder of which the home would be a part
    expected = tmp_path / f"sight-kernels-{os.getuid()}"
    assert chosen() == str(expected)
    assert expected.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["link", "open", "file"])
def test_a_folder_that_others_could_write_is_not_used(machine, tmp_path, kind):
    """Numba runs what it finds in its cache."""
    machine.add(tmp_path)
    folder = tmp_path / f"sight-kernels-{os.getuid()}"
    if kind == "link":
        (tmp_path / "other").mkdir(0o700)
        folder.symlink_to(tmp_path / "other")
    elif kind == "open":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.write_bytes(b"")
    assert chosen() is None
