"""Read recordings as windows for a model: files, folders of files, and subjects of datasets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sight import params, registry
from sight.base import Source
from sight.card import ModelCard, filled, require_card
from sight.signal.clock import MAX_GAP_S
from sight.signal.intensity import intensity
from sight.signal.windows import UNKNOWN_GAP_S
from sight.types import Recording, Windows

#: Fields of the card that `info.json` contains.
CARD_FIELDS = ("encoder", "dataset", "rate_hz", "window_s", "stride_s", "channels", "units", "sight_version")


@dataclass(frozen=True, kw_only=True)
class RecordingRef:
    """Reference to one recording that is not read yet: a file, or a subject of a dataset."""

    name: str  # for results and messages
    path: Path | None = None  # None for a subject of a dataset
    dataset: str = ""  # registry name; empty for a file
    subject: str = ""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options for reading a recording.

    Parameters
    ----------
    columns
        Channel name to column of a CSV or Parquet file, "time" included; None detects usual column names.
    unit
        Unit of acceleration in a CSV or Parquet file: "g", "mg" or "m/s^2".
    gyro_unit
        Unit of rotation in a CSV or Parquet file: "deg/s" or "rad/s"; None uses the unit that the column names state,
        else that of the model.
    tz
        Time zone of the wearer, such as "Europe/Vienna", which decides the day of a sample; None uses the offset or
        zone in the file, else UTC with a warning.
    time_unit
        Unit of numeric times in a CSV or Parquet file: "s", "ms", "us" or "ns"; None detects it.
    rate_hz
        Sampling rate of a file without timestamps, or of one whose rate is far below that of the model.
    calibrate
        Whether to estimate the gravity calibration from the recording and apply it.
    label_column
        Column that holds class names of the model.
    max_gap_s
        A longer pause counts as a gap.
    dataset_options
        Fields of the dataset class; if empty, the options of the model's training are used for the same dataset.
    """

    columns: Mapping[str, str] | None = None
    unit: str = "g"
    gyro_unit: str | None = None
    tz: str | None = None
    time_unit: str | None = None
    rate_hz: float | None = None
    calibrate: bool = False
    label_column: str | None = None
    max_gap_s: float = MAX_GAP_S
    dataset_options: Mapping[str, Any] = field(default_factory=dict)


def read(target: str | Path, model: Source | ModelCard | str | Path, **options: Any) -> Windows:
    r"""Read one recording as windows with the sampling rate, channels, units and window length of a model.

    Parameters
    ----------
    target
        A file, or a subject of a dataset such as "synthetic:W12".
    model
        A source model, its card, or the path of a model file.
    options
        Fields of `ReadOptions`.

    Returns
    -------
    Windows
        ``facts["warnings"]`` lists what looks wrong with the recording, such as an unlikely unit or a missing time
        zone; it is empty if nothing does.

    Examples
    --------
    >>> import tempfile
    >>> from sight.testing import toy_network
    >>> file = Path(tempfile.mkdtemp()) / "walk.csv"
    >>> _ = file.write_text("time,x,y,z\n" + "".join(f"{t / 10},0,0,1\n" for t in range(100)))
    >>> windows = read(file, toy_network(), tz="UTC")
    >>> windows.x.shape, windows.facts["warnings"]
    ((9, 3, 20), [])
    """
    if isinstance(model, str | Path):
        from sight.sources import load

        card = require_card(load(model), model)
    else:
        card = model if isinstance(model, ModelCard) else require_card(model)
    return read_windows(find_recording(target), card, ReadOptions(**options))


# --- finding recordings -----------------------------------------------------------------------------------------------


def find_recordings(target: str | Path) -> list[RecordingRef]:
    """List the recordings behind a target: a file, every readable file below a folder, or ``dataset:subject``."""
    path = Path(target)
    if path.is_file():
        return [RecordingRef(name=_stem(path), path=path)]
    if path.is_dir():
        return _files_below(path)
    name, colon, subject = str(target).partition(":")
    if colon and name.lower() in registry.names("datasets"):
        return [RecordingRef(name=f"{name.lower()}-{subject}", dataset=name.lower(), subject=subject)]
    raise ValueError(
        f"There is no file or folder {str(target)!r}; give a path, or a subject of a dataset such as synthetic:W01 "
        f"(datasets: {', '.join(registry.names('datasets'))})."
    )


def find_recording(target: str | Path) -> RecordingRef:
    """Return the only recording behind a target; raise ValueError if there are several."""
    refs = find_recordings(target)
    if len(refs) != 1:
        raise ValueError(f"Expected one recording, got {len(refs)} in {target}; name one of them.")
    return refs[0]


def dataset_recordings(name: str, options: Mapping[str, Any]) -> list[RecordingRef]:
    """List all subjects of a dataset as recordings."""
    subjects = open_dataset(name, options).subjects()
    return [RecordingRef(name=f"{name.lower()}-{who}", dataset=name.lower(), subject=who) for who in subjects]


def open_dataset(name: str, options: Mapping[str, Any], labels: Path | None = None) -> Any:
    """Return a dataset by registry name with field values, or that of a user's folder with its map.

    Without `labels`, the map is ``MAP.toml`` in the folder.
    """
    if not Path(name).is_dir():
        cls = registry.get("datasets", name)
        return cls(**params.parse(cls, [f"{key}={value}" for key, value in options.items()]))
    from sight.datasets import load

    return load("folder", **{"root": Path(name), **options, **({} if labels is None else {"labels": labels})})


def find_subject(dataset: Any, text: str) -> str:
    """Return the subject with this name, or the only one whose name starts with it."""
    subjects: tuple[str, ...] = dataset.subjects()
    if text in subjects:
        return text
    matches = [name for name in subjects if name.lower().startswith(text.lower())]
    if len(matches) == 1:
        return matches[0]
    hint = f"it could be {', '.join(matches)}" if matches else f"subjects are {', '.join(subjects)}"
    raise ValueError(f"{dataset.name} has no subject {text!r}; {hint}.")


def _files_below(folder: Path) -> list[RecordingRef]:
    """List the readable files below a folder, named after their relative path; equal names keep their suffix."""
    suffixes = _suffixes()
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name.lower().endswith(suffixes))
    if not files:
        raise ValueError(f"There is no recording in {folder}; expected files that end with {', '.join(suffixes)}.")
    parts = [path.relative_to(folder).parts for path in files]
    names = ["-".join((*above, _stem(path))) for path, (*above, _) in zip(files, parts, strict=True)]
    return [
        RecordingRef(name=name if names.count(name) == 1 else "-".join(whole), path=path)
        for name, whole, path in zip(names, parts, files, strict=True)
    ]


def _suffixes() -> tuple[str, ...]:
    from sight.datasets.user_files import READABLE

    return (*READABLE, ".npz")


def _stem(path: Path) -> str:
    suffix = max((s for s in _suffixes() if path.name.lower().endswith(s)), key=len, default=path.suffix)
    return path.name[: len(path.name) - len(suffix)] or path.name


# --- reading ----------------------------------------------------------------------------------------------------------


def read_windows(ref: RecordingRef, card: ModelCard, options: ReadOptions) -> Windows:
    """Read a recording as windows for the model with this card; see `read`."""
    from sight.datasets import windows_of

    if ref.dataset:
        dataset = _dataset_of(ref, card, options)
        windowing = {"rate_hz": card.rate_hz, "window_s": card.window_s, "stride_s": card.stride_s}
        windows = windows_of(dataset, find_subject(dataset, ref.subject), **windowing)
    elif str(ref.path).endswith(".npz"):
        windows = _npz_windows(ref, card)
    else:
        windows = _file_windows(ref, card, options)
    if windows.x.shape[1] != len(card.channels):
        raise ValueError(
            f"{ref.name}: expected the {len(card.channels)} channels of the model ({', '.join(card.channels)}), got "
            f"{windows.x.shape[1]}; choose them with columns (--columns) or dataset options (--option)."
        )
    facts = {**windows.facts, "warnings": windows.facts.get("warnings", [])}
    moved = intensity(windows.x, card.units)
    return replace(windows, x=filled(windows.x, card.fill), intensity=moved, facts=facts)


def read_samples(ref: RecordingRef, card: ModelCard, options: ReadOptions) -> Iterator[Recording]:
    """Yield the recordings behind a reference in time order, with the channels and units of the model.

    ``facts["warnings"]`` of a recording lists warnings, if there are any.
    """
    if not ref.dataset:
        yield _file_samples(ref, card, options)
        return
    dataset = _dataset_of(ref, card, options)
    recordings = dataset.recordings(find_subject(dataset, ref.subject))
    for recording in on_one_clock(recordings, shared=dataset.one_clock):
        yield recording if recording.channels == card.channels else _with_channels(recording, card.channels)


def describe_run(ref: RecordingRef, card: ModelCard, model: str | Path, windows: Windows) -> dict[str, Any]:
    """Return what `info.json` contains about the input and the model."""
    file = ref.path.name if ref.path else ""
    return {
        "subject": ref.subject or ref.name,
        "input": {"name": ref.name, "file": file, "dataset": ref.dataset, **windows.facts},
        "model": {"file": Path(model).name, **{name: getattr(card, name) for name in CARD_FIELDS}},
    }


def on_one_clock(recordings: Iterable[Recording], *, shared: bool = False) -> Iterator[Recording]:
    """Shift the times of one subject's recordings so that they follow each other, as `sight.signal.join` does.

    If a recording or the first one has no start time, one hour is assumed between it and the previous one, unless all
    times already count from a `shared` moment.
    """
    start = end_s = None
    for recording in recordings:
        if not len(recording.time_s):
            continue
        start = recording.start if end_s is None else start
        shift = 0.0
        if recording.start is not None and start is not None:
            shift = (recording.start - start).total_seconds()
        elif end_s is not None and not shared:
            shift = end_s + UNKNOWN_GAP_S - float(recording.time_s[0])
        shifted = replace(recording, time_s=recording.time_s + shift) if shift else recording
        end_s = float(shifted.time_s[-1])
        yield shifted


def _dataset_of(ref: RecordingRef, card: ModelCard, options: ReadOptions) -> Any:
    trained_on = card.training.get("options", {}) if card.dataset == ref.dataset else {}
    if options.dataset_options or not trained_on:
        return open_dataset(ref.dataset, options.dataset_options)
    return registry.get("datasets", ref.dataset)(**trained_on)


def _npz_windows(ref: RecordingRef, card: ModelCard) -> Windows:
    from sight.datasets.npz import read_npz

    windows, _ = read_npz(str(ref.path), card.classes)
    if windows.x.shape[2] != card.length:
        raise ValueError(
            f"{ref.name}: expected windows of {card.length} samples ({card.window_s:g} s at {card.rate_hz:g} Hz) "
            f"as the model was trained with, got {windows.x.shape[2]}; cut the recording again."
        )
    return windows


def _file_windows(ref: RecordingRef, card: ModelCard, options: ReadOptions) -> Windows:
    from sight.datasets._timestamps import ZONE_WARNINGS
    from sight.signal import prepare
    from sight.signal.quality import warnings_for

    recording = _file_samples(ref, card, options)
    training = {key: getattr(card, key) for key in ("rate_hz", "channels", "mean", "std")} | {"unit": card.units}
    warnings = [*recording.facts.get("warnings", ()), *warnings_for(recording, training)]
    windows = prepare(
        recording,
        rate_hz=card.rate_hz,
        window_s=card.window_s,
        stride_s=card.stride_s,
        max_gap_s=options.max_gap_s,
        calibration="auto" if options.calibrate else None,
        allow_empty=False,
    )
    if options.calibrate and not windows.facts.get("calibrated"):
        warnings.append(f"Calibration was not applied: {windows.facts.get('calibration_note', 'no rest')}.")
    if windows.facts.get("time_zone") in ZONE_WARNINGS:
        warnings.append(ZONE_WARNINGS[windows.facts["time_zone"]])
    return replace(windows, facts={**windows.facts, "warnings": warnings})


def _file_samples(ref: RecordingRef, card: ModelCard, options: ReadOptions) -> Recording:
    from sight.datasets.user_files import read as read_file
    from sight.signal.units import ROTATION, convert

    recording = read_file(
        str(ref.path),
        columns=options.columns,
        unit=options.unit,
        gyro_unit=options.gyro_unit,
        tz=options.tz,
        time_unit=options.time_unit,
        rate_hz=options.rate_hz,
        expected_hz=card.rate_hz,
        expected_gyro_unit=next((unit for unit in card.units if unit in ROTATION), "deg/s"),
        label_column=options.label_column,
        classes=card.classes if options.label_column else None,
    )
    recording = convert(_with_channels(recording, card.channels), card.units)
    if not np.isfinite(recording.values).any():
        raise ValueError(f"{ref.name} holds no number in {', '.join(card.channels)}; check the columns.")
    return recording


def _with_channels(recording: Recording, channels: tuple[str, ...]) -> Recording:
    """Select the model's channels: by name, by the usual names of an axis, or else by position."""
    from sight.signal.channels import select

    if set(channels) <= set(recording.channels):
        return select(recording, channels)
    by_axis = {_axis(name): name for name in reversed(recording.channels)}
    axes = [_axis(name) for name in channels]
    if set(axes) <= set(by_axis) and len(set(axes)) == len(channels):
        return replace(select(recording, [by_axis[axis] for axis in axes]), channels=channels)
    if len(recording.channels) != len(channels):
        return select(recording, channels)  # raises and names the missing channels
    warning = f"Columns {', '.join(recording.channels)} are taken as {', '.join(channels)}, in this order."
    warnings = [*recording.facts.get("warnings", ()), warning]
    return replace(recording, channels=channels, facts={**recording.facts, "warnings": warnings})


def _axis(channel: str) -> str:
    """Return one name for the usual names of an axis: x, ax, acc_x and accel_x; gx, gyr_x and gyro_x."""
    match = re.fullmatch(r"(?:(a|acc|accel|accelerometer|g|gyr|gyro|gyroscope)_?)?([xyz])", channel.lower())
    return channel if match is None else f"{'gyr' if (match[1] or 'a').startswith('g') else 'acc'}_{match[2]}"
