"""What a user may point at: a file, a folder, or a person of a dataset (``hapt:5``), as windows a model takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sight import params, registry
from sight.card import require_card
from sight.cli._reading import Reading
from sight.cli._shared import errors
from sight.types import Recording, Windows


@dataclass(frozen=True, kw_only=True)
class Input:
    """One stream to be read when its turn comes."""

    name: str
    path: Path | None = None
    dataset: str = ""
    subject: str = ""


def find(target: str) -> list[Input]:
    """List the streams behind a target: a file, every readable file of a folder, or ``dataset:subject``."""
    path = Path(target)
    if path.is_file():
        return [Input(name=_stem(path), path=path)]
    if path.is_dir():
        from sight.datasets.user_files import READABLE

        endings = (*READABLE, ".npz")
        found = sorted(p for p in path.rglob("*") if p.is_file() and p.name.lower().endswith(endings))
        if not found:
            raise ValueError(f"There is no recording in {path}; expected files that end with {', '.join(endings)}.")
        return _named(path, found)
    name, colon, subject = target.partition(":")
    if colon and name.lower() in registry.names("datasets"):
        return [Input(name=f"{name.lower()}-{subject}", dataset=name.lower(), subject=subject)]
    raise ValueError(
        f"There is no file or folder {target!r}; give a path, or a person of a dataset such as synthetic:W01 "
        f"(datasets: {', '.join(registry.names('datasets'))})."
    )


def read(item: Input, source: Any, reading: Reading) -> Windows:
    """Read a stream as windows for a model: its clock, its channels, its units."""
    card = require_card(source)
    windows = _of_dataset(item, card, reading) if item.dataset else _of_file(item, card, reading)
    if windows.x.shape[1] != len(card.channels):
        raise ValueError(
            f"{item.name}: expected {len(card.channels)} channels ({', '.join(card.channels)}) as the model was "
            f"trained with, got {windows.x.shape[1]}; choose them with --columns or the dataset's --option."
        )
    from sight.card import filled

    return replace(windows, x=filled(windows.x, card.fill))


def recordings(item: Input, card: Any, reading: Reading) -> Iterator[Recording]:
    """Read a stream as recordings in time order, with the model's channels and units, as a device would send them."""
    if not item.dataset:
        yield _recording(item, card, reading)
        return
    from sight.stream.replay import on_one_clock

    dataset = _dataset(item, card, reading)
    for one in on_one_clock(dataset.recordings(person(dataset, item.subject)), shared=dataset.one_clock):
        yield one if one.channels == card.channels else _fitted(item, one, card.channels)


def dataset_of(name: str, options: list[str] | None, labels: Path | None = None) -> tuple[Any, dict[str, Any]]:
    """Open a dataset by name, or a user's folder with its label map."""
    if Path(name).is_dir():
        from sight.datasets.folder import Folder

        if labels is None:
            raise ValueError(
                f"A folder of your own needs --labels MAP.toml that names classes and columns; got {name}."
            )
        return Folder(root=Path(name), labels=labels), {}
    cls = registry.get("datasets", name)
    chosen = params.parse(cls, options or [])
    return cls(**chosen), {key: value for key, value in chosen.items() if key != "root"}


def person(dataset: Any, text: str) -> str:
    """Find somebody by name, or by a beginning of it that nobody else shares."""
    known: tuple[str, ...] = dataset.subjects()
    alike = [name for name in known if name.lower().startswith(text.lower())]
    if text in known or len(alike) == 1:
        return text if text in known else alike[0]
    told = f"that could be {', '.join(alike)}" if alike else f"it has {', '.join(known)}"
    raise ValueError(f"{dataset.name} has no subject {text!r}; {told}.")


def _of_dataset(item: Input, card: Any, reading: Reading) -> Windows:
    from sight.datasets import windows_of

    dataset = _dataset(item, card, reading)
    who = person(dataset, item.subject)
    return windows_of(dataset, who, rate_hz=card.rate_hz, window_s=card.window_s, stride_s=card.stride_s)


def _dataset(item: Input, card: Any, reading: Reading) -> Any:
    """Open the dataset as the model's training did, where nobody says otherwise."""
    dataset, _ = dataset_of(item.dataset, list(reading.options))
    if not reading.options and card.dataset == item.dataset:
        dataset = type(dataset)(**card.training.get("options", {}))
    return dataset


def _recording(item: Input, card: Any, reading: Reading) -> Recording:
    from sight.datasets.user_files import read as read_file
    from sight.signal.units import convert

    recording = read_file(
        str(item.path),
        columns=reading.mapping(),
        unit=reading.unit,
        tz=reading.tz,
        rate_hz=reading.rate_hz,
        label_column=reading.label_column,
        classes=card.classes if reading.label_column else None,
    )
    recording = convert(_fitted(item, recording, card.channels), card.units)
    if not np.isfinite(recording.values).any():
        raise ValueError(f"{item.name} holds no number in {', '.join(card.channels)}; check the columns.")
    return recording


def _of_file(item: Input, card: Any, reading: Reading) -> Windows:
    from sight.signal import prepare
    from sight.signal.quality import warnings_for

    if str(item.path).endswith(".npz"):
        return _of_npz(item, card)
    recording = _recording(item, card, reading)
    known = {key: getattr(card, key) for key in ("rate_hz", "channels", "mean", "std")}
    warnings = warnings_for(recording, known | {"unit": card.units})
    windows = prepare(
        recording,
        rate_hz=card.rate_hz,
        window_s=card.window_s,
        stride_s=card.stride_s,
        max_gap_s=reading.max_gap_s,
        calibration="auto" if reading.calibrate else None,
        allow_empty=False,
    )
    if reading.calibrate and not windows.facts.get("calibrated"):
        warnings += (f"Calibration was left out: {windows.facts.get('calibration_note', 'no rest')}.",)
    if "unknown" in str(windows.facts.get("time_zone", "")):
        warnings += ("Times tell no zone and are taken as UTC; give it with --tz.",)
    for warning in warnings:
        note(item, warning)
    return replace(windows, facts={**windows.facts, "warnings": list(warnings)})


def _of_npz(item: Input, card: Any) -> Windows:
    from sight.datasets.npz import read_npz

    windows, _ = read_npz(str(item.path), card.classes)
    if windows.x.shape[2] != card.length:
        raise ValueError(
            f"{item.name}: expected windows of {card.length} samples ({card.window_s:g} s at {card.rate_hz:g} Hz) "
            f"as the model was trained with, got {windows.x.shape[2]}; cut the recording anew."
        )
    return windows


def _fitted(item: Input, recording: Recording, channels: tuple[str, ...]) -> Recording:
    """Give the model its channels: by name where they are there, else by position where the number agrees."""
    from sight.signal.channels import select

    if set(channels) <= set(recording.channels):
        return select(recording, channels)
    alike = {_axis(name): name for name in reversed(recording.channels)}
    if all(_axis(name) in alike for name in channels) and len({_axis(name) for name in channels}) == len(channels):
        return replace(select(recording, [alike[_axis(name)] for name in channels]), channels=channels)
    if len(recording.channels) != len(channels):
        return select(recording, channels)
    note(item, f"columns {', '.join(recording.channels)} are taken as {', '.join(channels)}, in this order.")
    return replace(recording, channels=channels)


def _axis(channel: str) -> str:
    """Read usual names of one axis as the same: x, ax, acc_x and accel_x; gx, gyr_x and gyro_x."""
    match = re.fullmatch(r"(?:(a|acc|accel|accelerometer|g|gyr|gyro|gyroscope)_?)?([xyz])", channel.lower())
    return channel if match is None else f"{'gyr' if (match[1] or 'a').startswith('g') else 'acc'}_{match[2]}"


def note(item: Input, text: str) -> None:
    """Tell something worth knowing about an input, without stopping."""
    errors.print(f"[yellow]{item.name}:[/] {text}", highlight=False, soft_wrap=True)


def _named(folder: Path, found: list[Path]) -> list[Input]:
    """Name each file after its place in the folder; files that differ in their ending only keep it."""
    names = ["-".join((*path.relative_to(folder).parts[:-1], _stem(path))) for path in found]
    whole = ["-".join(path.relative_to(folder).parts) for path in found]
    return [
        Input(name=name if names.count(name) == 1 else long, path=path)
        for name, long, path in zip(names, whole, found, strict=True)
    ]


def _stem(path: Path) -> str:
    from sight.datasets.user_files import READABLE

    ending = max((e for e in (*READABLE, ".npz") if path.name.lower().endswith(e)), key=len, default=path.suffix)
    return path.name[: len(path.name) - len(ending)] or path.name
