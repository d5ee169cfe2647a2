"""Errors that are reported before anything is trained."""

from __future__ import annotations

import re

import pytest
from tools.findings_data import speed

from sight.apps.bench.experiments import experiments, load_experiment
from sight.apps.bench.preflight import check, check_output
from sight.apps.bench.settings import load_setting
from sight.apps.bench.speed_tables import speed_tables
from tests.apps.bench.runner.runner_helpers import TINY, bench


@pytest.fixture
def setting(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    return str(tmp_path / "tiny.toml")


def error_of(tmp_path, experiment: str = "", setting: str = TINY, *options: str) -> str:
    """Run a command with an error, and return its message; nothing may have been trained."""
    (tmp_path / "mine.toml").write_text(experiment or 'kind = "compare"\nmethods = ["none"]')
    (tmp_path / "tiny.toml").write_text(setting)
    where = ["--dataset", str(tmp_path / "tiny.toml"), "-o", str(tmp_path / "runs"), "--engine", "serial"]
    shown = bench("run", str(tmp_path / "mine.toml"), *where, *options)
    assert shown.exit_code == 2, shown.output
    assert not list(tmp_path.glob("runs/*"))
    assert shown.output.startswith("sight: ")
    return shown.output.removeprefix("sight: ").strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'kind = "compare"\nmethods = ["none", {method = "sight", label = "odd", set = {bta = 1}}]',
            "Experiment mine, odd: .*'bta'.*'beta'",
        ),
        ('kind = "compare"\nmethods = [{method = "sight", set = {beta = "big"}}]', "mine, SIGHT: .*beta.*'big'"),
        ('kind = "compare"\nmethods = [{method = "sight", set = {surprise = "of"}}]', "mine, SIGHT: .*surprise.*'of'"),
        ('kind = "compare"\nmethods = ["none"]\npreset = "papr"', ".*'papr'"),
        ('kind = "compare"\nmethods = ["none"]\nseeds = "0"', ".*list of seeds"),
        ('kind = "compare"\nmethods = ["none"]\nseeds = ["0"]', ".*seeds such as 0, 1, 2, got '0'"),
        ('kind = "compare"\nmethods = ["none"]\nseeds = [-1]', ".*seeds such as 0, 1, 2, got -1"),
        ('kind = "compare"\nmethods = ["none"]\nencoders = ["cn"]', ".*no encoder called 'cn'.*'cnn'"),
        ('kind = "compare"', "Experiment mine has nothing"),
    ],
)
def test_errors_in_an_experiment(tmp_path, text, words):
    assert re.search(words, error_of(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"synthetic"', '"synthetik"', "'synthetik'.*'synthetic'"),
        ("wearers =", "wearer =", "Setting tiny: .*'wearer'.*'wearers'"),
        ("hours = 0.06", 'hours = "long"', "Setting tiny: .*hours.*'long'"),
        ("stride_s", "stride", "stride_s, .*'stride'"),
        ("W01->W03", "W01->W99", "no subject of synthetic called 'W99'"),
        ("W02+W03->W04", "W02+W03->W03", "'W02[+]W03->W03' the target is also a source"),
        ('"lying", "sitting"', '"lying", "siting"', "no class of synthetic called 'siting'.*'sitting'"),
        ('standing = "standing"', 'standing = "stand"', "no class of synthetic called 'stand'"),
    ],
)
def test_errors_in_a_setting(tmp_path, old, new, words):
    assert re.search(words, error_of(tmp_path, "", TINY.replace(old, new)))


@pytest.mark.parametrize("order", ["day-80", "time-use", "week"])
def test_streams_of_days_need_sedentary_classes(tmp_path, order):
    experiment = f'kind = "compare"\nmethods = ["none"]\norders = ["{order}"]'
    assert "sedentary" in error_of(tmp_path, experiment, TINY.replace('sedentary = ["lying", "sitting"]\n', ""))


@pytest.mark.parametrize(("device", "words"), [("tpu", "no device called 'tpu'"), ("cuda", "no CUDA device")])
def test_missing_devices(tmp_path, monkeypatch, device, words):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert words in error_of(tmp_path, "", TINY, "--device", device)


def test_devices_of_a_running_cluster_are_not_checked(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    check_output(tmp_path, "cuda", "dask:tcp://far:8786")
    with pytest.raises(ValueError, match="no CUDA device"):
        check_output(tmp_path, "cuda", "dask:local:2")


@pytest.mark.parametrize("place", ["file", "file/runs", "/proc/nope"])
@pytest.mark.parametrize("experiment", ["ablation", "efficiency"])
def test_folders_that_are_not_writable(setting, tmp_path, place, experiment):
    (tmp_path / "file").write_text("")
    where = [] if experiment == "efficiency" else ["--dataset", setting, "--engine", "serial"]
    shown = bench("run", experiment, *where, "-o", str(tmp_path / place))
    assert shown.exit_code == 2
    assert f"Cannot write to the folder {tmp_path / place}" in shown.output
    assert "training" not in shown.output


def test_the_write_check_leaves_no_file(tmp_path):
    check_output(tmp_path / "new" / "runs", "cpu")
    assert list(tmp_path.rglob("*")) == [tmp_path / "new", tmp_path / "new" / "runs"]


def test_every_experiment_of_the_package_is_valid(setting):
    for name in experiments():
        if name != "efficiency":
            check(load_experiment(name), load_setting(setting))


def test_speed_refuses_options_that_it_would_ignore(tmp_path):
    shown = bench("run", "efficiency", "-d", "synthetic", "--limit", "2", "--seeds", "0", "-o", str(tmp_path))
    assert shown.exit_code == 2
    assert "--dataset, --limit, --seeds" in shown.output


def test_tables_of_the_speed_figures():
    found = {table.name: table for table in speed_tables(speed())}
    assert [row[0].text for row in found["int8"].rows][-2:] == ["file, KB", "ms a window"]
    pairs = speed()["int8"]["pairs"]
    assert len(pairs) == 3
    assert all(pair["macro_f1 int8"] > pair["macro_f1 float32"] - 0.01 for pair in pairs)
    methods = {row[0].text for row in found["harth-methods"].rows}
    assert {"none", "sight", "keel", "tent"} <= methods
    times = {row["method"]: row["ms_per_window"] for row in speed()["shapes"]["harth"]["methods"]}
    assert times["sight"] == pytest.approx(speed()["shapes"]["harth"]["steps_ms"]["SIGHT on onnx"])
    verdicts = [row[-1].text for row in found["targets"].rows]
    assert verdicts.count("met") + verdicts.count("**missed**") == 14
    assert verdicts.count("") == 2  # without a target
