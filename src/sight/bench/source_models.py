"""Source models of the benchmark, trained once and kept by what they were trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sight import registry
from sight._version import __version__
from sight.bench.plan import key
from sight.fingerprint import class_fingerprint, module_fingerprint
from sight.types import Windows

#: From so many windows on, batches of 256 instead of 64: a quarter of the steps, and each still sees enough.
LARGE = 8000


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What decides a trained source besides its data."""

    classes: tuple[str, ...]
    encoder: str
    epochs: int
    batch: int
    seed: int
    device: str

    def name(self, data: str) -> str:
        """Name the model that this recipe and today's code of training make of windows with this hash."""
        code = (module_fingerprint("sight.train"), class_fingerprint(registry.get("encoders", self.encoder)))
        return key(data, self, code, __version__)


def batch_for(asked: int | None, windows: Sequence[Windows]) -> int:
    """Return the batch asked for, or the one that suits the number of labelled windows."""
    return asked or (256 if sum(int((person.label >= 0).sum()) for person in windows) > LARGE else 64)


def content(windows: Sequence[Windows]) -> str:
    """Hash windows and labels: the same data, the same name."""
    digest = hashlib.blake2b(digest_size=12)
    for person in windows:
        digest.update(str(person.x.shape).encode())
        for array in (person.x, person.label, person.gap_before_s):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def source_model(recipe: Recipe, windows: Sequence[Windows], dataset: Any, folder: Path) -> Any:
    """Return a trained source, from the folder of models if it was trained before.

    Parameters
    ----------
    recipe
        How to train.
    windows
        Of each person of the source.
    dataset
        Tells channels, units and rate for the model card.
    folder
        Where models are kept, each in a file written whole.
    """
    from sight.sources.torch import TorchSource

    path = folder / f"{recipe.name(content(windows))}.safetensors"
    if not path.is_file():
        _trained(recipe, windows, dataset).save(path)
    return TorchSource.load(path)


def _trained(recipe: Recipe, windows: Sequence[Windows], dataset: Any) -> Any:
    from sight.train import train

    return train(
        list(windows),
        recipe.classes,
        encoder=recipe.encoder,
        epochs=recipe.epochs,
        batch=recipe.batch,
        seed=recipe.seed,
        device=recipe.device,
        channels=dataset.channels,
        units=dataset.units,
        rate_hz=windows[0].x.shape[2] / windows[0].window_s,
        dataset=dataset.name,
    ).to("cpu")
