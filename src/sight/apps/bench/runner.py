"""Parallel, resumable runs of experiments.

Source models are trained first, then the methods run on every trial; both are distributed over processes, whose work is
in `sight.apps.bench.worker`.
"""

import itertools
from collections.abc import Callable
from pathlib import Path

from sight._util.parallel import map_unordered
from sight.apps.bench.trial_data import Job
from sight.apps.bench.trial_rows import Row
from sight.apps.bench.trials import Experiment, Setting, Trial, model_identity, trials
from sight.apps.bench.worker import Failure, TrialResult, run_trial, train_source


def run(
    experiment: Experiment,
    setting: Setting,
    out: Path,
    *,
    engine: str = "loky",
    jobs: int | None = None,
    device: str = "cpu",
    only_finished: bool = False,
    on_done: Callable[[int, str], None] | None = None,
    on_absent: Callable[[Trial], None] | None = None,
) -> tuple[list[Row], list[Failure]]:
    """Compute the missing rows of an experiment, and return all its rows and failures.

    `out` is the folder of rows and models; the same folder resumes. With `only_finished` nothing is computed, and the
    rows that exist are returned. `on_done` gets the number of finished steps, of those `count_steps` counts, and their
    name; `on_absent` each trial without rows because the target subject lacks windows for its stream.
    """
    job = Job(experiment=experiment, setting=setting, out=Path(out).resolve(), device=device)
    planned, groups = _plan(experiment, setting, only_finished)
    done = itertools.count(1)
    errors: dict[Trial, str] = {}
    for at, error in map_unordered(train_source, [(group, job) for group in groups], engine, jobs):
        errors |= dict.fromkeys(groups[at], error)
        if on_done:
            on_done(next(done), "training")
    found: dict[int, TrialResult] = {}
    tasks = [(trial, job, only_finished, errors.get(trial, "")) for trial in planned]
    for index, result in map_unordered(run_trial, tasks, engine, jobs):
        found[index] = result
        if result.absent and on_absent:
            on_absent(planned[index])
        if on_done:
            on_done(next(done), "collecting" if only_finished else "adapting")
    ordered = sorted(found.items())
    rows = [{"trial": index} | row for index, result in ordered for row in result.rows]
    return rows, [failure for _, result in ordered for failure in result.failures]


def count_steps(experiment: Experiment, setting: Setting, *, only_finished: bool = False) -> int:
    planned, groups = _plan(experiment, setting, only_finished)
    return len(planned) + len(groups)


def count_rows(experiment: Experiment, setting: Setting) -> int:
    """Count the rows of a complete run, those of absent streams included."""
    return len(experiment.variants) * sum(1 for _ in trials(experiment, setting))


def _plan(experiment: Experiment, setting: Setting, only_finished: bool) -> tuple[list[Trial], list[list[Trial]]]:
    """Return all trials, and the same grouped by source model; no groups if nothing is to be trained."""
    planned = list(trials(experiment, setting))
    groups = itertools.groupby(planned, key=lambda trial: model_identity(trial, experiment, setting))
    return planned, [] if only_finished else [list(group) for _, group in groups]
