"""Runs experiments: in parallel, resumable, every finished row kept.

A row is the answer of one method on one trial. It lies in a file of its own, named after all that decides it and
written whole, so a run that was killed goes on where it stopped, and experiments share the rows they have in common.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sight import registry
from sight._version import __version__
from sight.bench.models import source_model
from sight.bench.plan import Experiment, Setting, Trial, Variant, key, trials
from sight.types import Array, Windows

#: Windows that stay together when a stream is shuffled in blocks.
BLOCK = 32

Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where rows and models are kept."""

    out: Path

    @property
    def models(self) -> Path:
        """Folder of trained sources."""
        return self.out / "models"

    def row(self, trial: Trial, variant: Variant, kind: str) -> Path:
        """File of one row."""
        name = row_key(trial, variant, kind)
        return self.out / "rows" / name[:2] / f"{name}.json"


def row_key(trial: Trial, variant: Variant, kind: str) -> str:
    """Name a row after all that decides it: trial, method, resolved settings, version of the package."""
    return key(trial, variant.method, make(variant).settings(), kind, __version__)


def make(variant: Variant) -> Any:
    """Make the adapter of a variant, its preset resolved into fields."""
    preset = {} if variant.preset is None else {"preset": variant.preset}
    return registry.method(variant.method, **preset, **variant.fields)


def run(
    experiment: Experiment,
    setting: Setting,
    out: Path,
    *,
    engine: str = "loky",
    jobs: int | None = None,
    device: str = "cpu",
    on_done: Callable[[int, int], None] | None = None,
) -> tuple[Rows, list[str]]:
    """Run what is not there yet, and return all rows of the experiment and a sentence for each that failed.

    Parameters
    ----------
    experiment, setting
        What is compared, and on whom.
    out
        Folder of rows and models; the same folder resumes.
    engine
        "loky" for the cores of this machine, "dask:local:N" or "dask:ADDRESS" for a cluster, "serial" for none.
    jobs
        Worker processes of "loky"; all cores by default.
    device
        Where sources are trained.
    on_done
        Called with rows finished and rows in all.
    """
    places = Places(out=out)
    planned = list(trials(experiment, setting))
    groups = [list(group) for _, group in itertools.groupby(planned, key=Trial.model)]
    total, done = len(planned) * len(experiment.variants), 0
    failures: list[str] = []
    work = [(group, experiment, places, device) for group in groups]
    for finished, failed in _spread(_group, work, engine, jobs):
        done += finished
        failures += failed
        if on_done:
            on_done(done, total)
    return collect(experiment, planned, places), failures


def collect(experiment: Experiment, planned: Sequence[Trial], places: Places) -> Rows:
    """Read all rows of an experiment that are there, in the order of its plan."""
    rows: Rows = []
    for trial, variant in itertools.product(planned, experiment.variants):
        path = places.row(trial, variant, experiment.kind)
        if path.is_file():
            named = {"experiment": experiment.name, "label": variant.label}
            rows.append(named | json.loads(path.read_text("utf-8")))
    return rows


def _group(group: list[Trial], experiment: Experiment, places: Places, device: str) -> tuple[int, list[str]]:
    """Run all trials of one source model; returns rows that are there now, and what failed."""
    wanted = [(t, v, places.row(t, v, experiment.kind)) for t in group for v in experiment.variants]
    missing = [(t, v, path) for t, v, path in wanted if not path.is_file()]
    if not missing:
        return len(wanted), []
    import torch

    from sight.datasets import load, windows_of

    torch.set_num_threads(1)  # so that the same seed gives the same model, and workers do not fight for cores
    dataset = load(group[0].dataset, **group[0].options)
    people = {name: windows_of(dataset, name) for name in group[0].sources}
    source = source_model(group[0], people, dataset, places.models, device)
    failed = []
    for trial, block in itertools.groupby(missing, key=lambda entry: entry[0]):
        windows = ordered(windows_of(dataset, trial.target), trial)
        encoded = source.encode(windows.x)
        for _, variant, path in block:
            try:
                _keep(path, _row(trial, variant, experiment.kind, source, windows, encoded))
            except (ValueError, TypeError, RuntimeError) as error:
                failed.append(f"{variant.label} on {trial.setting} {'+'.join(trial.sources)}->{trial.target}: {error}")
    return len(wanted) - len(failed), failed


def _row(
    trial: Trial, variant: Variant, kind: str, source: Any, windows: Windows, encoded: tuple[Array, Array]
) -> dict[str, Any]:
    from sight.bench.analyses import ANALYSES

    adapter = make(variant).bind(source)
    began = time.perf_counter()
    found = ANALYSES[kind](adapter, windows, encoded)
    return {
        **asdict(trial),
        "method": variant.method,
        "preset": variant.preset,
        "settings": adapter.settings(),
        "rule": adapter.rule,
        "window_s": windows.window_s,
        "stride_s": windows.stride_s,
        "classes": list(source.classes),
        "scores": found,
        "state_bytes": adapter.state_bytes(),
        "seconds": round(time.perf_counter() - began, 3),
        "versions": {"sight": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "machine": platform.machine(),
        "trained": {k: source.card.training[k] for k in ("device", "torch", "windows", "epochs", "batch")},
    }


def ordered(windows: Windows, trial: Trial) -> Windows:
    """Put a stream into the order of a trial; without gaps, recordings are joined as the paper joins them."""
    n = len(windows)
    rng = np.random.default_rng(trial.seed)
    if trial.order == "chronological":
        index = np.arange(n)
    elif trial.order == "blocks":
        blocks = np.array_split(np.arange(n), range(BLOCK, n, BLOCK))
        index = np.concatenate([blocks[i] for i in rng.permutation(len(blocks))])
    else:
        index = rng.permutation(n)
    gaps = windows.gap_before_s if trial.use_gaps and trial.order == "chronological" else np.zeros(n)
    return replace(
        windows, x=windows.x[index], label=windows.label[index], gap_before_s=gaps, wear=None, time_s=windows.time_s
    )


def _keep(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(row, default=float), "utf-8")
    draft.replace(path)


def _spread(function: Callable[..., Any], work: Sequence[tuple[Any, ...]], engine: str, jobs: int | None) -> Iterator[Any]:
    """Run a function over its arguments on an engine, results as they come."""
    if engine == "serial":
        yield from (function(*arguments) for arguments in work)
        return
    import joblib

    with _backend(engine, jobs):
        yield from joblib.Parallel(return_as="generator_unordered")(joblib.delayed(function)(*args) for args in work)


def _backend(engine: str, jobs: int | None) -> Any:
    import joblib

    if engine == "loky":
        return joblib.parallel_config(backend="loky", n_jobs=jobs or -1, inner_max_num_threads=1)
    kind, _, place = engine.partition(":")
    if kind != "dask" or not place:
        raise ValueError(f"Expected --engine loky, serial, dask:local:N or dask:ADDRESS, got {engine!r}.")
    from distributed import Client, LocalCluster

    if place.startswith("local:"):
        Client(LocalCluster(n_workers=int(place.removeprefix("local:")), threads_per_worker=1))
    else:
        Client(place)
    return joblib.parallel_config(backend="dask")
