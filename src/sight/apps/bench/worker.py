"""Work of one process of the benchmark: train a source model, run the methods of a trial, store each row.

Experiments share the rows they have in common, because a row is named by what determines it (`TrialData.row_path`).
"""

import importlib.metadata
import platform
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sight import __version__
from sight._util.code_hash import class_fingerprint
from sight.apps.bench.analyses import ANALYSES
from sight.apps.bench.trial_data import Job, TrialData, load_trial
from sight.apps.bench.trial_rows import Row, read_row, write_row
from sight.apps.bench.trials import Trial, Variant
from sight.results.smoothing import rule_of
from sight.types import Array, Windows

#: Packages whose versions are part of a row.
PACKAGES = ("numpy", "torch", "numba", "scipy")
#: What a row has from the training facts of a model's card, and the value where the card has none.
TRAINED = {"windows": 0, "device": ""}


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


def train_source(group: list[Trial], job: Job) -> str:
    """Train the source model that trials share if one of their rows is missing; return the error, empty if none."""
    for trial in group:
        try:
            data = load_trial(trial, job)
            if data.index is None or all(data.row_path(v).is_file() for v in job.experiment.variants):
                continue
        except Exception:  # such as a damaged recording of this target: `run_trial` fails for it and reports it
            continue
        try:
            data.source()
        except Exception as error:  # the trials of other source models continue
            return _message(error)
        break
    return ""


def run_trial(trial: Trial, job: Job, only_finished: bool = False, training_error: str = "") -> TrialResult:
    """Return the rows of all methods on one trial; missing ones are computed unless `only_finished`.

    After a `training_error` of the source model they are failures.
    """
    variants = job.experiment.variants
    try:
        data = load_trial(trial, job)
        if data.index is None:
            return TrialResult([], [], absent=True)
        paths = {variant.label: data.row_path(variant) for variant in variants}
        missing = [] if only_finished else [v for v in variants if read_row(paths[v.label]) is None]
        if training_error:
            failures = _failures(missing, trial, training_error)
        else:
            failures = _compute(data, data.index, missing, paths)
    except Exception as error:  # other trials continue; the failure is reported
        return TrialResult([], _failures(variants, trial, _message(error)))
    stored = [read_row(paths[variant.label]) for variant in variants]
    rows = [
        _plan_columns(data, variant, position) | row
        for position, (variant, row) in enumerate(zip(variants, stored, strict=True))
        if row is not None
    ]
    return TrialResult(rows, failures)


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
                write_row(paths[variant.label], _result_columns(data, variant, source, windows, encoded))
            except Exception as error:  # third-party methods may raise anything
                failures += _failures([variant], data.trial, _message(error))
    return failures


def _failures(variants: Any, trial: Trial, error: str) -> list[Failure]:
    return [Failure(label=variant.label, trial=str(trial), error=error) for variant in variants]


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _result_columns(
    data: TrialData, variant: Variant, source: Any, windows: Windows, encoded: tuple[Array, Array]
) -> Row:
    """Run one method, and return what the name of the row determines."""
    adapter = variant.adapter().bind(source)
    began = time.perf_counter()
    lag = {"lag": variant.lag} if variant.lag else {}
    scores = ANALYSES[data.job.experiment.kind](adapter, windows, encoded, **lag)
    seconds = time.perf_counter() - began
    trained = source.card.training
    return {
        "params": adapter.params(),
        "rule": rule_of(variant.lag) if variant.lag else adapter.rule,
        "needs": asdict(adapter.needs) | {"batch": adapter.chunk is not None},
        "notes": list(adapter.notes()),
        "code": class_fingerprint(type(adapter)),
        "scores": scores,
        "state_bytes": adapter.state_bytes(),
        "training": asdict(data.recipe) | {key: trained.get(key, value) for key, value in TRAINED.items()},
        "source_data": data.source_hash,
        "target_data": data.target_hash,
        "computed_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 4),
        "versions": {"sight": __version__, "python": platform.python_version()}
        | dict.fromkeys(PACKAGES, "")
        | package_versions(*PACKAGES),
        "machine": platform.platform(),
    }


@cache  # reading the metadata of a package takes milliseconds
def package_versions(*names: str) -> dict[str, str]:
    versions = {}
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


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
        **asdict(trial),
        "gaps": setting.use_gaps,
        "label": variant.label,
        "position": position,
        "method": variant.method,
        "preset": variant.preset,
        "paper_table": experiment.paper,
        "paper_dataset": setting.paper,
        "paper_pair": pair if setting.paper else "",
    }
