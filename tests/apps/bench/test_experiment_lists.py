"""Lists of experiments: one command for all tables of the paper."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from sight.apps.bench import settings
from sight.apps.bench.experiment_lists import PlannedRun, experiment_lists, load_list
from sight.apps.bench.experiments import experiments, load_experiment
from sight.apps.bench.paper_values import values
from sight.apps.bench.run_estimate import count_windows, estimate, processes
from sight.apps.bench.settings import load_setting
from sight.datasets import windows_of
from tests.apps.bench.paper_files import write_harth, write_uschad
from tests.apps.bench.runner.runner_helpers import TINY, bench, finished
from tests.helpers.layouts import write_hapt


@pytest.fixture
def short(monkeypatch):
    """Let the paper's settings, which train for 100 epochs, train for one."""
    for name in load_list("paper").settings:
        monkeypatch.setitem(settings._tables()[name], "epochs", 1)


def paper(data, *options: str):
    where = ["--data", str(data), "-o", str(data / "runs"), "--engine", "serial", "--limit", "1", "--seeds", "0"]
    return bench("run", "paper", *where, *options)


def test_lists_name_experiments_and_settings_of_the_package():
    for name in experiment_lists():
        listed = load_list(name)
        assert {experiment for experiment, _ in listed.runs} <= set(experiments())
        assert {*listed.settings, *listed.replacements.values()} <= set(settings.settings())


def test_the_list_of_the_paper_has_every_printed_table_with_scores():
    printed = {(table, dataset) for table, dataset, *_ in values()}
    runs = {(load_experiment(experiment).paper, setting) for experiment, setting in load_list("paper").runs}
    assert printed <= runs


def test_the_list_of_results_has_every_experiment_and_main_setting():
    listed = load_list("results")
    assert {experiment for experiment, _ in listed.runs} == set(experiments()) - {"table-detailed"}
    for experiment in ("table-main", "days", "keel-parts", "stress"):
        assert set(settings.setting_group()) <= {setting for name, setting in listed.runs if name == experiment}


def test_protocols_that_share_a_source_model_are_estimated_once():
    plan = replace(load_experiment("reproduction"), seeds=(0,))
    setting = replace(load_setting("synthetic"), orders={"time": {}, "files": {}})
    runs = [PlannedRun(plan, setting)]
    (cost,) = estimate(runs, count_windows(runs, engine="serial"))
    # Three sources: as trained and in four protocols trained otherwise; the oracle has a model for each of three pairs.
    assert cost.models == 3 * 5 + 3


def test_one_command_runs_what_has_data_and_resumes(tmp_path, short):
    write_harth(tmp_path)
    write_uschad(tmp_path)
    before = dict(os.environ)
    first = paper(tmp_path, "--methods", "none,sight")
    assert first.exit_code == 0, first.output
    assert dict(os.environ) == before
    for setting in ("capture24", "ucihar"):
        assert re.search(rf"Left out: {setting}; found nothing .* sight data fetch {setting}\n", first.output)
    assert "Left out: table-detailed on harth; There is no subject of harth called 'S009'" in first.output
    total = re.search(r"Estimate: \S+ hours in 1 process: (\d+) source models, .*; (\d+) rows", first.output)
    assert total
    assert total[1] == "4"  # three networks on HARTH, one on USC-HAD
    assert first.output.index("Estimate") < first.output.index("table-main on harth: 1 of 2 steps training")
    written = finished(tmp_path / "runs")
    assert len(written) == int(total[2])
    report = (tmp_path / "runs" / "report" / "report.md").read_text()
    assert "Paper" in report
    for section in ("Main comparison on harth", "Detailed comparison on uschad", "Prototype refinement on harth"):
        assert f"## {section}" in report
    again = paper(tmp_path, "--methods", "none,sight")
    assert again.exit_code == 0
    assert f"{len(written)} finished rows" in again.output
    assert finished(tmp_path / "runs") == written


def test_hapt_replaces_ucihar(tmp_path):
    write_hapt(tmp_path / "hapt")
    settings_of_hapt = settings._tables()["hapt"]["pairs"]
    assert settings_of_hapt == settings._tables()["ucihar"]["pairs"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(settings._tables()["hapt"], "pairs", ["1->2"])
        shown = paper(tmp_path, "--dry-run", "--methods", "none")
    assert shown.exit_code == 0, shown.output
    assert "hapt replaces ucihar" in shown.output
    assert "Left out: ucihar" not in shown.output
    assert not (tmp_path / "runs").exists()


def test_without_any_data_the_expected_files_are_listed(tmp_path):
    shown = paper(tmp_path)
    assert shown.exit_code == 2
    for name in ("harth", "capture24", "uschad", "ucihar"):
        assert f"Left out: {name};" in shown.output
    assert f"None of the datasets of paper is in {tmp_path}" in shown.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "own.onnx"], "paper trains its own source models"),
        (["--dataset", "hapt"], "no setting of paper called 'hapt'"),
        (["--methods", "sigt"], "no method called 'sigt'.*'sight'"),
        (["--data", "nowhere"], "no folder nowhere"),
    ],
)
def test_errors(tmp_path, options, words):
    shown = paper(tmp_path, *options)
    assert shown.exit_code == 2
    assert re.search(words, shown.output)


def test_lists_are_listed():
    assert "Lists of experiments" in bench("list").output


def tiny_run(tmp_path, experiment: str) -> PlannedRun:
    (tmp_path / "tiny.toml").write_text(TINY)
    return PlannedRun(load_experiment(experiment), load_setting(str(tmp_path / "tiny.toml")))


def test_shared_work_is_counted_once(tmp_path):
    runs = [tiny_run(tmp_path, name) for name in ("ablation", "design", "ablation")]
    costs = estimate(runs, count_windows(runs, engine="serial"))
    assert [cost.models for cost in costs] == [6, 0, 0]  # two source models, three seeds
    assert [cost.rows for cost in costs] == [54, 36, 0]  # three pairs, three seeds; source-only and SIGHT are shared
    assert costs[0].training_s > 0
    assert costs[1].methods_s > 0


def test_unreadable_subjects_are_named(tmp_path, monkeypatch):
    run, damaged = tiny_run(tmp_path, "prototypes"), {"W03"}

    def read(dataset, subject, **windowing):
        if subject in damaged:
            raise ValueError("damaged")
        return windows_of(dataset, subject, **windowing)

    monkeypatch.setattr("sight.datasets.windows_of", read)
    sizes = count_windows([run], engine="serial")
    assert [size.error for size in sizes.values() if size.error] == ["synthetic W03: damaged"]
    assert estimate([run], sizes)[0].rows == 9
    damaged |= {"W01", "W02", "W04"}
    with pytest.raises(ValueError, match="synthetic W01: damaged"):
        count_windows([run], engine="serial")


def test_processes_of_an_engine():
    assert processes("serial", None) == 1
    assert processes("loky", 3) == 3
    assert processes("dask:local:4", None) == 4
    assert processes("dask:tcp://far:8786", None) == 1
    assert processes("loky", None) >= 1
