"""What tests share: real data, a browser, and the rule that continuous integration never skips either silently."""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.layouts import harth_table

# Small networks on few cores: a second thread is slower, and results should not depend on the machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


def pytest_configure():
    """Where CI=true, a missing package ends the run instead of skipping the tests that need it."""
    wanted = ("torch", "onnx", "numba", "scipy", "pandas", "pyarrow", "actfast", "distributed", "playwright")
    wanted += ("paho", "serial", "fastapi", "uvicorn", "websockets", "redis", "schemathesis")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("CI") == "true":
        pytest.exit(f"packages that tests need are missing: {', '.join(missing)}; `make test` installs them", 3)


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


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Keep the windows of a test away from the user's cache."""
    monkeypatch.setenv("SIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def harth(tmp_path):
    root = tmp_path / "harth"
    root.mkdir()
    plain = harth_table(np.repeat([1, 6, 7, 8, 130], 100))
    plain.to_csv(root / "S006.csv", index=False)
    harth_table(np.repeat([4, 13], 150)).to_csv(root / "S015.csv", index=True)  # an unnamed index in front
    indexed = harth_table(np.repeat([3, 140], 100))
    indexed.insert(0, "index", np.arange(200))
    indexed.to_csv(root / "S021.csv", index=False)
    return root, plain


@pytest.fixture
def edit(tmp_path, monkeypatch):
    """Let the hashes see a copy of the package; gives a function that adds a remark to one of its files."""
    from sight import fingerprint

    home, copy = fingerprint.HOME, tmp_path / "sight"
    for file in home.rglob("*.py"):
        place = copy / file.relative_to(home)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)

    def moved(cls):
        file = Path(inspect.getsourcefile(cls))
        return str(copy / file.relative_to(home) if file.is_relative_to(home) else file)

    def forget():
        fingerprint.class_fingerprint.cache_clear()
        fingerprint.module_fingerprint.cache_clear()

    def change(name):
        with (copy / name).open("a") as file:
            file.write("\n# another remark\n")
        forget()

    monkeypatch.setattr(fingerprint, "HOME", copy)
    monkeypatch.setattr(fingerprint, "inspect", SimpleNamespace(getsourcefile=moved))
    forget()
    yield change
    forget()


@pytest.fixture(scope="module")
def browser():
    """A Chromium that asks nobody anything by itself."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        message = "no browser to open pages with; run: apt-get install chromium"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=[*quiet, "--disable-sync", "--no-first-run"])
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    """Open a file without network; what the page says or asks for is kept in `page.heard`."""
    contexts = []

    def visit(path, width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.heard = []
        page.on("console", lambda message: page.heard.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: page.heard.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (page.heard.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: page.heard.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
