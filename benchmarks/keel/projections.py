"""Store what Keel uses of the windows of every subject, for each source model of the main settings.

Run as ``python -m benchmarks.keel.projections RUNS OUT`` with the folder of ``sight bench run table-main`` on the main
settings. Its source models are used; missing ones are trained and stored there. Writes one file for each model,
OUT/SETTING_NUMBER.npz, with projections of the features instead of the features themselves.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from sight._util.parallel import map_unordered
from sight.apps.bench.experiments import load_experiment, narrow
from sight.apps.bench.settings import load_setting, setting_group
from sight.apps.bench.trial_data import Job, load_trial
from sight.apps.bench.trials import Trial, model_identity, trials
from sight.datasets import windows_of
from sight.models.train import one_thread


def source_models(runs: Path, setting_name: str, seeds: list[int] | None = None) -> list[tuple[Trial, Job]]:
    """Return a trial for each source model of a setting, of some seeds or all."""
    experiment = narrow(load_experiment("table-main"), seeds=seeds)
    job = Job(experiment=experiment, setting=load_setting(setting_name), out=runs.resolve())
    found = {model_identity(trial, job.experiment, job.setting): trial for trial in trials(job.experiment, job.setting)}
    return [(trial, job) for trial in found.values()]


def store(trial: Trial, job: Job, path: Path) -> None:
    """Encode every subject of the dataset with the source model of a trial, and store the projections."""
    data, setting = load_trial(trial, job), job.setting
    subjects = data.dataset.subjects()
    with one_thread():
        source = data.source()
        windows = [windows_of(data.dataset, subject, **setting.windowing) for subject in subjects]
        z = np.concatenate([source.encode(own.x)[0] for own in windows])
    np.savez(
        path,
        setting=setting.name,
        seed=trial.seed,
        classes=data.recipe.classes,
        sedentary=setting.sedentary,
        subjects=[subjects.index(name) for name in trial.sources],
        labels=np.concatenate([own.label for own in windows]),
        counts=[len(own.label) for own in windows],
        **projections(z, source),
    )


def projections(z: np.ndarray, source: Any) -> dict[str, np.ndarray]:
    """Return all that a method which is linear in the features can use, and the constants of the source model."""
    stats, weight, bias = source.stats, np.asarray(source.weight), np.asarray(source.bias)
    centred = stats.class_means.astype(np.float64) - stats.feature_mean
    length = np.maximum(np.linalg.norm(centred, axis=1), 1e-9)
    offset, logits = z - stats.feature_mean, z @ weight.T + bias
    return {
        "logits": (logits - logits.mean(axis=1, keepdims=True)).astype(np.float16),
        "along": (offset @ (centred / length[:, None]).T).astype(np.float16),
        "square": np.einsum("nd,nd->n", offset, offset).astype(np.float32),
        "gram": (centred @ centred.T).astype(np.float32),
        "class_logits": (stats.class_means @ weight.T + bias).astype(np.float32),
        "mean_logits": (weight @ stats.feature_mean + bias).astype(np.float32),
        "prior": stats.prior,
    }


def main() -> None:
    """Distribute the source models over processes, and print each as it finishes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--settings", nargs="+", default=list(setting_group()))
    parser.add_argument("--seeds", nargs="+", type=int)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    work = [
        (trial, job, given.out / f"{name}_{number}.npz")
        for name in given.settings
        for number, (trial, job) in enumerate(source_models(given.runs, name, given.seeds))
    ]
    work = [task for task in work if not task[2].exists()]
    for count, (index, _) in enumerate(map_unordered(store, work, jobs=2), start=1):
        print(count, len(work), work[index][2].stem, flush=True)


if __name__ == "__main__":
    main()
