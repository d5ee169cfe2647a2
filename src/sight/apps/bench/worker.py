"""Work of one process of the benchmark: train a source model, run the methods of a trial, store each row.

A row is the result of one method on one trial. It is stored in a JSON file of its own, written atomically and named
after everything that determines it: the windows, the source model, the order of the stream, the method with its
hyper-parameters, the scores, and the code of this package behind each of them. A killed run therefore continues where
it stopped, and experiments share the rows they have in common.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sight import __version__, registry
from sight._util.atomic import write_atomic
from sight._util.code_fingerprint import class_fingerprint, module_fingerprint
from sight.apps.bench.analyses import ANALYSES
from sight.apps.bench.plan import Experiment, Setting, Trial, Variant, canonical_json, hash_key
from sight.apps.bench.source_models import Recipe, batch_size, data_hash, own_model, source_model
from sight.apps.bench.stream_orders import reorder, stream_index
from sight.apps.bench.timing import package_versions
from sight.base import Adapter
from sight.models.card import filled
from sight.results.smoothing import rule_of
from sight.types import Array, Windows

Row = dict[str, Any]
#: Packages whose versions are part of a row.
PACKAGES = ("numpy", "torch", "numba", "scipy")
#: Encoding of the latest target by the latest source model, which the streams of a target share.
_ENCODING: dict[tuple[str, str], tuple[Array, Array]] = {}


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all trials of a run share."""

    experiment: Experiment
    setting: Setting
    out: Path
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A row that could not be computed, with the error."""

    label: str
    trial: str
    error: str

    def __str__(self) -> str:
        return f"{self.label} on {self.trial}: {self.error}"


class TrialResult(NamedTuple):
    """Rows and failures of a trial; neither if the target subject lacks windows for the stream (`absent`)."""

    rows: list[Row]
    failures: list[Failure]
    absent: bool = False


def make_adapter(variant: Variant) -> Adapter:
    """Create the adapter of a variant; its fields override the preset, the preset overrides the class defaults."""
    cls = registry.get("methods", variant.method)
    fields = dict(variant.fields)
    if variant.rule is not None and "rule" in {field.name for field in dataclasses.fields(cls)}:
        fields.setdefault("rule", variant.rule)
    made: Adapter = registry.method(variant.method, variant.preset, **fields)
    return made


@dataclass(frozen=True, kw_only=True)
class TrialData:
    """Windows and training recipe of a trial."""

    dataset: Any
    sources: list[Windows]
    target: Windows
    recipe: Recipe
    trial: Trial
    job: Job

    @cached_property
    def source_hash(self) -> str:
        """Hash of the source subjects' windows."""
        return data_hash(self.sources)

    @cached_property
    def target_hash(self) -> str:
        """Hash of the target subject's windows."""
        return data_hash([self.target])

    @cached_property
    def index(self) -> Array | None:
        """Window of the target at each position of the stream; None if the target lacks windows for it."""
        return stream_index(self.target.label, self.trial, self.job.setting, self.recipe.classes)

    @cached_property
    def index_hash(self) -> str:
        """Hash of the order of windows."""
        return hashlib.blake2b(np.asarray(self.index, np.int64).data, digest_size=12).hexdigest()

    @cached_property
    def model_name(self) -> str:
        """Name of the source model, which depends on everything that determines it."""
        if self.job.setting.model:
            return hashlib.blake2b(Path(self.job.setting.model).read_bytes(), digest_size=12).hexdigest()
        return self.recipe.model_name(self.source_hash)

    def row_path(self, variant: Variant) -> Path:
        """Return the file of one row, named after everything that determines it."""
        adapter = make_adapter(variant)
        setting, kind = self.job.setting, self.job.experiment.kind
        code = module_fingerprint("sight.apps.bench.stream_orders")
        order = (self.trial.order, setting.use_gaps, self.index_hash, code)
        stream = (self.target_hash, self.target.stride_s, *order)
        lag = [variant.lag] if variant.lag else []
        method = (variant.method, adapter.params(), class_fingerprint(type(adapter)), *lag)
        scores = module_fingerprint("sight.apps.bench.analyses")
        name = hash_key(kind, self.model_name, stream, method, scores, __version__)
        return self.job.out / "rows" / name[:2] / f"{name}.json"

    def source(self) -> Any:
        """Return the trained source model."""
        if self.job.setting.model:
            return own_model(self.job.setting.model, self.recipe.classes)
        return source_model(self.recipe, self.sources, self.dataset, self.job.out / "models")

    def stream(self, source: Any, index: Array) -> tuple[Windows, tuple[Array, Array]]:
        """Return the windows of an index as a stream, and the source model's encoding of them."""
        # Sensors that were off leave NaN. The source fills them itself; methods that process raw windows cannot.
        target = replace(self.target, x=filled(self.target.x, source.card.fill))
        key = (self.model_name, self.target_hash)
        if key not in _ENCODING:
            _ENCODING.clear()
            _ENCODING[key] = source.encode(target.x)
        z, p = _ENCODING[key]
        natural = self.job.setting.use_gaps and self.trial.order == "chronological"
        return target if natural else reorder(target, index), (z[index], p[index])


@lru_cache(maxsize=32)
def _subject_windows(dataset: str, options: str, windowing: str, subject: str) -> Windows:
    """Return a subject's windows, cached for consecutive trials of a process; options are JSON."""
    from sight.datasets import load, windows_of

    return windows_of(load(dataset, **json.loads(options)), subject, **json.loads(windowing))


def _load(trial: Trial, job: Job) -> TrialData:
    from sight.datasets import load

    setting = job.setting
    dataset = load(setting.dataset, **setting.options)
    data = (setting.dataset, canonical_json(setting.options), canonical_json(setting.windowing))
    sources = [] if setting.model else [_subject_windows(*data, subject) for subject in trial.sources]
    recipe = Recipe(
        classes=tuple(dataset.classes),
        encoder=trial.encoder,
        epochs=0 if setting.model else setting.epochs,
        batch=batch_size(setting.batch, sources),
        seed=trial.seed,
        device=job.device,
    )
    target = _subject_windows(*data, trial.target)
    return TrialData(dataset=dataset, sources=sources, target=target, recipe=recipe, trial=trial, job=job)


def train_source(group: list[Trial], job: Job) -> None:
    """Train the source model that trials share if one of their rows is missing; errors are reported by `run_trial`."""
    try:
        for trial in group:
            data = _load(trial, job)
            if data.index is not None and not all(
                data.row_path(variant).is_file() for variant in job.experiment.variants
            ):
                data.source()
                return
    except Exception:  # the trial raises the same error and reports it
        pass


def run_trial(trial: Trial, job: Job, only_finished: bool = False) -> TrialResult:
    """Return the rows of all methods on one trial; missing rows are computed, or skipped if `only_finished`."""
    variants = job.experiment.variants
    try:
        data = _load(trial, job)
        if data.index is None:
            return TrialResult([], [], absent=True)
        paths = {variant.label: data.row_path(variant) for variant in variants}
        missing = [] if only_finished else [v for v in variants if _read_row(paths[v.label]) is None]
        failures = _compute(data, data.index, missing, paths)
    except Exception as error:  # other trials continue; the failure is reported
        return TrialResult([], [Failure(label=v.label, trial=str(trial), error=_message(error)) for v in variants])
    stored = [_read_row(paths[variant.label]) for variant in variants]
    rows = [
        _plan_columns(data, variant, position) | row
        for position, (variant, row) in enumerate(zip(variants, stored, strict=True))
        if row is not None
    ]
    return TrialResult(rows, failures)


def _write_row(path: Path, row: Row) -> None:
    plain = json.loads(json.dumps(row, default=_json))
    write_atomic(path, json.dumps(plain | {"digest": hash_key(path.stem, plain)}).encode())


def _read_row(path: Path) -> Row | None:
    """Return a stored row; None if there is none, or if it was damaged or altered."""
    try:
        row: Row = json.loads(path.read_text("utf-8"))
        digest = row.pop("digest")
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return row if digest == hash_key(path.stem, row) else None


def _compute(data: TrialData, index: Array, missing: list[Variant], paths: dict[str, Path]) -> list[Failure]:
    if not missing:
        return []
    from sight.models.train import one_thread

    failures = []
    with one_thread():
        source = data.source()
        windows, encoded = data.stream(source, index)
        for variant in missing:
            try:
                row = _result_columns(data, variant, source, windows, encoded)
                _write_row(paths[variant.label], row)
            except Exception as error:  # third-party methods may raise anything
                failures.append(Failure(label=variant.label, trial=str(data.trial), error=_message(error)))
    return failures


def _result_columns(
    data: TrialData, variant: Variant, source: Any, windows: Windows, encoded: tuple[Array, Array]
) -> Row:
    """Run one method, and return what the name of the row determines."""
    adapter = make_adapter(variant).bind(source)
    began = time.perf_counter()
    lag = {"lag": variant.lag} if variant.lag else {}
    scores = ANALYSES[data.job.experiment.kind](adapter, windows, encoded, **lag)
    seconds = time.perf_counter() - began
    return {
        "params": adapter.params(),
        "rule": rule_of(variant.lag) if variant.lag else adapter.rule,
        "needs": dataclasses.asdict(adapter.needs) | {"batch": adapter.chunk is not None},
        "notes": list(adapter.notes()),
        "code": class_fingerprint(type(adapter)),
        "scores": scores,
        "state_bytes": adapter.state_bytes(),
        "training": dataclasses.asdict(data.recipe) | {"windows": source.card.training.get("windows", 0)},
        "source_data": data.source_hash,
        "target_data": data.target_hash,
        "computed_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 4),
        "versions": {"sight": __version__, "python": platform.python_version()}
        | dict.fromkeys(PACKAGES, "")
        | package_versions(*PACKAGES),
        "machine": platform.platform(),
    }


def _plan_columns(data: TrialData, variant: Variant, position: int) -> Row:
    """Return what the plan adds to a row; the same row may belong to several experiments and settings."""
    experiment, setting, trial, dataset = data.job.experiment, data.job.setting, data.trial, data.dataset
    pair = "->".join(setting.paper_subject.format(name) for name in ("+".join(trial.sources), trial.target))
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
        "window_s": data.target.window_s,
        "stride_s": data.target.stride_s,
        **dataclasses.asdict(trial),
        "gaps": setting.use_gaps,
        "label": variant.label,
        "position": position,
        "method": variant.method,
        "preset": variant.preset,
        "paper_table": experiment.paper,
        "paper_dataset": setting.paper,
        "paper_pair": pair if setting.paper else "",
    }


def _json(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
