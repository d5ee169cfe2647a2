"""The package as users install it: it builds, its metadata are valid, and the wheel works in an empty environment."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import zipfile

import pytest

from sight import __version__
from tests.conftest import ROOT

SMOKE = """
import importlib.util, sys
import numpy as np, sight
assert not any(importlib.util.find_spec(name) for name in ("torch", "numba", "pandas", "scipy"))
rng = np.random.default_rng(0)
q = sight.refine(rng.normal(size=(9, 8)), np.full((9, 3), 1 / 3), rng.normal(size=(3, 8)), method="keel")
assert q.shape == (9, 3)
from sight.models.export.c import export_c
from sight.models.given_features import ProbabilitySource
folder = export_c(ProbabilitySource(["walking", "sitting"]), "c", encoder=False)
assert {"sight.h", "method_keel.c", "Makefile", "README.md"} <= {path.name for path in folder.iterdir()}
print(sight.__version__, sight.__file__)
"""


def run(*words, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the source archive, and the wheel from it; return their folder."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.mark.long
def test_the_archives_pass_the_checks_of_pypi(built):
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(built.iterdir()))


@pytest.mark.long
def test_the_wheel_has_what_the_package_reads_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    code = {name for name in names if name.startswith("sight/")}
    files = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/sight").rglob("*") if path.is_file()}
    assert code == {name for name in files if "__pycache__" not in name}
    assert {name.split("/")[0] for name in names} == {"sight", f"sight_har-{__version__}.dist-info"}


@pytest.mark.long
def test_the_metadata_have_addresses_and_no_pins(wheel):
    text = zipfile.ZipFile(wheel).read(f"sight_har-{__version__}.dist-info/METADATA").decode()
    metadata = email.message_from_string(text)
    assert metadata["Version"] == __version__
    addresses = dict(entry.split(", ", 1) for entry in metadata.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(addresses)
    assert not [entry for entry in metadata.get_all("Requires-Dist") if "==" in entry.partition(";")[0]]


@pytest.mark.long
def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # else pip finds the sources
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, env=clean)
    printed = run(python, "-c", SMOKE, cwd=tmp_path, env=clean)
    assert printed.startswith(f"{__version__} {tmp_path}")
    for words in (["--version"], ["methods"], ["data", "list"]):
        run(python.parent / "sight", *words, cwd=tmp_path, env=clean)
