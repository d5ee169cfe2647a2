"""Reading options: the same for every command, and named in errors as the command has them."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import pytest
import typer

from sight.apps.cli import app
from sight.recordings.reading_options import ReadOptions
from tests.conftest import ROOT
from tests.helpers.commands import output_of, run_sight

COMMANDS = {"adapt": (), "evaluate": (), "train": (), "cohort": ("run",), "data": ("info",), "stream": (), "send": ()}


def options_of(name):
    command = typer.main.get_command(app).commands[name]
    for part in COMMANDS[name]:
        command = command.commands[part]
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_every_reading_option(command):
    live = command in ("stream", "send")
    wanted = [field for field in fields(ReadOptions) if not (live and field.metadata.get("of_labels"))]
    names = {field.metadata.get("name", field.name) for field in wanted}
    assert {"--" + name.replace("_", "-") for name in names} <= options_of(command)


def test_options_that_errors_and_warnings_name_exist():
    files = [path for name in ("recordings", "apps/stream") for path in (ROOT / "src/sight" / name).rglob("*.py")]
    named = {option for path in files for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", path.read_text())}
    assert named - set.union(*map(options_of, COMMANDS)) == set()


def test_files_of_a_subject_are_joined(onnx, table, tmp_path):
    header, *lines = (table / "day.csv").read_text().splitlines()
    for name, part in (("b", lines[:4000]), ("a", lines[5000:])):
        dated = (f"{1_700_000_000 + float(line.partition(',')[0])},{line.partition(',')[2]}" for line in part)
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *dated]) + "\n")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    run_sight("adapt", *files, "-m", onnx, "--subject", "S01", "--tz", "Europe/Vienna", "-o", tmp_path / "joined")
    info = json.loads((tmp_path / "joined" / "info.json").read_text())
    assert (info["subject"], info["input"]["files"], info["stream"]["gaps"]) == ("S01", ["b.csv", "a.csv"], 1)
    run_sight("adapt", *files, "-m", onnx, "-o", tmp_path / "each")
    assert sorted(path.name for path in (tmp_path / "each").iterdir()) == ["a", "b"]


def test_reading_options_override_the_map_of_a_folder(tmp_path):
    rows = [f"{i / 50},{9.81 * (i % 2)},0,9.81,{'walk' if i < 520 else 'sit'}" for i in range(1000)]
    (tmp_path / "S01.csv").write_text("\n".join(["t,x,y,z,label", *rows]) + "\n")
    (tmp_path / "MAP.toml").write_text('[columns]\ntime = "when"\n[labels]\nwalk = "walking"\nsit = "sitting"\n')
    assert "when" in output_of("data", "info", tmp_path, code=2)
    facts = tmp_path / "facts.json"
    run_sight("data", "info", tmp_path, "--columns", "time=t", "--unit", "m/s^2", "-o", facts)
    assert json.loads(facts.read_text())[0]["labels"] == {"walking": 10, "sitting": 9}


def test_reading_options_apply_to_folders_only_in_training(tmp_path):
    printed = output_of("train", "--data", "synthetic", "--tz", "UTC", "-o", tmp_path / "m.safetensors", code=2)
    assert "tz applies to a folder of your own files" in printed
