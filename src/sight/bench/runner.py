"""Runs experiments: in parallel, resumable, every finished row kept.

Sources are trained first, then every trial answers; both go to the processes of an engine. What they do there, and how
rows are kept, is in `sight.bench.worker`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from sight.bench.plan import Experiment, Setting, Trial, trials
from sight.bench.worker import Failure, Job, Row, answer, prepare
from sight.parallel import map_unordered


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
) -> tuple[list[Row], list[Failure]]:
    """Run what is not there yet, and return all rows of the experiment and what failed.

    Parameters
    ----------
    experiment, setting
        What is compared, and on whom.
    out
        Folder of rows and models; the same folder resumes.
    engine, jobs
        As in `sight.parallel.spread`.
    device
        Where sources are trained.
    only_finished
        Train and adapt nothing; return the rows that are there, such as those of a run that still goes on.
    on_done
        Called with the number of steps finished, of all that `steps` counts, and what they do.
    """
    job = Job(experiment=experiment, setting=setting, out=Path(out).resolve(), device=device)
    wanted, groups = _plan(experiment, setting, only_finished)
    done = itertools.count(1)
    for _ in map_unordered(prepare, [(group, job) for group in groups], engine, jobs):
        if on_done:
            on_done(next(done), "training")
    found: dict[int, tuple[list[Row], list[Failure]]] = {}
    for at, (own, failed) in map_unordered(answer, [(trial, job, only_finished) for trial in wanted], engine, jobs):
        found[at] = [{"trial": at} | row for row in own], failed
        if on_done:
            on_done(next(done), "adapting")
    rows, failures = zip(*(found[at] for at in sorted(found)), strict=True) if found else ((), ())
    return list(itertools.chain(*rows)), list(itertools.chain(*failures))


def steps(experiment: Experiment, setting: Setting, *, only_finished: bool = False) -> int:
    """Count sources to train and trials to answer."""
    wanted, groups = _plan(experiment, setting, only_finished)
    return len(wanted) + len(groups)


def planned(experiment: Experiment, setting: Setting) -> int:
    """Count the rows that a whole run has."""
    return len(experiment.variants) * sum(1 for _ in trials(experiment, setting))


def kept(out: Path) -> int:
    """Count the rows that are finished in a folder, of whatever experiment."""
    return len(list(out.glob("rows/*/*.json")))


def _plan(experiment: Experiment, setting: Setting, only_finished: bool) -> tuple[list[Trial], list[list[Trial]]]:
    """Return all trials, and the same by source model, of which none is trained where only finished rows count."""
    wanted = list(trials(experiment, setting))
    groups = itertools.groupby(wanted, key=lambda trial: (trial.encoder, trial.seed, trial.sources))
    return wanted, [] if only_finished else [list(same) for _, same in groups]
