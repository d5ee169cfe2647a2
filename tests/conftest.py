"""Shared fixtures: real data, device files, a browser, a cache of its own for each test."""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.device_files import write_all
from tests.helpers.layouts import harth_table, write_hapt
from tests.helpers.requirements import all_required, data_folder, program, require

# Small networks on few cores: a second thread is slower, and results should not depend on the machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
os.environ.setdefault("SIGHT_DATA", str(ROOT.parent / "shared" / "data"))


def pytest_configure():
    """Exit if everything is required and a package that tests need is missing."""
    packages = ("torch", "onnx", "numba", "scipy", "pandas", "pyarrow", "actfast", "distributed", "playwright")
    packages += ("paho", "serial", "fastapi", "uvicorn", "websockets", "redis", "schemathesis")
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if absent and all_required():
        pytest.exit(f"packages that tests need are missing: {', '.join(absent)}; `make test` installs them", 3)


@pytest.fixture
def real():
    """Return a function from the name of a real data file to its path."""
    return lambda name: require(data_folder() / name)


@pytest.fixture
def golden():
    """Return a function from the name of a golden file of SIGHT's authors to its path."""
    return lambda name: DATA / "golden" / name


@pytest.fixture(scope="session")
def device_files(tmp_path_factory):
    """Return a folder of synthetic device files: those of `device_files.FILES`."""
    return write_all(tmp_path_factory.mktemp("device"))


@pytest.fixture(scope="session")
def hapt_files(tmp_path_factory):
    """Return the zip of HAPT, or a folder of synthetic wearers in its layout if SIGHT_DATA lacks it."""
    official = data_folder() / "hapt.zip"
    return official if official.exists() else write_hapt(tmp_path_factory.mktemp("data") / "hapt")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Use an empty cache instead of the user's."""
    monkeypatch.setenv("SIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session", autouse=True)
def operators_of_the_exporter():
    """Let torch read its table of ONNX operators once: every export would read it again, a third of its time."""
    with suppress(ImportError, AttributeError):
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        ONNXRegistry.from_torchlib = staticmethod(cache(ONNXRegistry.from_torchlib))


@pytest.fixture
def harth(tmp_path):
    """Return a HARTH folder of three subjects and the table of the first."""
    root = tmp_path / "harth"
    root.mkdir()
    plain = harth_table(np.repeat([1, 6, 7, 8, 130], 100))
    plain.to_csv(root / "S006.csv", index=False)
    harth_table(np.repeat([4, 13], 150)).to_csv(root / "S015.csv", index=True)  # an unnamed index column in front
    indexed = harth_table(np.repeat([3, 140], 100))
    indexed.insert(0, "index", np.arange(200))
    indexed.to_csv(root / "S021.csv", index=False)
    return root, plain


@pytest.fixture
def edit(tmp_path, monkeypatch):
    """Fingerprint a copy of the package; return a function that adds a comment to one of its files."""
    from sight._util import code_hash

    home, copy = code_hash.HOME, tmp_path / "sight"
    for file in home.rglob("*.py"):
        place = copy / file.relative_to(home)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)

    def moved(cls):
        file = Path(inspect.getsourcefile(cls))
        return str(copy / file.relative_to(home) if file.is_relative_to(home) else file)

    def clear_caches():
        code_hash.class_fingerprint.cache_clear()
        code_hash.module_fingerprint.cache_clear()

    def change(name):
        with (copy / name).open("a") as file:
            file.write("\n# another comment\n")
        clear_caches()

    monkeypatch.setattr(code_hash, "HOME", copy)
    monkeypatch.setattr(code_hash, "inspect", SimpleNamespace(getsourcefile=moved))
    clear_caches()
    yield change
    clear_caches()


@pytest.fixture(scope="module")
def browser():
    """Chromium without background requests."""
    chromium = program("chromium", "chromium-browser", "google-chrome", package="chromium")
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=[*quiet, "--disable-sync", "--no-first-run"])
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    """Return a function that opens a file offline; messages and requests of the page are in `page.messages`."""
    contexts = []

    def visit(path, width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.messages = []
        page.on("console", lambda message: page.messages.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: page.messages.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (page.messages.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: page.messages.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
