"""Errors among warnings: a wrong unit is printed as one, ends a strict run, and is refused by training."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from sight.testing import toy_network
from tests.helpers.commands import output_of, run_sight

ROWS = 1200


def write(path, scale=9.81, gravity=True):
    """Write two minutes at 10 Hz: a minute at rest in some positions, a minute of movement."""
    rng = np.random.default_rng(0)
    position = np.repeat(rng.normal(size=(12, 3)), ROWS // 12, axis=0)
    values = position / np.linalg.norm(position, axis=1, keepdims=True) if gravity else np.full((ROWS, 3), 0.02)
    values = values + rng.normal(0, 0.003, (ROWS, 3))
    values[ROWS // 2 :] += 0.3 * np.sin(np.arange(ROWS // 2))[:, None]
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["time", "x", "y", "z", "label"])
        for i, row in enumerate(scale * values):
            writer.writerow([f"{i / 10:.1f}", *(f"{value:.4f}" for value in row), "sit" if i < ROWS // 2 else "walk"])
    return path


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy") / "toy.safetensors"
    toy_network().save(path)
    return path


def test_a_wrong_unit_is_an_error_and_its_numbers_are_no_result(toy, tmp_path):
    wrong = write(tmp_path / "p.csv")
    printed = output_of("adapt", wrong, "-m", toy, "-o", tmp_path / "o")
    assert "p: error: At rest acceleration is 9.81 g instead of 1 g; are the values in m/s^2?" in printed
    assert "p: The numbers cannot be used, see the error." in printed
    with (tmp_path / "o" / "quality.csv").open() as stream:
        (row,) = csv.DictReader(stream)
    assert (row["errors"], row["error_kinds"]) == ("1", "unit")
    page = (tmp_path / "o" / "report.html").read_text("utf-8")
    assert "The numbers of this recording cannot be used" in page
    assert '<b class="error">Error</b>' in page
    assert '<p class="lead">The numbers cannot be used, see the error.</p>' in page
    assert "Mean ENMO" not in page
    right = output_of("adapt", wrong, "-m", toy, "--unit", "m/s^2", "-o", tmp_path / "o")
    assert "error:" not in right
    assert "cannot be used" not in (tmp_path / "o" / "report.html").read_text("utf-8")


def test_strict_runs_exit_with_code_3(toy, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    wrong, right = write(folder / "wrong.csv"), write(folder / "right.csv", 1.0)
    run_sight("adapt", right, "-m", toy, "-o", tmp_path / "o", "--strict")
    run_sight("adapt", wrong, "-m", toy, "-o", tmp_path / "o", "--strict", code=3)
    printed = output_of("adapt", folder, "-m", toy, "-o", tmp_path / "all", "--strict", code=3)
    assert "1 recording with an error: wrong; their numbers cannot be used" in printed
    assert (tmp_path / "all" / "wrong" / "info.json").is_file()
    run = ["cohort", "run", folder, "-m", toy, "-o", tmp_path / "c", "--engine", "serial"]
    printed = output_of(*run)
    assert "1 recording with errors, first: wrong: error: At rest acceleration is 9.81 g" in printed
    run_sight(*run, "--strict", code=3)
    query = "SELECT q.recording, q.errors, r.flags FROM quality q JOIN recordings r USING (recording) ORDER BY ALL"
    run_sight("cohort", "query", tmp_path / "c", query, "--csv", tmp_path / "q.csv")
    _, right, wrong = (tmp_path / "q.csv").read_text().splitlines()
    assert right.startswith("right,0,")
    assert wrong.startswith("wrong,1,")
    assert "errors" in wrong
    assert "errors" not in right


@pytest.fixture
def folder(tmp_path):
    """Two subjects, the second in m/s^2, and a map that does not state the unit."""
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "anna.csv", 1.0)
    write(tmp_path / "in" / "bert.csv")
    (tmp_path / "in" / "MAP.toml").write_text('[labels]\nsit = "sit"\nwalk = "walk"\n')
    return tmp_path / "in"


def test_training_on_a_wrong_unit_is_refused(folder, tmp_path):
    refused = "bert.csv: At rest acceleration is 9.81 g instead of 1 g; are the values in m/s^2? Set it with unit"
    assert refused in output_of("data", "info", folder, code=2)
    train = ["train", "--data", folder, "--epochs", 1, "--encoder", "resnet", "-o", tmp_path / "m.safetensors"]
    assert refused in output_of(*train, code=2)
    assert not (tmp_path / "m.safetensors").exists()
    (folder / "bert.csv").unlink()
    write(folder / "bert.csv", 1.0)
    run_sight(*train)
    card = json.loads(run_sight("inspect", tmp_path / "m.safetensors", "--json").output)
    assert card["units"] == ["g", "g", "g"]
    write(folder / "bert.csv")
    printed = output_of("evaluate", folder, "-m", tmp_path / "m.safetensors", "-o", tmp_path / "o", code=2)
    assert "bert was skipped:" in printed
    assert "1 of 2 recordings could not be scored" in printed
    one = ["evaluate", folder / "bert.csv", "--label-column", "label", "-m", tmp_path / "m.safetensors"]
    assert "bert: At rest acceleration is 9.81 g" in output_of(*one, "-o", tmp_path / "o", code=2)


def test_gravity_that_was_removed_can_be_trained_on(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("anna", "bert"):
        write(tmp_path / "in" / f"{name}.csv", 1.0, gravity=False)
    (tmp_path / "in" / "MAP.toml").write_text('[labels]\nsit = "sit"\nwalk = "walk"\n')
    printed = output_of("data", "info", tmp_path / "in")
    assert "anna: warning: At rest acceleration is 0.0345 g instead of 1 g; was gravity removed?" in printed
