"""benchmarks/bench/gpu_machine.py: rows that another machine computes are those of the benchmark."""

from __future__ import annotations

import tarfile
import time
from types import SimpleNamespace

from benchmarks.bench import gpu_machine

from sight.apps.bench.experiments import load_experiment
from sight.apps.bench.runner import count_rows, run
from sight.apps.bench.settings import load_setting


def test_packed_windows_give_the_rows_of_the_benchmark(tiny, tmp_path, monkeypatch):
    name = str(tiny / "tiny.toml")
    monkeypatch.setattr(gpu_machine, "load_list", lambda _: SimpleNamespace(runs=[("prototypes", name)]))
    gpu_machine.pack(tmp_path / "packed", [name])
    assert len(list((tmp_path / "packed").glob("synthetic-*.pickle"))) == 4
    runs = tmp_path / "there"
    limits = {"only": [], "device": "cpu", "jobs": 1, "deadline": time.time() + 300}
    gpu_machine.compute(tmp_path / "packed", runs, **limits)
    gpu_machine.archive(runs, tmp_path / "out", models=2)
    here = tmp_path / "here"
    for part in (tmp_path / "out").iterdir():
        with tarfile.open(part) as archive:
            archive.extractall(here, filter="data")
    assert len(list(here.glob("models/*"))) == 2
    experiment, setting = load_experiment("prototypes"), load_setting(name)
    rows, failures = run(experiment, setting, here, engine="serial", only_finished=True)
    assert not failures
    assert len(rows) == count_rows(experiment, setting) > 0


def test_tasks_are_by_source_model_and_those_of_the_main_experiments_come_first(tiny, tmp_path):
    setting = load_setting(str(tiny / "tiny.toml"))
    plan = [(load_experiment("backbones"), setting), (load_experiment("table-main"), setting)]
    tasks = gpu_machine.tasks(plan, tmp_path, "cpu")
    networks = [task.group[0][0].encoder for task in tasks]
    assert networks[:6] == ["cnn"] * 6  # two source models of three seeds, shared by both experiments
    assert sorted(networks[6:]) == ["resnet"] * 6 + ["transformer"] * 6
    assert len(tasks[0].group[0][0].sources) == 2  # the longest training first
    assert all(len(group) == 2 for task in tasks[:6] for group in task.then)
