"""The command line as a user meets it: real files in, real files out."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from sight import registry
from sight.cli import app
from sight.sources import load
from tests.conftest import ROOT, data_folder, require
from tests.helpers.commands import COLUMNS, TINY, sight


def test_training_writes_a_model_that_knows_itself(model):
    told = json.loads(sight("inspect", model, "--json").output)
    assert told["encoder"] == "resnet"
    assert told["dataset"] == "synthetic"
    assert told["training"]["subjects"] == ["W01", "W02"]
    assert "split" in sight("inspect", model).output


def test_adapt_on_onnx_writes_the_promised_files(onnx, table, tmp_path):
    import pyarrow.parquet as pq

    sight("adapt", table / "day.csv", "-m", onnx, "-o", tmp_path, "--columns", COLUMNS)
    assert {path.name for path in tmp_path.iterdir()} == {
        "info.json",
        "windows.parquet",
        "segments.csv",
        "daily.csv",
        "report.html",
    }
    info = json.loads((tmp_path / "info.json").read_text())
    assert info["method"] == registry.RECOMMENDED
    assert info["input"]["file"] == "day.csv"
    rows = pq.read_table(tmp_path / "windows.parquet").to_pydict()
    assert len(rows["class"]) == 179
    assert np.allclose(np.sum([rows[key] for key in rows if key.startswith("q_")], axis=0), 1, atol=1e-4)


def test_the_fused_graph_runs_as_the_docs_say(model, tmp_path, monkeypatch, capsys):
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic

    monkeypatch.chdir(tmp_path)
    sight("export", model, "--fused", "-o", "watch.onnx")
    windows = windows_of(Synthetic(hours=0.05, gaps_per_hour=0), "W04").x
    page = (ROOT / "docs" / "onnx.md").read_text("utf-8")
    capsys.readouterr()
    exec(page.split("```python")[1].split("```")[0], {"windows": windows})
    shown = [int(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    adapter = registry.method(registry.RECOMMENDED).bind(load(model))
    assert "fused graph" in json.loads(sight("inspect", "watch.onnx", "--json").output)["kind"]
    assert "FusedSession" in sight("adapt", "synthetic:W01", "-m", "watch.onnx", ok=False).output
    assert shown == adapter.step(windows).argmax(axis=1).tolist()


def test_eight_bits_tell_how_often_they_agree(model, tmp_path):
    shown = sight("export", model, "--int8", "synthetic:W03", *TINY, "-o", tmp_path / "small.onnx")
    assert "answered alike" in shown.output
    assert json.loads(sight("inspect", tmp_path / "small.onnx", "--json").output)["kind"] == "ONNX model of sight"


def test_settings_and_presets_reach_the_method(model, tmp_path):
    sight("adapt", "synthetic:W03", "-m", model, *TINY, "--method", "sticky", "--set", "s=0.5", "-o", tmp_path)
    info = json.loads((tmp_path / "info.json").read_text())
    assert (info["method"], info["params"]["s"]) == ("sticky", 0.5)
    sight("adapt", "synthetic:W03", "-m", model, *TINY, "--method", "tent", "--preset", "sight-paper", "-o", tmp_path)
    assert json.loads((tmp_path / "info.json").read_text())["params"]["lr"] == 1e-4


def test_a_folder_gives_one_set_of_files_each_and_names_what_it_left_out(onnx, table, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    text = (table / "day.csv").read_text()
    (folder / "a.csv").write_text(text)
    (folder / "b.csv").write_text("t,acc_x\n1,2\n")
    (folder / "readme.txt").write_text("not a recording")
    shown = sight("adapt", folder, "-m", onnx, "-o", tmp_path / "out", "--columns", COLUMNS, ok=False)
    assert shown.exit_code == 2
    assert "b was left out" in shown.output
    assert (tmp_path / "out" / "a" / "report.html").is_file()
    assert not (tmp_path / "out" / "b").exists()


def test_files_that_share_a_name_keep_their_own_results(onnx, table, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    text = (table / "day.csv").read_text()
    for name in ("P01.monday.csv", "P01.tuesday.csv", "same.csv"):
        (folder / name).write_text(text)
    with gzip.open(folder / "same.csv.gz", "wt") as stream:
        stream.write(text)
    sight("adapt", folder, "-m", onnx, "-o", tmp_path / "out", "--columns", COLUMNS)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "P01.monday",
        "P01.tuesday",
        "same.csv",
        "same.csv.gz",
    }


def test_usual_names_of_axes_and_a_wrong_unit_are_recognised(onnx, table, tmp_path):
    text = (table / "day.csv").read_text()
    head, _, rows = text.partition("\n")
    (tmp_path / "short.csv").write_text("time,ax,ay,az,gx,gy,gz\n" + rows)
    sight("adapt", tmp_path / "short.csv", "-m", onnx, "-o", tmp_path / "fine")
    told = json.loads((tmp_path / "fine" / "info.json").read_text())["input"]["warnings"]
    assert not any("m/s^2" in warning or "trained on channels" in warning for warning in told)
    lines = [line.split(",") for line in rows.splitlines()]
    scaled = "\n".join(",".join([t, *(str(9.81 * float(a)) for a in values[:3]), *values[3:]]) for t, *values in lines)
    (tmp_path / "metric.csv").write_text(head.replace("t,", "time,", 1) + "\n" + scaled + "\n")
    shown = sight("adapt", tmp_path / "metric.csv", "-m", onnx, "-o", tmp_path / "wrong")
    assert "m/s^2" in shown.output
    told = json.loads((tmp_path / "wrong" / "info.json").read_text())["input"]["warnings"]
    assert any("m/s^2" in warning for warning in told)


@pytest.mark.real
def test_a_device_with_more_channels_than_the_model_wants(real, tmp_path):
    from sight.card import ModelCard
    from sight.encoders.resnet import ResNet
    from sight.sources.torch import TorchSource

    network = ResNet(channels=3, classes=2)
    card = ModelCard(
        encoder="resnet", encoder_args=network.encoder_args, classes=("rest", "move"), channels=("x", "y", "z"),
        units=("g",) * 3, rate_hz=50.0, window_s=2.0, stride_s=1.0, mean=(0.0,) * 3, std=(1.0,) * 3,
    )  # fmt: skip
    TorchSource(network, classes=card.classes, card=card).save(tmp_path / "m.safetensors")
    for name in ("ax6_sample.cwa", "ax3_sample.cwa", "ex.gt3x", "ex.bin"):
        sight("adapt", real("device") / name, "-m", tmp_path / "m.safetensors", "-o", tmp_path / name)
        assert (tmp_path / name / "report.html").is_file()


def test_a_listener_that_leaves_ends_a_command_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "sight", "cohort", "run", "--help"]
    ended = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert ended.stderr == b""


def test_export_of_an_export_names_what_it_wants(onnx):
    shown = CliRunner().invoke(app, ["export", str(onnx), "--fused"], env={"COLUMNS": "300"})
    assert shown.exit_code == 2
    assert "give the .safetensors it was exported from" in shown.output


def test_evaluate_takes_the_labels_of_a_dataset(model, tmp_path):
    sight("evaluate", "synthetic:W03", "-m", model, "--compare", "sticky-learned", *TINY, "-o", tmp_path)
    assert list(json.loads((tmp_path / "scores.json").read_text())) == ["none", "sticky-learned", registry.RECOMMENDED]


def test_a_folder_of_ones_own_trains_with_a_leave_out_score(table, tmp_path):
    from sight.datasets.synthetic import Synthetic

    people = Synthetic(hours=0.03, gaps_per_hour=0)
    for name in ("W01", "W02"):
        recording = next(people.recordings(name))
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as stream:
            stream.write("time,ax,ay,az,what\n")
            for t, row, label in zip(recording.time_s, recording.values, recording.labels, strict=True):
                stream.write(f"{t:.2f},{row[0]:.5f},{row[1]:.5f},{row[2]:.5f},{people.classes[label]}\n")
    labels = "\n".join(
        f'{name} = "{"rest" if name in ("lying", "sitting", "standing") else "move"}"' for name in people.classes
    )
    (tmp_path / "map.toml").write_text(
        'window_s = 2.0\nstride_s = 1.0\n[columns]\ntime = "time"\nlabel = "what"\nx = "ax"\ny = "ay"\nz = "az"\n'
        f"[labels]\n{labels}\n"
    )
    shown = sight(
        "train", "--data", tmp_path, "--labels", tmp_path / "map.toml", "--score", "--epochs", 2, "--encoder", "resnet",
        "-o", tmp_path / "mine.safetensors",
    )  # fmt: skip
    assert "Left out in turn" in shown.output
    told = json.loads(sight("inspect", tmp_path / "mine.safetensors", "--json").output)
    assert set(told["classes"]) == {"rest", "move"}
    assert set(told["training"]["leave_subjects_out"]) == {"W01", "W02", "mean"}


def test_listings_name_everything():

    for kind in ("methods", "datasets", "encoders"):
        shown = sight(kind).output
        assert all(name in shown for name in registry.names(kind))
    assert "synthetic" in sight("data", "list").output


@pytest.mark.parametrize(
    "command", ["demo", "train", "adapt", "evaluate", "inspect", "export", "data info", "data fetch"]
)
def test_help_has_examples(command):
    assert "Example" in sight(*command.split(), "--help").output


def test_python_m_sight_works():
    shown = subprocess.run([sys.executable, "-m", "sight", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("sight 0.")


def test_the_demo_runs_to_its_report(tmp_path):
    words = ["--wearers", 2, "--minutes", 4, "--epochs", 1, "--out", tmp_path]
    shown = sight("demo", *words)
    for method in ("source-only", "ema", "sticky", "sticky-learned", "sight"):
        assert method in shown.output
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dataset", ["hapt", "hugadb", "wisdm", "extrasensory"])
def test_the_readmes_lines_run_on_real_recordings(dataset, tmp_path, monkeypatch):
    require(data_folder())
    monkeypatch.setenv("SIGHT_DATA", os.path.abspath(data_folder()))
    monkeypatch.chdir(tmp_path)
    block = (ROOT / "README.md").read_text("utf-8").split("<!-- real recordings", 1)[1].split("```")[1]
    lines = [line for line in block.strip().splitlines() if dataset in line]
    assert len(lines) >= 2
    for line in lines:
        sight(*shlex.split(line)[1:])
    scores = json.loads((tmp_path / "results" / dataset / "scores.json").read_text())
    assert scores["none"]["accuracy"] > 0.2


def test_completed_methods_carry_their_mark(model, tmp_path):
    shown = sight("evaluate", "synthetic:W03", "-m", model, "--compare", "oatta", *TINY, "-o", tmp_path)
    assert "oatta *" in shown.output
    assert "oatta *" in (tmp_path / "report.html").read_text("utf-8")
