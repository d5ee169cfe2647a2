"""Checks of an experiment, a setting and an output folder before anything is trained."""

from pathlib import Path
from typing import Any

from sight import registry
from sight._util.atomic import write_atomic
from sight.apps.bench import experiment_files, simulated_days
from sight.apps.bench.experiment_files import check_name
from sight.apps.bench.settings import make_dataset, subjects_of
from sight.apps.bench.trials import Experiment, Setting, Variant, expand_order

DEVICES = ("cpu", "cuda")


def check(experiment: Experiment, setting: Setting) -> None:
    """Raise ValueError unless methods, seeds, networks, dataset and subjects of a run are valid and available."""
    where = f"Experiment {experiment.name}"
    if not experiment.variants or not experiment.seeds:
        raise ValueError(f"{where} has nothing to compare; list methods and seeds.")
    for variant in experiment.variants:
        _check_variant(variant, f"{where}, {variant.label}")
    for seed in experiment.seeds:
        if type(seed) is not int or seed < 0:
            raise ValueError(f"{where}: expected seeds such as 0, 1, 2, got {seed!r}; write whole numbers from 0 on.")
    for encoder in (*experiment.encoders, setting.encoder):
        check_name(encoder, registry.names("encoders"), "encoder")
    if set(experiment.orders) & set(simulated_days.SEDENTARY) and not setting.sedentary:
        raise ValueError(
            f"{where} needs the sedentary classes of setting {setting.name}, sitting first; "
            f'add to its file: sedentary = ["sitting", "standing"].'
        )
    if not any(expand_order(order, setting) for order in experiment.orders):
        raise ValueError(
            f"{where}: setting {setting.name} has none of its stream orders ({', '.join(experiment.orders)}); choose "
            "another setting, or give the setting orders (docs/bench.md)."
        )
    _check_subjects(setting)


def check_output(out: Path, device: str, engine: str = "loky") -> None:
    """Raise ValueError unless the device exists and the output folder, which is created, is writable.

    The devices of a running cluster are not checked.
    """
    check_name(device, DEVICES, "device")
    if device == "cuda" and (engine in ("serial", "loky") or engine.startswith("dask:local:")):
        import torch

        if not torch.cuda.is_available():
            raise ValueError("There is no CUDA device on this machine; train with --device cpu.")
    check_writable(out)


def check_writable(out: Path) -> None:
    """Create a folder, and write and remove a small file in it; raise ValueError if that fails."""
    try:
        write_atomic(out / ".probe", b"").unlink()
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
        raise ValueError(f"Cannot write to the folder {out} ({reason}); choose another with --out.") from None


def _check_variant(variant: Variant, where: str) -> None:
    try:
        experiment_files.check_fields(registry.get("methods", variant.method), variant.fields)
        variant.adapter()
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def _check_subjects(setting: Setting) -> None:
    dataset: Any = make_dataset(setting.dataset, setting.options, f"Setting {setting.name}")
    available = subjects_of(dataset)
    for sources, target in setting.pairs:
        for subject in (*(() if setting.model else sources), target):
            check_name(subject, available, f"subject of {setting.dataset}")
    for name in (*setting.sedentary, *filter(None, [setting.standing])):
        check_name(name, tuple(dataset.classes), f"class of {setting.dataset}")
    if hasattr(dataset, "windowing"):
        dataset.windowing(**setting.windowing)
