"""Errors that are reported before anything is trained."""

from __future__ import annotations

import re

import pytest

from sight.apps.bench.experiments import experiments, load_experiment
from sight.apps.bench.preflight import check, check_output
from sight.apps.bench.settings import load_setting
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


def test_a_setting_without_the_stream_orders_of_an_experiment(tmp_path):
    experiment = 'kind = "compare"\nmethods = ["none"]\norders = ["files"]'
    assert "none of its stream orders (files)" in error_of(tmp_path, experiment, TINY)


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
def test_folders_that_are_not_writable(setting, tmp_path, place):
    (tmp_path / "file").write_text("")
    shown = bench("run", "ablation", "--dataset", setting, "--engine", "serial", "-o", str(tmp_path / place))
    assert shown.exit_code == 2
    assert f"Cannot write to the folder {tmp_path / place}" in shown.output
    assert "training" not in shown.output


def test_the_write_check_leaves_no_file(tmp_path):
    check_output(tmp_path / "new" / "runs", "cpu")
    assert list(tmp_path.rglob("*")) == [tmp_path / "new", tmp_path / "new" / "runs"]


def test_every_experiment_of_the_package_is_valid(setting):
    for name in experiments():
        check(load_experiment(name), load_setting(setting))
