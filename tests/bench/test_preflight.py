"""Mistakes that can be known beforehand are told once, before anything is trained."""

from __future__ import annotations

import re

import pytest

from sight.bench.experiments import experiments, load_experiment
from sight.bench.preflight import check, check_place
from sight.bench.result_rows import read
from sight.bench.settings import load_setting
from sight.bench.speed_tables import _int8
from tests.bench.test_runner import TINY, bench


@pytest.fixture
def whom(tmp_path):
    (tmp_path / "whom.toml").write_text(TINY)
    return str(tmp_path / "whom.toml")


def mistaken(tmp_path, experiment: str = "", setting: str = TINY, *options: str) -> str:
    """Run with a mistake, and return the sentence about it; nothing may have been trained."""
    (tmp_path / "mine.toml").write_text(experiment or 'kind = "compare"\nmethods = ["none"]')
    (tmp_path / "whom.toml").write_text(setting)
    where = ["--dataset", str(tmp_path / "whom.toml"), "-o", str(tmp_path / "runs"), "--engine", "serial"]
    told = bench("run", str(tmp_path / "mine.toml"), *where, *options)
    assert told.exit_code == 2, told.output
    assert not list(tmp_path.glob("runs/*"))
    assert told.output.startswith("sight: ")
    return told.output.removeprefix("sight: ").strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'kind = "compare"\nmethods = ["none", {method = "sight", label = "odd", set = {bta = 1}}]',
            r"Experiment mine, odd: sight has no parameter 'bta'; .* Did you mean 'beta'\?",
        ),
        (
            'kind = "compare"\nmethods = [{method = "sight", set = {beta = "big"}}]',
            "Experiment mine, SIGHT: sight: expected beta >= 0, got 'big'",
        ),
        (
            'kind = "compare"\nmethods = [{method = "sight", set = {surprise = "of"}}]',
            "Experiment mine, SIGHT: sight: expected surprise .* got 'of'",
        ),
        ('kind = "compare"\nmethods = ["none"]\npreset = "papr"', "no preset called 'papr'"),
        (
            'kind = "compare"\nmethods = ["none"]\nseeds = "0"',
            "expected a list of seeds, got '0'; write seeds = \\[\"0\"",
        ),
        ('kind = "compare"\nmethods = ["none"]\nseeds = ["0"]', "expected seeds such as 0, 1, 2, got '0'"),
        ('kind = "compare"\nmethods = ["none"]\nseeds = [-1]', "expected seeds such as 0, 1, 2, got -1"),
        ('kind = "compare"\nmethods = ["none"]\nencoders = ["cn"]', "no encoder called 'cn'.*Did you mean 'cnn'"),
        ('kind = "compare"', "Experiment mine compares nothing"),
    ],
)
def test_mistakes_in_an_experiment_are_told_before_anything_is_trained(tmp_path, text, words):
    assert re.match(f".*{words}", mistaken(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"synthetic"', '"synthetik"', "no dataset called 'synthetik'.*Did you mean 'synthetic'"),
        ("wearers =", "wearer =", "Setting whom: synthetic has no parameter 'wearer'.*Did you mean 'wearers'"),
        ("hours = 0.06", 'hours = "long"', "Setting whom: synthetic: expected hours a number, got 'long'"),
        ("stride_s", "stride", "windows are set by .*stride_s, .*not by 'stride'"),
        ("W01->W03", "W01->W99", "no subject of synthetic called 'W99'"),
        ("W02+W03->W04", "W02+W03->W03", "'W02[+]W03->W03' the target is among its own sources"),
    ],
)
def test_mistakes_in_a_setting_are_told_before_anything_is_trained(tmp_path, old, new, words):
    assert re.match(f".*{words}", mistaken(tmp_path, "", TINY.replace(old, new)))


@pytest.mark.parametrize(
    ("device", "words"),
    [("tpu", "There is no device called 'tpu'; choose from cpu, cuda"), ("cuda", "There is no CUDA device here")],
)
def test_devices_that_are_not_there_are_told_before_anything_is_trained(tmp_path, monkeypatch, device, words):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert mistaken(tmp_path, "", TINY, "--device", device).startswith(words)


def test_the_devices_of_a_running_cluster_are_its_own_affair(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    check_place(tmp_path, "cuda", "dask:tcp://far:8786")
    with pytest.raises(ValueError, match="no CUDA device"):
        check_place(tmp_path, "cuda", "dask:local:2")


@pytest.mark.parametrize("place", ["file", "file/runs", "/proc/nope"])
@pytest.mark.parametrize("experiment", ["ablation", "efficiency"])
def test_a_folder_that_takes_nothing_is_told_before_anything_is_trained(whom, tmp_path, place, experiment):
    (tmp_path / "file").write_text("")
    where = [] if experiment == "efficiency" else ["--dataset", whom, "--engine", "serial"]
    told = bench("run", experiment, *where, "-o", str(tmp_path / place))
    assert told.exit_code == 2
    assert told.output.startswith(f"sight: Nothing can be written to the folder {tmp_path / place}")
    assert "training" not in told.output


def test_the_probe_leaves_nothing_behind(tmp_path):
    check_place(tmp_path / "new" / "runs", "cpu")
    assert list(tmp_path.rglob("*")) == [tmp_path / "new", tmp_path / "new" / "runs"]


def test_every_experiment_of_the_package_passes(whom):
    for name in experiments():
        if name != "efficiency":
            check(load_experiment(name), load_setting(whom))


def test_the_stopwatch_takes_no_options_that_it_would_ignore(tmp_path):
    told = bench("run", "efficiency", "-d", "synthetic", "--limit", "2", "--seeds", "0", "-o", str(tmp_path))
    assert told.exit_code == 2
    assert "it takes no --dataset, --limit, --seeds" in told.output


def test_int8_is_told_in_words():
    found = {
        "corpus": "hapt",
        "source": "1",
        "target": "2",
        "windows": 347,
        "file_kb": {"float32": 1002.3, "int8": 398},
    }
    scores = {"none float32": 0.7054, "sight float32": 0.6919, "none int8": 0.7222, "sight int8": 0.7120}
    assert _int8(found | {f"{name} macro_f1": score for name, score in scores.items()}) == (
        "int8 instead of float32 on hapt (1 to 2, 347 windows): macro-F1 of Source-only 70.5 to 72.2, "
        "SIGHT 69.2 to 71.2; file 1002 to 398 KB"
    )


def test_files_that_hold_no_results_are_told(tmp_path):
    (tmp_path / "README.md").write_text("# words")
    with pytest.raises(ValueError, match=r"README.md is no Parquet file; expected one that sight bench run wrote"):
        read([tmp_path / "README.md"])
