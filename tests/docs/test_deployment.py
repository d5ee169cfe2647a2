"""The container, the commands of the deployment page and the page of licences."""

from __future__ import annotations

import json
import re
import tomllib

from typer.testing import CliRunner

from sight.apps.cli import app
from tests.conftest import ROOT
from tools import licences

CONTAINER = (ROOT / "Containerfile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile in order."""
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", CONTAINER, flags=re.MULTILINE)).splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line.strip()]


def values(name: str) -> list[str]:
    return [value for key, value in instructions() if key == name]


def test_the_container_has_no_privileges_and_is_checked():
    names = [name for name, _ in instructions()]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert set(names) <= known  # no ADD, no ARG with secrets
    after_user = names[names.index("USER") :]
    assert "RUN" not in after_user
    assert "FROM" not in after_user
    assert values("USER") == ["10001"]
    assert values("VOLUME") == ["/data"]
    assert "/readyz" in values("HEALTHCHECK")[0]
    assert all(re.search(r":\d", image) for image in values("FROM")), "base images have a version"


def test_the_container_installs_pinned_packages_that_exist():
    for line in values("RUN"):
        assert "pip" not in line or "--no-cache-dir" in line
    install = next(line for line in values("RUN") if "pip install" in line)
    assert "--constraint" in install
    extras = re.search(r"\[([\w,]+)\]", install)[1].split(",")
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    for line in values("COPY"):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources if not source.startswith(("--from", "/")))


def test_the_container_starts_a_command_that_exists():
    (entry,), (command,) = values("ENTRYPOINT"), values("CMD")
    assert json.loads(entry) == ["sight"]
    words = json.loads(command)
    assert words[0] == "serve"
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).output
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[\w-]+", shown))


def test_the_page_of_licences_lists_every_direct_dependency():
    rows = dict(re.findall(r"^\| ([\w.-]+) \| \S+ \| (.+) \|$", licences.PAGE.read_text("utf-8"), re.MULTILINE))
    listed = {re.sub(r"[-_.]+", "-", name).lower() for name in rows}
    extras = [extra for extra in PROJECT["optional-dependencies"] if extra not in ("all", "docs", "dev", "spark")]
    wanted = [*PROJECT["dependencies"], *(text for extra in extras for text in PROJECT["optional-dependencies"][extra])]
    names = {re.match(r"[\w.-]+", text)[0].replace("_", "-").lower() for text in wanted} - {licences.NAME}
    assert names <= listed
    assert "see its files" not in rows.values()


def test_the_bill_of_materials_has_versions_and_licences():
    bill = licences.bill_of_materials(licences.packages(["serve"]))
    names = {entry["name"].lower() for entry in bill["components"]}
    assert {"numpy", "fastapi", "redis"} <= names
    assert "torch" not in names
    assert all(entry["version"] and entry["licenses"] for entry in bill["components"])
