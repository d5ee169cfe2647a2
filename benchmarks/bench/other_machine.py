"""Rows of a list of experiments on a machine without the datasets, such as one with a GPU, within a time limit.

1. Here, ``python -m benchmarks.bench.other_machine pack FOLDER SETTING...`` stores the windows of the subjects in FOLDER.
2. There, ``python -m benchmarks.bench.other_machine compute FOLDER OUT`` trains the source models of these settings and
   runs the methods; ``--minutes`` ends it with whatever is finished. OUT gets archives of rows and models.
3. Here, unpack the archives into the folder of ``sight bench run LIST -o RUNS``, which continues with them.

Rows are those of ``sight bench run``: they are named by the content of the windows, not by the machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import subprocess
import time
from bisect import insort
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import sight.datasets
from sight.apps.bench.experiment_lists import load_list
from sight.apps.bench.experiments import load_experiment
from sight.apps.bench.settings import load_setting
from sight.apps.bench.trial_data import Job
from sight.apps.bench.trial_rows import canonical_json, hash_key
from sight.apps.bench.trials import Experiment, Setting, Trial, model_identity, setting_of, trials
from sight.apps.bench.worker import run_trial, train_source

LIST = "results"
PLAN = "plan.pickle"
#: Pieces of an archive, in bytes.
PIECE_BYTES = 15 << 20
#: Source models in the archive.
MODELS = 42
#: Experiments whose source models come first.
FIRST = ("table-main", "days")
Group = list[tuple[Trial, Job]]


class Task(NamedTuple):
    """Work of one process; `then` are the groups of trials that a source model allows."""

    priority: tuple[bool, bool, int]
    function: Callable[[Group], list[str]]
    group: Group
    then: list[Group]


def file_name(dataset: Any, subject: str, windowing: dict[str, Any]) -> str:
    key = hash_key(dataset.name, dataset._options(), {**dataset.windowing(**windowing)})
    return f"{dataset.name}-{subject}-{key}.pickle"


def pack(folder: Path, chosen: list[str]) -> None:
    """Store the windows of every subject of the settings, in every order of theirs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        setting = load_setting(name)
        subjects = sorted({subject for sources, target in setting.pairs for subject in (*sources, target)})
        for order in ({}, *setting.orders.values()):
            dataset = sight.datasets.load(setting.dataset, **{**setting.options, **order})
            for subject in subjects:
                path = folder / file_name(dataset, subject, dict(setting.windowing))
                if not path.exists():
                    windows = sight.datasets.windows_of(dataset, subject, **setting.windowing)
                    path.write_bytes(pickle.dumps(windows, protocol=5))
    plan = [
        (load_experiment(experiment), load_setting(setting, pairs=load_experiment(experiment).pairs))
        for experiment, setting in load_list(LIST).runs
        if setting in chosen
    ]
    (folder / PLAN).write_bytes(pickle.dumps(plan))


def use_packed_windows(folder: Path) -> None:
    """Let the benchmark read windows from the folder, in this process."""

    @cache
    def read(path: Path) -> Any:
        return pickle.loads(path.read_bytes())  # noqa: S301 - written by `pack`

    def windows_of(dataset: Any, subject: str, **windowing: Any) -> Any:
        return read(folder / file_name(dataset, subject, windowing))

    sight.datasets.windows_of = windows_of
    sight.recordings.recording_collection.windows_of = windows_of


def tasks(plan: list[tuple[Experiment, Setting]], out: Path, device: str) -> list[Task]:
    """Return the source models, each with the trials of all experiments by target subject; the first to run first."""
    found: dict[Any, dict[str, Group]] = {}
    for experiment, setting in plan:
        job = Job(experiment=experiment, setting=setting, out=out, device=device)
        data = canonical_json([setting.dataset, setting.options, setting.windowing])
        for trial in trials(experiment, setting):
            own = (data, *model_identity(trial, experiment, setting))
            found.setdefault(own, {}).setdefault(trial.target, []).append((trial, job))
    ordered = []
    for targets in found.values():
        trial, job = first = next(iter(targets.values()))[0]
        late = not any(job.experiment.name in FIRST for group in targets.values() for _, job in group)
        epochs = setting_of(trial, job.experiment, job.setting).epochs
        ordered.append(Task((late, False, -epochs * len(trial.sources)), train, [first], list(targets.values())))
    return ordered


def train(group: Group) -> list[str]:
    """Train the source model of a trial, and return the error, if any."""
    trial, job = group[0]
    error = train_source([trial], job)
    return [error] if error else []


def run(group: Group) -> list[str]:
    """Run the trials of a source model on a target subject, and return the errors."""
    return [str(failure) for trial, job in group for failure in run_trial(trial, job).failures]


def compute(folder: Path, out: Path, args: argparse.Namespace) -> None:
    """Run tasks until the time is over, and write the archives."""
    deadline = time.time() + 60 * args.minutes
    plan = pickle.loads((folder / PLAN).read_bytes())  # noqa: S301 - written by `pack`
    waiting = sorted(tasks(plan, args.runs.resolve(), args.device), key=lambda task: task.priority)
    print(len(waiting), "source models,", sum(len(task.then) for task in waiting), "groups of trials", flush=True)
    running: dict[Any, Task] = {}
    errors: list[str] = []
    done = [0, 0]
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(args.jobs, context, use_packed_windows, (folder,))
    while (waiting or running) and time.time() < deadline:
        while waiting and len(running) < args.jobs:
            task = waiting.pop(0)
            running[pool.submit(task.function, task.group)] = task
        for future in wait(running, deadline - time.time(), FIRST_COMPLETED).done:
            task = running.pop(future)
            errors += future.result()
            done[not task.then] += 1
            for group in task.then:
                insort(waiting, Task((task.priority[0], True, -len(group)), run, group, []), key=lambda task: task.priority)
        if sum(done) % 20 == 0:
            print(f"{time.time() + 60 * args.minutes - deadline:.0f} s", *done, len(waiting), flush=True)
    for process in pool._processes.values():
        process.kill()
    out.mkdir(parents=True, exist_ok=True)
    (out / "errors.json").write_text(json.dumps(errors, indent=1))
    print(len(errors), "errors;", len(waiting), "tasks left", flush=True)
    archive(args.runs, out)


def archive(runs: Path, out: Path) -> None:
    """Write all rows, and the source models that were trained first as far as there is room, as compressed pieces."""
    models = sorted((runs / "models").glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
    parts = {"rows": ["rows"], "models": [f"models/{path.name}" for path in models[:MODELS]]}
    for name, paths in parts.items():
        command = f"tar -cf - {' '.join(paths)} | xz -T0 -1 | split -b {PIECE_BYTES} - {out.resolve()}/{name}.tar.xz."
        subprocess.run(command, shell=True, cwd=runs, check=True)  # noqa: S602 - no user input


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("pack", "compute"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("rest", nargs="+")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--minutes", type=float, default=8.5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    if given.action == "pack":
        pack(given.folder, given.rest)
    else:
        compute(given.folder, Path(given.rest[0]), given)
