"""Source models of the benchmark: trained once, stored under a hash of their data and recipe."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sight import registry
from sight._util.code_hash import class_fingerprint, module_fingerprint
from sight.apps.bench.trial_rows import hash_key
from sight.models.card import require_card
from sight.models.load import load
from sight.types import Windows

#: Number of windows above which batches have 256 windows instead of 64: a quarter of the steps.
LARGE = 8000


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Training parameters of a source model."""

    classes: tuple[str, ...]
    encoder: str
    epochs: int
    batch: int
    seed: int
    device: str
    scaled: bool = True  # whether channels are normalised by the mean and deviation of the training data

    def model_key(self, data: str) -> str:
        """Return a hash of data, recipe and training code, by which the model is stored; `data` is a hash too.

        The device is not part of it, so that a machine without a GPU continues with models that were trained on one.
        """
        recipe = asdict(self)
        del recipe["device"]
        code = (module_fingerprint("sight.models.train"), class_fingerprint(registry.get("encoders", self.encoder)))
        return hash_key(data, recipe, code)


def batch_size(requested: int | None, windows: Sequence[Windows]) -> int:
    return requested or (256 if sum(int((subject.label >= 0).sum()) for subject in windows) > LARGE else 64)


def data_hash(windows: Sequence[Windows]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for subject in windows:
        digest.update(str(subject.x.shape).encode())
        for array in (subject.x, subject.label, subject.gap_before_s):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def source_model(
    recipe: Recipe, windows: Sequence[Windows], dataset: Any, path: Path, validation: Windows | None = None
) -> Any:
    """Return a trained source model, from its file if that is stored and unaltered.

    With `validation` the epoch with the best macro-F1 on these windows is kept.
    """
    from sight.models.torch import TorchSource

    with suppress(OSError, ValueError):  # missing, damaged or altered
        return TorchSource.load(path)
    _train(recipe, windows, dataset, validation).save(path)
    return TorchSource.load(path)


def own_model(path: str, classes: Sequence[str]) -> Any:
    """Load a user's trained model; raise ValueError if its classes are not those of the dataset."""
    source = load(path)
    if tuple(source.classes) != tuple(classes):
        raise ValueError(
            f"{path}: expected the classes of the dataset in their order, {', '.join(classes)}, got "
            f"{', '.join(source.classes)}; train the model on them, or write a setting of your own."
        )
    require_card(source, path)
    return source


def _train(recipe: Recipe, windows: Sequence[Windows], dataset: Any, validation: Windows | None) -> Any:
    from sight.models.train import train

    return train(
        list(windows),
        recipe.classes,
        encoder=recipe.encoder,
        epochs=recipe.epochs,
        batch=recipe.batch,
        seed=recipe.seed,
        device=recipe.device,
        scaled=recipe.scaled,
        validation=0.0 if validation is None else validation,
        fisher=True,
        channels=dataset.channels,
        units=dataset.units,
        rate_hz=windows[0].x.shape[2] / windows[0].window_s,
        dataset=dataset.name,
    ).to("cpu")
