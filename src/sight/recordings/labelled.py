"""Recordings to evaluate a model on: one or several, each with its labels."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sight import registry
from sight.models.card import ModelCard
from sight.recordings.diaries import diary_expression, find_diary
from sight.recordings.labels import label_windows
from sight.recordings.read import dataset_of
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_folder import MAP
from sight.recordings.recording_references import RecordingRef, find_recordings, find_subject
from sight.recordings.signal.quality import refuse_errors
from sight.types import UNLABELLED, Warning, Windows


def find_labelled(
    target: str, card: ModelCard, options: ReadOptions, labels: str | Path | None = None
) -> tuple[list[RecordingRef], ReadOptions]:
    """List the recordings behind a target, and return the options to read them with.

    A target is a file; a folder of files, or with a ``MAP.toml`` that states where the labels are; subjects of a
    dataset such as "hapt:1,2,3"; or the name of a dataset for all its subjects. `labels` is the place of the diaries
    as in `sight.recordings.diaries.find_diary`; diaries in the folder are no recordings.
    """
    path = Path(target)
    if path.is_dir() and (path / MAP).is_file() and labels is None and options.label_column is None:
        options = replace(options, dataset_options={"root": path, **options.dataset_options})
        return _subjects("folder", None, card, options), options
    name, colon, subjects = target.partition(":")
    if not path.exists() and name.lower() in registry.names("datasets"):
        wanted = [text.strip() for text in subjects.split(",")] if colon else None
        return _subjects(name.lower(), wanted, card, options), options
    refs = find_recordings(target)
    if labels is not None and len(refs) > 1:
        is_diary = re.compile(diary_expression(labels))
        refs = [ref for ref in refs if ref.path is None or not is_diary.fullmatch(ref.path.as_posix())]
    return refs, options


def diaries_of(refs: list[RecordingRef], labels: str | Path) -> dict[str, Path]:
    """Return the diary of each recording by its name; raise ValueError if one does not exist."""
    return {ref.name: find_diary(labels, subject=_subject(ref), recording=ref.name) for ref in refs}


def labelled(
    windows: Windows,
    ref: RecordingRef,
    card: ModelCard,
    *,
    diary: Path | None = None,
    names: Mapping[str, str] | None = None,
    shared: bool = False,
) -> Windows:
    """Return windows with their labels, and with a warning if their subject was in the training of the model.

    Without a `diary`, the windows already have their labels; `names` maps labels of the diary to classes of the model.
    If it is `shared` by several recordings, its column ``subject`` chooses the rows. Raises ValueError if no window
    has a label, or if a warning is an error: scores of wrong numbers are no scores of the model.
    """
    refuse_errors(ref.name, windows.warnings)
    if diary is not None:
        subject = _subject(ref) if shared else None
        windows = replace(windows, label=label_windows(diary, windows, card.classes, names, subject=subject))
    if not (windows.label != UNLABELLED).any():
        raise ValueError(
            f"{ref.name} has no label that is a class of the model; give labels with --labels diary.csv or "
            f"--label-column NAME."
        )
    if not is_in_training(ref, card):
        return windows
    warning = Warning(
        kind="training",
        severity="warning",
        text=f"{_subject(ref)} was in the training of the model, so these scores are too high for a new wearer.",
        remedy="evaluate subjects that were left out.",
    )
    return replace(windows, warnings=(*windows.warnings, warning))


def is_in_training(ref: RecordingRef, card: ModelCard) -> bool | None:
    """Return whether the subject was in the training of the model; None if that is unknown.

    It is known if both are of the same dataset, or of the user's own files, and the card lists the subjects.
    """
    subjects = set(card.training.get("subjects", ()))
    own = "folder" if ref.path is not None else ref.dataset
    if not subjects or own != card.dataset:
        return None
    # The subjects of a user's folder are its files and subfolders.
    names = {ref.subject} if ref.path is None else {ref.name, _subject(ref), ref.path.parent.name}
    return bool(names & subjects)


def _subject(ref: RecordingRef) -> str:
    return ref.subject or ref.name


def _subjects(name: str, wanted: list[str] | None, card: ModelCard, options: ReadOptions) -> list[RecordingRef]:
    dataset = dataset_of(RecordingRef(name=name, dataset=name), card, options)
    found = dataset.subjects() if wanted is None else [find_subject(dataset, text) for text in wanted]
    prefix = "" if name == "folder" else f"{name}-"
    return [RecordingRef(name=prefix + who, dataset=name, subject=who) for who in dict.fromkeys(found)]
