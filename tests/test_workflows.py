"""Workflows, templates and hooks: they parse, and name targets, files and versions that exist."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.conftest import ROOT

yaml = pytest.importorskip("yaml")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".pre-commit-config.yaml"]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line)


def steps(path):
    """Return the steps of all jobs of a workflow."""
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def commands(path):
    return [step["run"] for step in steps(path) if "run" in step]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_parses(path):
    assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_existing_targets_and_files(path):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    text = "\n".join(commands(path))
    assert set(re.findall(r"\bmake ([\w-]+)", text)) <= targets
    named = re.findall(r"\b(?:tests|src|tools)/[\w./-]+|\bconstraints\.txt", text)
    named += [step["with"]["cache-dependency-path"] for step in steps(path) if "cache" in step.get("with", {})]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_workflows_and_scripts_of_this_repository_run_the_tests():
    everything = [command for path in WORKFLOWS for command in commands(path)]
    assert {"make test", "make test-long", "make coverage", "make site", "sight demo"} <= set(everything)
    assert "SIGHT_REQUIRE_ALL=1" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_the_release_reads_the_version_of_the_package():
    from sight import __version__

    (check,) = [text for text in commands(ROOT / ".github/workflows/release.yml") if "GITHUB_REF_NAME" in text]
    pattern, file = re.search(r"s/(.*)\\\(\.\*\\\)\"/\\1/p' (\S+)\)", check).groups()
    found = [line.removeprefix(pattern) for line in (ROOT / file).read_text("utf-8").splitlines() if pattern in line]
    assert found == [f'{__version__}"']


def test_extras_of_workflows_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    texts = [command for path in WORKFLOWS for command in commands(path)]
    texts.append((ROOT / "Containerfile").read_text("utf-8"))
    named = {name for text in texts for group in re.findall(r"\[([a-z,]+)\]\"", text) for name in group.split(",")}
    assert named
    assert named <= set(extras)


def test_hooks_have_the_versions_of_constraints():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]["hooks"]
    pins = [pin.split("==") for hook in hooks for pin in hook["additional_dependencies"]]
    assert len(pins) == len(hooks)
    assert [(name, version) for name, version in pins if PINS[name] != version] == []


def test_the_image_copies_files_that_exist():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Containerfile").read_text("utf-8"), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert len(names) > 3
    assert [name for name in names if not (ROOT / name).exists()] == []
    ignored = (ROOT / ".containerignore").read_text("utf-8").split()
    assert not set(names) & set(ignored)
