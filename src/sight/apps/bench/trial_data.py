"""Data of one trial: windows, source model and stream, and the keys of its rows."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sight._util.code_hash import class_fingerprint, module_fingerprint
from sight._util.hashing import file_sha256
from sight.apps.bench.source_models import Recipe, batch_size, data_hash, own_model, source_model
from sight.apps.bench.stream_orders import reorder, stream_index
from sight.apps.bench.trial_rows import canonical_json, hash_key, row_path
from sight.apps.bench.trials import OWN_ORDERS, Experiment, Setting, Trial, Variant, setting_of
from sight.models.card import filled
from sight.types import Array, Windows

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
        return data_hash(self.sources)

    @cached_property
    def target_hash(self) -> str:
        return data_hash([self.target])

    @cached_property
    def index(self) -> Array | None:
        """Window of the target at each position of the stream; None if the target lacks windows for it."""
        return stream_index(self.target.label, self.trial, self.job.setting, self.recipe.classes)

    @cached_property
    def model_key(self) -> str:
        """Hash of everything that determines the source model, training and loading code included."""
        if self.job.setting.model:
            return hash_key(file_sha256(Path(self.job.setting.model)), module_fingerprint("sight.models.load"))
        target = [self.target_hash] if self.job.setting.oracle_epoch else []
        return self.recipe.model_key("".join([self.source_hash, *target]))

    def row_path(self, variant: Variant) -> Path:
        """Return the file of a row, named by a hash of its data, parameters and code.

        The version of the package is not part of it: rows stay valid as long as the code behind them is the same.
        """
        adapter, setting = variant.adapter(), self.job.setting
        index = hashlib.blake2b(np.asarray(self.index, np.int64).data, digest_size=12).hexdigest()
        order = (self.trial.order, setting.use_gaps, index, module_fingerprint("sight.apps.bench.stream_orders"))
        stream = (self.target_hash, self.target.stride_s, *order)
        changed = [value for value, default in ((variant.lag, 0), (setting.power, 1)) if value != default]
        method = (variant.method, adapter.params(), class_fingerprint(type(adapter)), *changed)
        scores = module_fingerprint("sight.apps.bench.analyses")
        return row_path(self.job.out, hash_key(self.job.experiment.kind, self.model_key, stream, method, scores))

    def source(self) -> Any:
        if self.job.setting.model:
            return own_model(self.job.setting.model, self.recipe.classes)
        validation = self.target if self.job.setting.oracle_epoch else None
        path = self.job.out / "models" / f"{self.model_key}.safetensors"
        return source_model(self.recipe, self.sources, self.dataset, path, validation)

    def stream(self, source: Any, index: Array) -> tuple[Windows, tuple[Array, Array]]:
        """Return the windows of an index as a stream, and the source model's encoding of them."""
        # Sensors that were off leave NaN. The source fills them itself; methods that process raw windows cannot.
        target = replace(self.target, x=filled(self.target.x, source.card.fill))
        key = (self.model_key, self.target_hash)
        if key not in _ENCODING:
            _ENCODING.clear()
            _ENCODING[key] = source.encode(target.x)
        z, p = _ENCODING[key]
        if self.job.setting.power != 1:
            p = p**self.job.setting.power
            p = p / p.sum(axis=1, keepdims=True)
        natural = self.job.setting.use_gaps and self.trial.order in ("chronological", *OWN_ORDERS)
        return reorder(target, index, gaps=natural), (z[index], p[index])


def load_trial(trial: Trial, job: Job) -> TrialData:
    """Load the windows of a trial; subjects are cached for the next trials of the process."""
    from sight.datasets import load

    setting = setting_of(trial, job.experiment, job.setting)
    dataset = load(setting.dataset, **setting.options)
    target_options = {**setting.options, **setting.orders.get(trial.order, {})}

    def windows(subject: str, options: Mapping[str, Any]) -> Windows:
        own = (setting.dataset, canonical_json(options), canonical_json(setting.windowing))
        return _subject_windows(*own, setting.scaling, subject)

    sources = [] if setting.model else [windows(subject, setting.options) for subject in trial.sources]
    recipe = Recipe(
        classes=tuple(dataset.classes),
        encoder=trial.encoder,
        epochs=0 if setting.model else setting.epochs,
        batch=batch_size(setting.batch, sources),
        seed=trial.seed,
        device=job.device,
        scaled=setting.scaling != "none",
    )
    target = windows(trial.target, target_options)
    own_job = replace(job, setting=setting)
    return TrialData(dataset=dataset, sources=sources, target=target, recipe=recipe, trial=trial, job=own_job)


@lru_cache(maxsize=16)  # a pooled source and some targets; a subject of CAPTURE-24 has 73 MB
def _subject_windows(dataset: str, options: str, windowing: str, scaling: str, subject: str) -> Windows:
    """Return a subject's windows; options and windowing are JSON, which can be a key of the cache."""
    from sight.datasets import load, windows_of

    windows = windows_of(load(dataset, **json.loads(options)), subject, **json.loads(windowing))
    if scaling not in ("subject", "window"):
        return windows
    axes = (0, 2) if scaling == "subject" else 2
    mean, std = windows.x.mean(axis=axes, keepdims=True), windows.x.std(axis=axes, keepdims=True)
    return replace(windows, x=(windows.x - mean) / np.maximum(std, np.float32(1e-6)))
