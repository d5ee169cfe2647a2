"""Source models and rows of ``sight bench run results`` on a machine with a GPU and without the datasets.

``pack FOLDER SETTING...`` runs here: it stores the windows of these settings and the plan in FOLDER.
``compute FOLDER OUT`` runs there, for at most ``--minutes``: it trains the source models, runs the methods, and writes
archives of the rows and of the models that were trained first to OUT. The next call continues in the same ``--runs``.
Unpacked into the folder RUNS, they are where ``sight bench run results -o RUNS`` continues, here or there: rows and
models are named by the content of the windows and by the code, not by the machine.
"""

from __future__ import annotations

import argparse
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
import sight.recordings.recording_collection
from sight.apps.bench.experiment_lists import load_list
from sight.apps.bench.experiments import load_experiment
from sight.apps.bench.settings import load_setting
from sight.apps.bench.trial_data import Job
from sight.apps.bench.trial_rows import canonical_json, hash_key
from sight.apps.bench.trials import Experiment, Setting, Trial, model_identity, setting_of, trials
from sight.apps.bench.worker import run_trial, train_source

LIST = "results"
PLAN = "plan.pickle"
#: Experiments whose source models come first.
FIRST = ("table-main", "days")
#: Size of the pieces of an archive.
PIECE_BYTES = 15 << 20

Plan = list[tuple[Experiment, Setting]]
Group = list[tuple[Trial, Job]]


class Task(NamedTuple):
    """Work of one process; `then` are the groups of trials that a source model allows."""

    priority: tuple[bool, bool, int]  # late, trials, minus the size
    function: Callable[[Group], list[str]]
    group: Group
    then: list[Group]


def pack(folder: Path, chosen: list[str]) -> None:
    """Store the windows of every subject of the settings, in every order of theirs, and the experiments on them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        setting = load_setting(name)
        subjects = sorted({subject for sources, target in setting.pairs for subject in (*sources, target)})
        for order in ({}, *setting.orders.values()):
            dataset = sight.datasets.load(setting.dataset, **{**setting.options, **order})
            for subject in subjects:
                path = folder / file_name(dataset, subject, setting.windowing)
                if not path.exists():
                    windows = sight.datasets.windows_of(dataset, subject, **setting.windowing)
                    path.write_bytes(pickle.dumps(windows, protocol=5))
    plan: Plan = []
    for name, setting_name in load_list(LIST).runs:
        if setting_name in chosen:
            experiment = load_experiment(name)
            plan.append((experiment, load_setting(setting_name, pairs=experiment.pairs)))
    (folder / PLAN).write_bytes(pickle.dumps(plan))


def file_name(dataset: Any, subject: str, windowing: Any) -> str:
    return f"{dataset.name}-{subject}-{hash_key(dataset, windowing)}.pickle"


def use_packed_windows(folder: Path) -> None:
    """Let the benchmark of this process read windows from the folder instead of the files of the datasets."""

    @cache
    def read(path: Path) -> Any:
        return pickle.loads(path.read_bytes())

    def windows_of(dataset: Any, subject: str, **windowing: Any) -> Any:
        return read(folder / file_name(dataset, subject, windowing))

    sight.datasets.windows_of = sight.recordings.recording_collection.windows_of = windows_of


def tasks(plan: Plan, runs: Path, device: str) -> list[Task]:
    """Return a task for each source model, with the trials of all experiments by target subject."""
    found: dict[Any, dict[str, Group]] = {}
    for experiment, setting in plan:
        job = Job(experiment=experiment, setting=setting, out=runs, device=device)
        data = canonical_json([setting.dataset, setting.options, setting.windowing])
        for trial in trials(experiment, setting):
            own = (data, *model_identity(trial, experiment, setting))
            found.setdefault(own, {}).setdefault(trial.target, []).append((trial, job))
    listed = []
    for targets in found.values():
        trial, job = first = next(iter(targets.values()))[0]
        late = not any(job.experiment.name in FIRST for group in targets.values() for _, job in group)
        size = setting_of(trial, job.experiment, job.setting).epochs * len(trial.sources)
        listed.append(Task((late, False, -size), train, [first], list(targets.values())))
    return sorted(listed, key=lambda task: task.priority)


def train(group: Group) -> list[str]:
    """Train the source model of a trial, and return the error, if any."""
    trial, job = group[0]
    error = train_source([trial], job)
    return [error] if error else []


def run(group: Group) -> list[str]:
    """Run the methods of all trials, and return the errors."""
    return [str(failure) for trial, job in group for failure in run_trial(trial, job).failures]


def compute(folder: Path, runs: Path, *, only: list[str], device: str, jobs: int, deadline: float) -> None:
    """Run tasks in processes until all are finished or the time is over; print what was done."""
    plan: Plan = pickle.loads((folder / PLAN).read_bytes())
    waiting = tasks([own for own in plan if not only or own[0].name in only], runs.resolve(), device)
    print(len(waiting), "source models,", sum(len(task.then) for task in waiting), "groups of trials", flush=True)
    running: dict[Any, Task] = {}
    done, errors = 0, []
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), use_packed_windows, (folder,))
    while (waiting or running) and time.time() < deadline:
        while waiting and len(running) < jobs:
            task = waiting.pop(0)
            running[pool.submit(task.function, task.group)] = task
        for future in wait(running, deadline - time.time(), FIRST_COMPLETED).done:
            task = running.pop(future)
            errors += future.result()
            done += 1
            for group in task.then:
                new = Task((task.priority[0], True, -len(group)), run, group, [])
                insort(waiting, new, key=lambda task: task.priority)
        if done % 50 == 0:
            print(f"{done} tasks finished, {deadline - time.time():.0f} s left", flush=True)
    for process in list(pool._processes.values()):  # the time is over: what runs is computed again by the next call
        process.kill()
    print(f"{done} tasks finished, {len(waiting) + len(running)} left, {len(errors)} errors", *errors[:5], sep="\n")


def archive(runs: Path, out: Path, models: int) -> None:
    """Write compressed pieces of all rows and of the source models that were trained first."""
    out.mkdir(parents=True, exist_ok=True)
    files = sorted((runs / "models").glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
    parts = {"rows": ["rows"], "models": [f"models/{path.name}" for path in files[:models]]}
    for name, paths in parts.items():
        if all((runs / path).exists() for path in paths):
            pieces = f"split -b {PIECE_BYTES} - {out.resolve()}/{name}.tar.xz."
            command = f"tar -cf - {' '.join(paths)} | xz -T0 -1 | {pieces}"
            subprocess.run(command, shell=True, cwd=runs, check=True)


def main() -> None:
    """Read the command line and run the action."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    packing = actions.add_parser("pack")
    packing.add_argument("folder", type=Path)
    packing.add_argument("settings", nargs="+")
    computing = actions.add_parser("compute")
    computing.add_argument("folder", type=Path)
    computing.add_argument("out", type=Path)
    computing.add_argument("--runs", type=Path, default=Path("runs"), help="folder of rows and models")
    computing.add_argument("--only", nargs="*", default=[], help="only these experiments")
    computing.add_argument("--models", type=int, default=40, help="source models in the archive")
    computing.add_argument("--minutes", type=float, default=9.0)
    computing.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    computing.add_argument("--device", default="cuda")
    args = parser.parse_args()
    if args.action == "pack":
        pack(args.folder, args.settings)
        return
    deadline = time.time() + 60 * args.minutes
    compute(args.folder, args.runs, only=args.only, device=args.device, jobs=args.jobs, deadline=deadline)
    archive(args.runs, args.out, args.models)


if __name__ == "__main__":
    main()
