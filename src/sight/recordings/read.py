"""Read recordings as windows for a model: files, several files of a subject, and subjects of datasets."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sight import registry
from sight._util.progress import Bar, OnShare, begin
from sight.base import Source
from sight.models.card import ModelCard, filled, require_card
from sight.recordings.labels import with_classes_of_model
from sight.recordings.reading_options import Expected, ReadOptions
from sight.recordings.recording_references import RecordingRef, find_recording, find_subject, open_dataset
from sight.recordings.signal.clock import MAX_GAP_S
from sight.recordings.signal.epochs import window_means
from sight.recordings.signal.intensity import intensity
from sight.recordings.signal.windows import UNKNOWN_GAP_S
from sight.types import Recording, Warning, Windows

#: Fields of the card that `info.json` contains.
CARD_FIELDS = ("encoder", "dataset", "rate_hz", "window_s", "stride_s", "channels", "units", "sight_version")
#: Two files of a subject may overlap by this much, which jitter of their times can cause.
OVERLAP_S = 0.1
_Part = TypeVar("_Part", Recording, Windows)


def read(target: str | Path | Sequence[str | Path], model: Source | ModelCard | str | Path, **options: Any) -> Windows:
    r"""Read one recording as windows with the sampling rate, channels, units and window length of a model.

    Parameters
    ----------
    target
        A file, several files of one subject, or a subject of a dataset such as "synthetic:W12".
    model
        A source model, its card, or the path of a model file.
    options
        Fields of `ReadOptions`.

    Returns
    -------
    Windows
        `warnings` lists what looks wrong with the recording, such as an unlikely unit or a missing time zone; it is
        empty if nothing does.

    Examples
    --------
    >>> import tempfile
    >>> from sight.testing import toy_network
    >>> file = Path(tempfile.mkdtemp()) / "walk.csv"
    >>> _ = file.write_text("time,x,y,z\n" + "".join(f"{t / 10},0,0,1\n" for t in range(100)))
    >>> windows = read(file, toy_network(), tz="UTC")
    >>> windows.x.shape, windows.warnings
    ((9, 3, 20), ())
    """
    if isinstance(model, str | Path):
        from sight.models.load import load

        card = require_card(load(model), model)
    else:
        card = model if isinstance(model, ModelCard) else require_card(model)
    return read_windows(find_recording(target), card, ReadOptions(**options))


def read_windows(ref: RecordingRef, card: ModelCard, options: ReadOptions, *, progress: Bar | None = None) -> Windows:
    """Read a recording as windows for the model with this card; see `read`. Files are read with a progress bar."""
    from sight.recordings.recording_collection import windows_of
    from sight.recordings.signal.quality import check_domain, saturation_warnings

    if ref.dataset:
        dataset = dataset_of(ref, card, options)
        windowing = {"rate_hz": card.rate_hz, "window_s": card.window_s, "stride_s": card.stride_s}
        windows = windows_of(dataset, find_subject(dataset, ref.subject), **windowing)
        windows = with_classes_of_model(windows, dataset.classes, card.classes, options.names)
    else:
        parts = _in_time_order(ref, [_file_windows(path, card, options, ref.content, progress) for path in ref.files])
        windows = parts[0] if len(parts) == 1 else _joined(ref, parts)
    if windows.x.shape[1] != len(card.channels):
        raise ValueError(
            f"{ref.name}: expected the {len(card.channels)} channels of the model ({', '.join(card.channels)}), got "
            f"{windows.x.shape[1]}; choose them with columns (--columns) or dataset options (--option)."
        )
    epochs = windows.epochs
    moved = window_means(epochs, windows.time_s, windows.window_s) if epochs else intensity(windows.x, card.units)
    placement = options.placement or str(card.about.get("placement", "")).partition(",")[0]
    facts = replace(windows.facts, placement=placement.strip().lower() or None)
    warnings = (*windows.warnings, *saturation_warnings(facts.saturated_share))
    windows = replace(windows, x=filled(windows.x, card.fill), intensity=moved, warnings=warnings, facts=facts)
    return check_domain(windows, card)


def read_samples(ref: RecordingRef, card: ModelCard, options: ReadOptions) -> Iterator[Recording]:
    """Yield the recordings behind a reference in time order, with the channels and units of the model."""
    if not ref.dataset:
        parts = [_file_samples(path, card, options, ref.content) for path in ref.files]
        yield from on_one_clock(_in_time_order(ref, parts))
        return
    dataset = dataset_of(ref, card, options)
    recordings = dataset.recordings(find_subject(dataset, ref.subject))
    for recording in on_one_clock(recordings, shared=dataset.one_clock):
        yield recording if recording.channels == card.channels else _with_channels(recording, card.channels)


def describe_run(ref: RecordingRef, card: ModelCard, model: str | Path, windows: Windows) -> dict[str, Any]:
    return {
        "subject": ref.subject or ref.name,
        "input": {"name": ref.name, "file": ref.file_names, "dataset": ref.dataset, **windows.facts.as_dict()},
        "model": {"file": Path(model).name, **{name: getattr(card, name) for name in CARD_FIELDS}},
    }


def on_one_clock(recordings: Iterable[Recording], *, shared: bool = False) -> Iterator[Recording]:
    """Shift the times of one subject's recordings so that they follow each other, as `join` does.

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


def dataset_of(ref: RecordingRef, card: ModelCard, options: ReadOptions) -> Any:
    """Return the dataset of a reference; without options, with those of the model's training on the same dataset."""
    if ref.dataset == "folder" and "root" in options.dataset_options:
        own = dict(options.dataset_options)
        return open_dataset(str(own.pop("root")), own, reading=options.given())
    trained_on = card.training.get("options", {}) if card.dataset == ref.dataset else {}
    if options.dataset_options or not trained_on:
        return open_dataset(ref.dataset, options.dataset_options)
    return registry.get("datasets", ref.dataset)(**trained_on)


def _in_time_order(ref: RecordingRef, parts: list[_Part]) -> list[_Part]:
    """Sort the parts of a recording by their start if all have one; raise ValueError if they overlap."""
    if len(parts) < 2 or any(part.start is None for part in parts):
        return parts
    starts = [part.start.timestamp() if part.start else 0.0 for part in parts]
    lengths_s = [part.window_s if isinstance(part, Windows) else 0.0 for part in parts]
    spans = [
        (start + part.time_s.min(), start + part.time_s.max() + length_s)
        for start, part, length_s in zip(starts, parts, lengths_s, strict=True)
    ]
    order = sorted(range(len(parts)), key=lambda index: spans[index])
    for before, after in pairwise(order):
        overlap_s = spans[before][1] - spans[after][0]
        if overlap_s > OVERLAP_S:
            raise ValueError(
                f"{ref.name}: {ref.files[after].name} begins {overlap_s:.1f} s before {ref.files[before].name} ends, "
                f"but files of one subject must not overlap; leave one out or cut it. If they are of different "
                f"subjects, read each file on its own (--separate)."
            )
    return [parts[index] for index in order]


def _joined(ref: RecordingRef, parts: list[Windows]) -> Windows:
    from sight.recordings.signal import join

    files_of: dict[Warning, list[str]] = {}
    for part in parts:
        for warning in part.warnings:
            files_of.setdefault(warning, []).append(part.facts.file or "")
    warnings = [
        warning if len(files) == len(parts) else replace(warning, text=f"{', '.join(files)}: {warning.text}")
        for warning, files in files_of.items()
    ]
    if any(part.start is None for part in parts):
        text = (
            f"The files have no dates: {ref.file_names} are joined in this order, with an assumed pause of "
            f"{UNKNOWN_GAP_S / 3600:g} h between them."
        )
        warnings.append(Warning(kind="file-order", severity="warning", text=text))
    windows = join(parts)
    facts = replace(windows.facts, files=[part.facts.file or "" for part in parts])
    return replace(windows, facts=facts, warnings=tuple(warnings))


def _npz_windows(path: Path, card: ModelCard) -> Windows:
    from sight.recordings.npz_recordings import read_npz

    windows, _ = read_npz(path, card.classes)
    if not len(windows):
        raise ValueError(f"{path.name} has no windows; is the file complete?")
    if windows.x.shape[2] != card.length:
        raise ValueError(
            f"{path.name}: expected windows of {card.length} samples ({card.window_s:g} s at {card.rate_hz:g} Hz) "
            f"as the model was trained with, got {windows.x.shape[2]}; cut the recording again."
        )
    return windows


def _file_windows(
    path: Path, card: ModelCard, options: ReadOptions, content: Any, progress: Bar | None = None
) -> Windows:
    if path.name.lower().endswith(".npz"):
        return _npz_windows(path, card)
    from sight.recordings.signal.preparation import STEPS, prepare
    from sight.recordings.signal.quality import training_facts, warnings_for
    from sight.recordings.timestamps import ZONE_WARNINGS

    megabytes = 1 + (content.nbytes if content is not None else path.stat().st_size) // 1_000_000
    with begin(progress, f"{path.name}, reading", megabytes, "MB") as show:
        recording = _file_samples(path, card, options, content, lambda share: show(round(share * megabytes)))
    warnings = [*recording.warnings, *warnings_for(recording, training_facts(card))]
    with begin(progress, f"{path.name}, preparing", STEPS, "steps") as show:
        windows = prepare(
            recording,
            rate_hz=card.rate_hz,
            window_s=card.window_s,
            stride_s=card.stride_s,
            max_gap_s=MAX_GAP_S if options.max_gap is None else options.max_gap,
            calibration="auto" if options.calibrate else None,
            epochs=True,
            overwrite=True,
            on_step=show,
        )
    if not len(windows):
        raise ValueError(
            f"{path.name} has no stretch of {card.window_s:g} s, the window of the model, without a gap, so no window "
            f"fits; record longer, or allow longer pauses with max_gap (--max-gap)."
        )
    if options.calibrate and not windows.facts.calibrated:
        text = f"Calibration was not applied: {windows.facts.calibration_note or 'no rest'}."
        warnings.append(Warning(kind="calibration", severity="note", text=text))
    if windows.facts.time_zone in ZONE_WARNINGS:
        warnings.append(ZONE_WARNINGS[windows.facts.time_zone])
    return replace(windows, warnings=tuple(warnings))


def _file_samples(
    path: Path, card: ModelCard, options: ReadOptions, content: Any, on_share: OnShare | None = None
) -> Recording:
    from sight.recordings.recording_files import read, read_table
    from sight.recordings.signal.channels import convert
    from sight.recordings.tables import Table

    expected = Expected.by(card)
    if content is None:
        recording = read(path, options, expected, on_share=on_share)
    else:
        recording = read_table(Table(path, content), options, expected, on_share=on_share)
    if options.label_column and recording.labels is None:
        raise ValueError(f"{recording.facts.file}: a device file has no label column; give a diary (--labels).")
    recording = convert(_with_channels(recording, card.channels), card.units, overwrite=True)
    if not (np.isfinite(recording.values[:1000]).any() or np.isfinite(recording.values).any()):
        raise ValueError(
            f"{path.name} holds no number in {', '.join(card.channels)}; choose other columns with columns (--columns)."
        )
    return recording


def _with_channels(recording: Recording, channels: tuple[str, ...]) -> Recording:
    from sight.recordings.columns import match_channels
    from sight.recordings.signal.channels import select

    if (found := match_channels(recording.channels, channels)) is not None:
        return replace(select(recording, found), channels=channels)
    if len(recording.channels) != len(channels):
        return select(recording, channels)  # raises and names the missing channels
    text = f"Columns {', '.join(recording.channels)} are taken as {', '.join(channels)}, in this order."
    warning = Warning(kind="channels", severity="warning", text=text)
    return replace(recording, channels=channels, warnings=(*recording.warnings, warning))
