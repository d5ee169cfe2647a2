"""Commands on real files: what they write and print."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from sight import __version__, registry
from sight.models.load import load
from sight.testing import toy_card
from sight.types import Warning
from tests.conftest import ROOT
from tests.helpers.commands import COLUMNS, TINY, output_of, run_sight
from tests.helpers.requirements import data_folder, require
from tests.helpers.services import write_onnx


def test_a_trained_model_describes_itself(model):
    facts = json.loads(run_sight("inspect", model, "--json").output)
    assert facts["encoder"] == "resnet"
    assert facts["dataset"] == "synthetic"
    assert facts["training"]["subjects"] == ["W01", "W02"]
    assert facts["training"]["options"] == {"hours": 0.1, "gaps_per_hour": 0.0}
    assert "resnet" in output_of("inspect", model)


def test_adapt_writes_all_files(onnx, table, tmp_path):
    import pyarrow.parquet as pq

    run_sight("adapt", table / "day.csv", "-m", onnx, "-o", tmp_path, "--columns", COLUMNS)
    assert {path.name for path in tmp_path.iterdir()} == {
        "info.json",
        "windows.parquet",
        *("segments.csv", "daily.csv", "hourly.csv", "day_statistics.csv", "nights.csv", "bouts.csv", "nonwear.csv"),
        *("summary.csv", "quality.csv"),
        "report.html",
    }
    info = json.loads((tmp_path / "info.json").read_text())
    assert info["method"] == registry.RECOMMENDED
    assert info["input"]["file"] == "day.csv"
    rows = pq.read_table(tmp_path / "windows.parquet").to_pydict()
    assert len(rows["class"]) == 179
    assert np.allclose(np.sum([rows[key] for key in rows if key.startswith("q_")], axis=0), 1, atol=1e-4)


def test_warnings_are_in_the_terminal_info_and_report(onnx, table, tmp_path):
    header, *lines = (table / "day.csv").read_text().splitlines()
    cells = [line.split(",", 1) for line in lines]
    dated = "\n".join(f"{1_700_000_000_000 + 1000 * float(time):.0f},{rest}" for time, rest in cells)
    (tmp_path / "day.csv").write_text(f"{header}\n{dated}\n")
    command = ["adapt", tmp_path / "day.csv", "-m", onnx, "-o", tmp_path / "out", "--columns", COLUMNS]
    printed = output_of(*command, "--gyro-unit", "deg/s", "--time-unit", "ms")
    *_, warning = json.loads((tmp_path / "out" / "info.json").read_text())["warnings"]
    assert (warning["kind"], warning["severity"]) == ("time-zone", "warning")
    assert "--tz" in warning["remedy"]
    assert str(Warning(**warning)) in printed
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert page.index('class="warnings"') < page.index('class="lead"')
    assert "midnight UTC" in page
    assert "--time-unit" in output_of(*command, "--time-unit", "s", code=2)


def test_the_fused_graph_runs_as_documented(model, tmp_path, monkeypatch, capsys):
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic

    monkeypatch.chdir(tmp_path)
    run_sight("export", model, "--fused", "-o", "watch.onnx")
    windows = windows_of(Synthetic(hours=0.05, gaps_per_hour=0), "W04").x
    page = (ROOT / "docs" / "onnx.md").read_text("utf-8")
    capsys.readouterr()
    for example in page.split("```python")[1:]:
        exec(example.split("```")[0], {"windows": windows, "gaps_s": [0.0] * len(windows)})
    labels = [line.rpartition(" ")[0] for line in capsys.readouterr().out.splitlines()]
    adapter = registry.method(registry.RECOMMENDED).bind(load(model))
    assert "fused graph" in json.loads(run_sight("inspect", "watch.onnx", "--json").output)["kind"]
    assert "FusedSession" in output_of("adapt", "synthetic:W01", "-m", "watch.onnx", code=2)
    assert labels == 2 * [adapter.source.classes[k] for k in adapter.step(windows).argmax(axis=1)]


def test_a_file_with_norms_is_adapted_by_keel_norm(model, onnx, tmp_path):
    run_sight("export", model, "--norms", "-o", tmp_path / "norms.onnx")
    command = ["adapt", "synthetic:W03", *TINY, "--method", "keel-norm"]
    run_sight(*command, "-m", tmp_path / "norms.onnx", "-o", tmp_path / "out")
    run_sight(*command, "-m", model, "-o", tmp_path / "torch")
    labels = [pd.read_parquet(tmp_path / name / "windows.parquet")["class"] for name in ("out", "torch")]
    assert (labels[0] == labels[1]).all()
    assert "sight export --norms" in output_of(*command, "-m", onnx, "-o", tmp_path / "no", code=2)
    for other in ("--fused", "--int8=synthetic:W03"):
        assert "--norms alone" in output_of("export", model, "--norms", other, code=2)


def test_int8_export_prints_its_agreement_with_float32(model, tmp_path):
    printed = output_of("export", model, "--int8", "synthetic:W03", *TINY, "-o", tmp_path / "small.onnx")
    assert "% of 359 windows" in printed
    assert json.loads(run_sight("inspect", tmp_path / "small.onnx", "--json").output)["kind"] == "ONNX model of sight"


def test_hyper_parameters_and_presets_reach_the_method(model, tmp_path):
    run_sight("adapt", "synthetic:W03", "-m", model, *TINY, "--method", "sticky", "--set", "s=0.5", "-o", tmp_path)
    info = json.loads((tmp_path / "info.json").read_text())
    assert (info["method"], info["params"]["s"]) == ("sticky", 0.5)
    short = ["--option", "hours=0.02", "--option", "gaps_per_hour=0"]
    run_sight(
        "adapt", "synthetic:W03", "-m", model, *short, "--method", "tent", "--preset", "sight-paper", "-o", tmp_path
    )
    assert json.loads((tmp_path / "info.json").read_text())["params"]["lr"] == 1e-4


def test_a_folder_gives_results_for_each_recording_and_reports_unreadable_ones(onnx, table, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    text = (table / "day.csv").read_text()
    (folder / "a.csv").write_text(text)
    (folder / "b.csv").write_text("t,acc_x\n1,2\n")
    (folder / "readme.txt").write_text("not a recording")
    printed = output_of("adapt", folder, "-m", onnx, "-o", tmp_path / "out", "--columns", COLUMNS, code=2)
    assert "b was skipped" in printed
    assert (tmp_path / "out" / "a" / "report.html").is_file()
    assert not (tmp_path / "out" / "b").exists()


def test_usual_axis_names_and_a_wrong_unit_are_recognised(onnx, table, tmp_path):
    text = (table / "day.csv").read_text()
    head, _, rows = text.partition("\n")
    (tmp_path / "short.csv").write_text("time,ax,ay,az,gx,gy,gz\n" + rows)
    run_sight("adapt", tmp_path / "short.csv", "-m", onnx, "-o", tmp_path / "fine")
    warnings = json.loads((tmp_path / "fine" / "info.json").read_text())["warnings"]
    assert not {"unit", "channels"} & {warning["kind"] for warning in warnings}
    lines = [line.split(",") for line in rows.splitlines()]
    scaled = "\n".join(",".join([t, *(str(9.81 * float(a)) for a in values[:3]), *values[3:]]) for t, *values in lines)
    (tmp_path / "metric.csv").write_text(head.replace("t,", "time,", 1) + "\n" + scaled + "\n")
    printed = output_of("adapt", tmp_path / "metric.csv", "-m", onnx, "-o", tmp_path / "wrong")
    assert "m/s^2" in printed
    warnings = json.loads((tmp_path / "wrong" / "info.json").read_text())["warnings"]
    assert any("m/s^2" in warning["text"] and warning["severity"] == "error" for warning in warnings)


def test_a_device_may_have_more_channels_than_the_model(device_files, tmp_path):
    from sight.models.encoders.resnet import ResNet
    from sight.models.torch import TorchSource

    network = ResNet(channels=3, classes=2)
    card = toy_card(encoder="resnet", encoder_args=network.encoder_args, classes=("rest", "move"), rate_hz=50.0)
    TorchSource(network, classes=card.classes, card=card).save(tmp_path / "m.safetensors")
    for name in ("ax6.cwa", "ax3.cwa", "actigraph.gt3x", "geneactiv.bin"):
        run_sight("adapt", device_files / name, "-m", tmp_path / "m.safetensors", "-o", tmp_path / name)
        assert (tmp_path / name / "report.html").is_file()


def test_a_closed_pipe_ends_a_command_without_an_error():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "sight", "cohort", "run", "--help"]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert ended.stderr == b""


def test_an_exported_model_is_fused_as_its_checkpoint_is(model, onnx, tmp_path):
    from sight.models.fused_model import FusedSession

    for name, path in (("checkpoint", model), ("file", onnx)):
        run_sight("export", path, "--fused", "-o", tmp_path / f"{name}.onnx")
    first, second = (FusedSession(tmp_path / f"{name}.onnx") for name in ("checkpoint", "file"))
    for window in np.random.default_rng(0).normal(size=(5, *first.shape)).astype(np.float32):
        np.testing.assert_allclose(first.step(window)[0], second.step(window)[0], rtol=0, atol=1e-5)


def test_a_file_whose_network_cannot_be_built_again_is_not_fused(tmp_path):
    path = write_onnx(tmp_path / "foreign.onnx", channels=("x", "y", "z"), units=("g",) * 3, rate_hz=50.0)
    shown = output_of("export", path, "--fused", "-o", tmp_path / "no.onnx", code=2)
    assert "Expected the tensors of a network 'cnn' in foreign.onnx" in shown
    assert not (tmp_path / "no.onnx").exists()


def test_a_bundled_model_is_copied(tmp_path):
    run_sight("export", "wrist", "-o", tmp_path / "copy.onnx")
    assert (tmp_path / "copy.onnx").is_file()
    shown = output_of("export", "wrist", "--int8", "synthetic:W03", "-o", tmp_path / "no.onnx", code=2)
    assert "expected the 3 channels of the model (x, y, z), got 6" in shown
    assert not (tmp_path / "no.onnx").exists()


def test_training_on_a_folder_with_leave_one_subject_out_scores(table, tmp_path):
    from sight.datasets.synthetic import Synthetic

    dataset = Synthetic(hours=0.03, gaps_per_hour=0)
    for name in ("W01", "W02"):
        recording = next(dataset.recordings(name))
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as stream:
            stream.write("time,ax,ay,az,what\n")
            for t, row, label in zip(recording.time_s, recording.values, recording.labels, strict=True):
                stream.write(f"{t:.2f},{row[0]:.5f},{row[1]:.5f},{row[2]:.5f},{dataset.classes[label]}\n")
    labels = "\n".join(
        f'{name} = "{"rest" if name in ("lying", "sitting", "standing") else "move"}"' for name in dataset.classes
    )
    (tmp_path / "map.toml").write_text(
        'window_s = 2.0\nstride_s = 1.0\n[columns]\ntime = "time"\nlabel = "what"\nx = "ax"\ny = "ay"\nz = "az"\n'
        f"[labels]\n{labels}\n"
    )
    options = ["--labels", tmp_path / "map.toml", "--score", "--epochs", 1, "--encoder", "resnet"]
    printed = output_of("train", "--data", tmp_path, *options, "-o", tmp_path / "mine.safetensors")
    assert "Leave-one-subject-out" in printed
    facts = json.loads(run_sight("inspect", tmp_path / "mine.safetensors", "--json").output)
    assert set(facts["classes"]) == {"rest", "move"}
    left_out = facts["training"]["leave_subjects_out"]
    table = pd.read_csv(tmp_path / "mine.scores.csv")
    assert table["subject"].tolist() == ["W01", "W02", "mean"]
    names = ["raw_accuracy", "raw_macro_f1", "adapted_accuracy", "adapted_macro_f1"]
    assert table[names].loc[2].to_numpy() == pytest.approx(table[names][:2].mean().to_numpy(), abs=1e-5)
    assert left_out["mean"]["adapted_macro_f1"] == pytest.approx(table["adapted_macro_f1"][2], abs=1e-4)
    confusion = pd.read_csv(tmp_path / "mine.confusion.csv", index_col=["predictions", "true_class"])
    assert confusion.loc["raw"].to_numpy().sum() == confusion.loc["adapted"].to_numpy().sum() == table["windows"][2]
    pooled = np.trace(confusion.loc["raw"].to_numpy()) / table["windows"][2]
    assert pooled == pytest.approx(np.average(table["raw_accuracy"][:2], weights=table["windows"][:2]), abs=1e-5)


def test_listings_contain_every_name():
    for kind in ("methods", "datasets", "encoders"):
        printed = output_of(kind)
        assert all(name in printed for name in registry.names(kind))
    assert "12 subjects" in output_of("data", "list")


@pytest.mark.parametrize(("kind", "name", "fact"), [("methods", "sight", "tau"), ("datasets", "wisdm2019", "kicking")])
def test_a_name_is_described(kind, name, fact):
    assert fact in output_of(kind, name)


@pytest.mark.parametrize(
    "command", ["demo", "train", "adapt", "evaluate", "inspect", "export", "data info", "data fetch"]
)
def test_help_has_examples(command):
    assert "Example" in output_of(*command.split(), "--help")


def test_python_m_sight_works():
    ended = subprocess.run([sys.executable, "-m", "sight", "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout == f"sight {__version__}\n"


def test_the_demo_writes_a_report(tmp_path):
    printed = output_of("demo", "--minutes", 3, "--out", tmp_path)
    for method in ("raw", "ema", "sticky", "sticky-learned", "sight"):
        assert f"│ {method} │" in printed
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.real
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dataset", ["extrasensory", "hapt", "hugadb", "wisdm"])
def test_commands_of_the_docs_run_on_real_recordings(dataset, tmp_path, monkeypatch):
    require(data_folder())
    monkeypatch.setenv("SIGHT_DATA", os.path.abspath(data_folder()))
    monkeypatch.chdir(tmp_path)
    block = (ROOT / "docs" / "data.md").read_text("utf-8").split("<!-- real recordings", 1)[1].split("```")[1]
    lines = [line for line in block.strip().splitlines() if dataset in line]
    assert len(lines) >= 2
    for line in lines:
        run_sight(*shlex.split(line)[1:])
    scores = json.loads((tmp_path / "results" / dataset / "scores.json").read_text())
    assert scores["mean"]["none"]["accuracy"] > 0.2
