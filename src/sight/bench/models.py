"""Source models of the benchmark, trained once and kept by what they were trained on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from sight.bench.plan import Trial, key
from sight.types import Windows


def content(windows: list[Windows]) -> str:
    """Hash windows and labels: the same data, the same name."""
    digest = hashlib.blake2b(digest_size=12)
    for person in windows:
        digest.update(np.ascontiguousarray(person.x).data)
        digest.update(np.ascontiguousarray(person.label).data)
    return digest.hexdigest()


def source_model(trial: Trial, people: dict[str, Windows], dataset: Any, folder: Path, device: str = "cpu") -> Any:
    """Return the trained source of a trial, from the cache if it was trained before.

    Parameters
    ----------
    trial
        Names sources, network, seed and training.
    people
        Windows of the sources by name.
    dataset
        For classes, channels and units.
    folder
        Where models are kept.
    device
        Where to train; part of the name, for results differ in the last bits.
    """
    import torch

    from sight.sources.torch import TorchSource
    from sight.train import train

    windows = [people[name] for name in trial.sources]
    how = {"encoder": trial.encoder, "epochs": trial.epochs, "batch": trial.batch, "seed": trial.seed}
    name = key(content(windows), how, device, str(torch.__version__).partition("+")[0])
    path = folder / f"{name}.safetensors"
    if path.is_file():
        return TorchSource.load(path)
    source = train(
        windows,
        dataset.classes,
        device=device,
        channels=dataset.channels,
        units=dataset.units,
        rate_hz=dataset.rate_hz,
        dataset=dataset.name,
        **how,
    ).to("cpu")
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}.{os.getpid()}.safetensors"
    source.save(draft)
    draft.replace(path)
    return TorchSource.load(path)
