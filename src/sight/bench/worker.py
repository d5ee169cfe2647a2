"""What a process of the benchmark does: trains a source, answers a trial, keeps each row.

A row is the answer of one method on one trial. It lies in a file of its own, named after all that decides it in data
and in this package (the windows, the source model, the order of the stream, the method with its settings, the scores,
and for each of them the code it stands on) and written whole. So a run that was killed goes on where it stopped, and
experiments share the rows they have in common.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import time
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from sight import registry
from sight._version import __version__
from sight.atomic import write_atomic
from sight.base import Adapter
from sight.bench.analyses import ANALYSES
from sight.bench.plan import Experiment, Setting, Trial, Variant, key, text
from sight.bench.source_models import Recipe, batch_for, content, source_model
from sight.bench.stream_orders import ordered
from sight.card import filled
from sight.fingerprint import class_fingerprint, module_fingerprint
from sight.smoothing import rule_of
from sight.types import Array, Windows

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all trials of a run share."""

    experiment: Experiment
    setting: Setting
    out: Path
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A row that could not be made, and why."""

    label: str
    trial: str
    error: str

    def __str__(self) -> str:
        return f"{self.label} on {self.trial}: {self.error}"


def make(variant: Variant) -> Adapter:
    """Make the adapter of a variant: explicit fields win over the preset, the preset over the class."""
    from sight.methods.presets import resolve

    cls = registry.get("methods", variant.method)
    fields = dict(variant.fields)
    if variant.rule is not None and "rule" in {field.name for field in dataclasses.fields(cls)}:
        fields.setdefault("rule", variant.rule)
    made: Adapter = cls(**(fields if variant.preset is None else resolve(variant.method, variant.preset, **fields)))
    return made


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """The people of a trial, before anything is trained or answered."""

    dataset: Any
    sources: list[Windows]
    target: Windows
    recipe: Recipe
    trial: Trial
    job: Job

    @cached_property
    def source_data(self) -> str:
        """Hash of the people of the source."""
        return content(self.sources)

    @cached_property
    def target_data(self) -> str:
        """Hash of the person of the target."""
        return content([self.target])

    @cached_property
    def model_name(self) -> str:
        """Name of the trained source."""
        return self.recipe.name(self.source_data)

    def path(self, variant: Variant) -> Path:
        """File of one row, named after all that decides it."""
        adapter = make(variant)
        setting, kind = self.job.setting, self.job.experiment.kind
        order = (self.trial.order, setting.use_gaps, module_fingerprint("sight.bench.stream_orders"))
        stream = (self.target_data, self.target.stride_s, *order)
        method = (
            variant.method,
            adapter.params(),
            class_fingerprint(type(adapter)),
            *([variant.lag] if variant.lag else []),
        )
        name = key(kind, self.model_name, stream, method, module_fingerprint("sight.bench.analyses"), __version__)
        return self.job.out / "rows" / name[:2] / f"{name}.json"

    def source(self) -> Any:
        """Return the trained model."""
        return source_model(self.recipe, self.sources, self.dataset, self.job.out / "models")


@lru_cache(maxsize=32)
def _person(dataset: str, options: str, windowing: str, who: str) -> Windows:
    """Read a person once for all trials of a process that follow each other; options come as JSON."""
    from sight.datasets import load, windows_of

    return windows_of(load(dataset, **json.loads(options)), who, **json.loads(windowing))


def _stage(trial: Trial, job: Job) -> _Stage:
    from sight.datasets import load

    setting = job.setting
    dataset = load(setting.dataset, **setting.options)
    corpus = (setting.dataset, text(setting.options), text(setting.windowing))
    sources = [_person(*corpus, who) for who in trial.sources]
    recipe = Recipe(
        classes=tuple(dataset.classes),
        encoder=trial.encoder,
        epochs=setting.epochs,
        batch=batch_for(setting.batch, sources),
        seed=trial.seed,
        device=job.device,
    )
    target = _person(*corpus, trial.target)
    return _Stage(dataset=dataset, sources=sources, target=target, recipe=recipe, trial=trial, job=job)


def prepare(group: list[Trial], job: Job) -> None:
    """Train the source that some trials share, if a row of theirs is missing; errors are told by `answer`."""
    try:
        for trial in group:
            stage = _stage(trial, job)
            if not all(stage.path(variant).is_file() for variant in job.experiment.variants):
                stage.source()
                return
    except Exception:  # the trial itself meets the same error, and names it
        pass


def answer(trial: Trial, job: Job, only_finished: bool = False) -> tuple[list[Row], list[Failure]]:
    """Return the rows of all methods on one trial, those that are missing made now or left out."""
    variants = job.experiment.variants
    try:
        stage = _stage(trial, job)
        paths = {variant.label: stage.path(variant) for variant in variants}
        missing = [] if only_finished else [v for v in variants if not paths[v.label].is_file()]
        failures = _fill(stage, missing, paths)
    except Exception as error:  # whatever it is, the other trials go on and the report names it
        return [], [Failure(label=v.label, trial=str(trial), error=_told(error)) for v in variants]
    rows = [
        _names(stage, variant, at) | json.loads(paths[variant.label].read_text("utf-8"))
        for at, variant in enumerate(variants)
        if paths[variant.label].is_file()
    ]
    return rows, failures


def _fill(stage: _Stage, missing: list[Variant], paths: dict[str, Path]) -> list[Failure]:
    if not missing:
        return []
    from sight.train import one_thread

    failures = []
    with one_thread():
        source = stage.source()
        windows = ordered(stage.target, stage.trial, use_gaps=stage.job.setting.use_gaps)
        # Sensors that were off leave NaN; the source fills them itself, methods that step through windows cannot.
        windows = replace(windows, x=filled(windows.x, source.card.fill))
        encoded = source.encode(windows.x)
        for variant in missing:
            try:
                row = _row(stage, variant, source, windows, encoded)
                write_atomic(paths[variant.label], json.dumps(row, default=_json).encode())
            except Exception as error:  # a method of anybody's may fail in any way
                failures.append(Failure(label=variant.label, trial=str(stage.trial), error=_told(error)))
    return failures


def _row(stage: _Stage, variant: Variant, source: Any, windows: Windows, encoded: tuple[Array, Array]) -> Row:
    """Run one method; what is told here follows from the name of the row alone."""
    adapter = make(variant).bind(source)
    began = time.perf_counter()
    waiting = {"lag": variant.lag} if variant.lag else {}
    scores = ANALYSES[stage.job.experiment.kind](adapter, windows, encoded, **waiting)
    seconds = time.perf_counter() - began
    return {
        "params": adapter.params(),
        "rule": rule_of(variant.lag) if variant.lag else adapter.rule,
        "needs": dataclasses.asdict(adapter.needs) | {"batch": adapter.chunk is not None},
        "notes": list(adapter.notes()),
        "code": class_fingerprint(type(adapter)),
        "scores": scores,
        "state_bytes": adapter.state_bytes(),
        "training": dataclasses.asdict(stage.recipe) | {"windows": source.card.training["windows"]},
        "source_data": stage.source_data,
        "target_data": stage.target_data,
        "seconds": round(seconds, 4),
        "versions": _versions(),
        "machine": platform.platform(),
    }


def _names(stage: _Stage, variant: Variant, place: int) -> Row:
    """Say what the plan calls a row; the same row may serve several experiments and settings."""
    experiment, setting, trial, dataset = stage.job.experiment, stage.job.setting, stage.trial, stage.dataset
    paper = "->".join(setting.paper_subject.format(who) for who in ("+".join(trial.sources), trial.target))
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "kind": experiment.kind,
        "ranked": experiment.ranked,
        "setting": setting.name,
        "dataset": dataset.name,
        "dataset_version": getattr(dataset, "version", ""),
        "options": dict(setting.options),
        "windowing": dict(setting.windowing),
        "label_map": {str(raw): name for raw, name in getattr(dataset, "label_map", {}).items()},
        "classes": list(dataset.classes),
        "window_s": stage.target.window_s,
        "stride_s": stage.target.stride_s,
        **dataclasses.asdict(trial),
        "gaps": setting.use_gaps,
        "label": variant.label,
        "place": place,
        "method": variant.method,
        "preset": variant.preset,
        "paper_table": experiment.paper,
        "paper_dataset": setting.paper,
        "paper_case": paper if setting.paper else "",
    }


# --- help ----------------------------------------------------------------------------------------------------------


def _json(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _versions() -> dict[str, str]:
    found = {"sight": __version__, "python": platform.python_version()}
    for package in ("numpy", "torch", "numba", "scipy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = ""
    return found
