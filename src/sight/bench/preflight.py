"""What can be known to go wrong before anything is trained, told once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sight import registry
from sight.atomic import write_atomic
from sight.bench import toml_files
from sight.bench.plan import Experiment, Setting, Variant, check_known
from sight.bench.settings import corpus, everybody
from sight.bench.worker import make

DEVICES = ("cpu", "cuda")


def check(experiment: Experiment, setting: Setting) -> None:
    """Raise unless methods, seeds, networks, corpus and people of a run are there.

    Parameters
    ----------
    experiment, setting
        What is compared, and on whom.
    """
    where = f"Experiment {experiment.name}"
    if not experiment.variants or not experiment.seeds:
        raise ValueError(f"{where} compares nothing; list methods and seeds.")
    for variant in experiment.variants:
        _check_variant(variant, f"{where}, {variant.label}")
    for seed in experiment.seeds:
        if type(seed) is not int or seed < 0:
            raise ValueError(f"{where}: expected seeds such as 0, 1, 2, got {seed!r}; write whole numbers from 0 on.")
    for encoder in (*experiment.encoders, setting.encoder):
        check_known(encoder, registry.names("encoders"), "encoder")
    _check_people(setting)


def check_place(out: Path, device: str, engine: str = "loky") -> None:
    """Raise unless the device exists and files can be written to the folder, which is made.

    Parameters
    ----------
    out
        Folder of the results.
    device, engine
        Where sources are trained, and by whom; the devices of a running cluster cannot be seen from here.
    """
    check_known(device, DEVICES, "device")
    if device == "cuda" and (engine in ("serial", "loky") or engine.startswith("dask:local:")):
        import torch

        if not torch.cuda.is_available():
            raise ValueError("There is no CUDA device here; train with --device cpu.")
    probe(out)


def probe(out: Path) -> None:
    """Make a folder, and write and rename a small file in it."""
    try:
        write_atomic(out / ".probe", b"").unlink()
    except OSError as error:
        told = f"{error.strerror}: {error.filename}"
        raise ValueError(f"Nothing can be written to the folder {out} ({told}); name another with --out.") from None


def _check_variant(variant: Variant, where: str) -> None:
    """Make the adapter once."""
    try:
        toml_files.check_fields(registry.get("methods", variant.method), variant.fields)
        make(variant)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def _check_people(setting: Setting) -> None:
    where = f"Setting {setting.name}"
    dataset: Any = corpus(setting.dataset, setting.options, where)
    known = everybody(dataset)
    for sources, target in setting.pairs:
        for who in (*sources, target):
            check_known(who, known, f"subject of {setting.dataset}")
    if hasattr(dataset, "windowing"):
        dataset.windowing(**setting.windowing)
