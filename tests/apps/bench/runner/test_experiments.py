"""Runs of every experiment on synthetic wearers."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

from sight.apps.bench.experiment_report.write import write_report
from sight.apps.bench.experiments import experiments, load_experiment, narrow
from sight.apps.bench.result_rows import read, write
from sight.apps.bench.runner import run
from sight.apps.bench.settings import load_setting
from sight.apps.bench.trials import Variant, trials
from sight.methods.sight import SIGHT
from tests.apps.bench.runner.runner_helpers import bench


@pytest.mark.parametrize("name", experiments())
def test_every_experiment_runs_and_is_reported(tiny, name, tmp_path):
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tiny / "runs"), "--engine", "serial"]
    # The main table runs every method once; other experiments run a few.
    few = ["--methods", "none,sticky,sight"] if name in ("table-detailed", "backbones", "order", "days") else []
    shown = bench("run", name, *where, *few, "--seeds", "0", "--limit", "1")
    assert shown.exit_code == 0, shown.output
    experiment = narrow(load_experiment(name), methods=few[1].split(",") if few else None)
    path = tiny / "runs" / f"{name}_tiny.part.parquet"
    table = pd.read_parquet(path)
    setting = load_setting(str(tiny / "tiny.toml"), limit=1)
    planned = len(list(trials(narrow(experiment, seeds=[0]), setting)))
    assert len(table) == len(experiment.variants) * planned
    assert set(table["label"]) == {variant.label for variant in experiment.variants}
    write_report([path], tmp_path)
    assert experiment.title in (tmp_path / "index.html").read_text()
    assert (tmp_path / "figures" / f"{name}_tiny.svg").read_text().startswith("<?xml")


def test_streams_that_a_subject_lacks_windows_for_have_neither_rows_nor_failures(tiny, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'kind = "compare"\nseeds = [0]\nmethods = ["none", "ema"]\norders = ["day-60", "partial", "week"]\n'
    )
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tiny / "runs"), "--engine", "serial"]
    path = tiny / "runs" / "mine_tiny.parquet"
    for gather in ([], ["--gather"]):
        path.unlink(missing_ok=True)
        shown = bench("run", str(tmp_path / "mine.toml"), *where, *gather)
        assert shown.exit_code == 0, shown.output
        assert "14 rows in" in shown.output
        assert "lacks windows: 5" in shown.output
        streams = pd.read_parquet(path).groupby("target")["order"].unique().map(sorted).to_dict()
        # W02 has both sedentary classes; W03 was never lying, which is the first class; W04 was neither.
        assert streams == {
            "W02": ["day-60 lying", "day-60 sitting", "partial", "week"],
            "W03": ["day-60 sitting", "partial"],
            "W04": ["partial"],
        }
    write_report([path], tmp_path)
    assert "60 % one class" in (tmp_path / "report.md").read_text()


def test_a_label_with_a_comma_selects_its_row(tiny):
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tiny / "runs"), "--engine", "serial", "--limit", "1"]
    shown = bench("run", "table-main", *where, "--seeds", "0", "--methods", "none, SIGHT, authors' code,ema")
    assert shown.exit_code == 0, shown.output
    table = pd.read_parquet(tiny / "runs" / "table-main_tiny.part.parquet")
    assert set(table["label"]) == {"Source-only", "SIGHT, authors' code", "EMA"}


def test_rows_contain_what_is_needed_to_repeat_them(tiny):
    experiment = narrow(load_experiment("table-main"), methods=["none", "tent"], seeds=[0])
    setting = load_setting(str(tiny / "tiny.toml"), limit=1)
    rows, failures = run(experiment, setting, tiny / "runs", engine="serial")
    assert not failures
    tent = read([write(tiny / "one" / "rows.parquet", rows)]).set_index("label").loc["TENT"]
    expected = {
        "dataset": "synthetic",
        "dataset_version": "1",
        "sources": "W01",
        "target": "W02",
        "seed": 0,
        "window_s": 2.0,
        "stride_s": 2.0,
        "gaps": False,
        "rule": "chunk",
        "preset": "sight-paper",
    }
    assert {name: tent[name] for name in expected} == expected
    assert json.loads(tent["params"])["lr"] == 1e-4
    assert json.loads(tent["label_map"])["walking"] == "walking"
    assert json.loads(tent["options"]) == {"wearers": 4, "hours": 0.06, "gaps_per_hour": 0.0}
    training = json.loads(tent["training"])
    assert (training["epochs"], training["batch"], training["device"]) == (2, 64, "cpu")
    for column in ("sight", "python", "numpy", "torch", "machine", "code", "source_data", "target_data"):
        assert tent[column]
    assert tent["computed_at"].endswith("+00:00")
    assert len(tent["confusion"]) == 7**2
    assert tent["confusion"].sum() == tent["windows"]
    scores = next(row["scores"] for row in rows if row["label"] == "TENT")
    for name in ("accuracy", "macro_f1_union", "macro_f1_truth", "kappa", "time_use_mae_min"):
        assert tent[name] == pytest.approx(scores[name], rel=1e-12)


def test_all_methods_get_the_same_source_predictions(tiny):
    """A sticky filter of strength zero predicts as source-only does."""
    experiment = narrow(load_experiment("table-main"), methods=["none"], seeds=[0])
    same = Variant(label="not sticky", method="sticky", fields={"s": 0.0})
    experiment = replace(experiment, variants=(*experiment.variants, same))
    rows, _ = run(experiment, load_setting(str(tiny / "tiny.toml")), tiny / "runs", engine="serial")
    for raw, filtered in zip(rows[::2], rows[1::2], strict=True):
        assert raw["scores"]["confusion"] == filtered["scores"]["confusion"]
        assert raw["target_data"] == filtered["target_data"]


def test_presets_and_the_streaming_rule_reach_the_adapter():
    note = Variant(label="NOTE", method="note", preset="sight-paper", rule="chunk").adapter()
    assert (note.rule, note.lr, note.memory) == ("chunk", 1e-4, 64)
    variant = Variant(label="NOTE", method="note", preset="sight-paper", rule="chunk", fields={"lr": 0.5})
    assert variant.adapter().lr == 0.5
    assert Variant(label="SIGHT", method="sight", preset="sight-paper", rule="chunk").adapter() == SIGHT()
