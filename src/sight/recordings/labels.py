"""Labels to classes, without regard to case: of diaries (`sight.recordings.diaries`), of columns and of datasets."""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sight.recordings.diaries import Annotation, read_diary
from sight.types import UNLABELLED, Array, Recording, Warning, Windows

#: A label such as 1.0, which is the same as 1.
WHOLE_NUMBER = re.compile(r"-?\d+\.0+")


def label_windows(
    path: str | Path,
    windows: Windows,
    classes: Sequence[str],
    label_map: Mapping[str, str] | None = None,
    *,
    subject: str | None = None,
) -> Array:
    """Return the class index of each window: the class that covers most of it, -1 if most of it is unlabelled.

    Parameters
    ----------
    path
        Diary.
    windows
        Windows of the annotated recording.
    classes
        Names of the K classes, compared without case.
    label_map
        Labels of the file to class names; an empty class name marks a label as unlabelled. See `read_label_map`.
    subject
        Whose rows to use if the file has a column ``subject``; None uses all rows.

    Raises
    ------
    ValueError
        If a label is unknown, a row ends before it starts, rows overlap, or no row overlaps the recording.
    """
    path = Path(path)
    span_s = (float(windows.time_s[0]), float(windows.time_s[-1] + windows.window_s)) if len(windows) else (0.0, 0.0)
    rows = read_diary(path, windows.start, span_s, subject=subject)
    return _majority(rows, _indices_of_rows(path, rows, classes, label_map or {}), len(classes), windows)


def label_samples(
    path: str | Path,
    recording: Recording,
    classes: Sequence[str],
    label_map: Mapping[str, str] | None = None,
    *,
    subject: str | None = None,
    shared: bool = False,
) -> Array:
    """Return the class index of each sample of a recording, -1 if it is unlabelled; parameters as in `label_windows`.

    A diary that is `shared` by several recordings of a subject needs clock times, and may lie outside of this one.
    """
    path, time_s = Path(path), recording.time_s
    if not np.isfinite(time_s).any():
        raise ValueError(f"{path.name}: expected a recording with times, got none; check its time column.")
    span_s = (float(np.nanmin(time_s)), float(np.nanmax(time_s)) + 1 / recording.rate_hz)
    rows = read_diary(path, recording.start, span_s, subject=subject, clock_times_only=shared, may_miss=shared)
    if not rows:
        return np.full(len(time_s), UNLABELLED, np.int16)
    indices = _indices_of_rows(path, rows, classes, label_map or {}).astype(np.int16)
    starts, ends = (np.array([getattr(row, name) for row in rows]) for name in ("start_s", "end_s"))
    latest = np.maximum(np.searchsorted(starts, time_s, side="right") - 1, 0)
    is_inside = (time_s >= starts[latest]) & (time_s < ends[latest])
    return np.where(is_inside, indices[latest], np.int16(UNLABELLED))


def read_label_map(path: str | Path) -> dict[str, str]:
    """Read a TOML file of ``"label in the file" = "class name"``; an empty class name means unlabelled.

    The entries stand at the top level or in a table ``[labels]``, as in the map of a folder dataset.
    """
    path = Path(path)
    label_map = tomllib.loads(path.read_text(encoding="utf-8"))
    label_map = label_map["labels"] if isinstance(label_map.get("labels"), dict) else label_map
    for label, name in label_map.items():
        if not isinstance(name, str):
            raise ValueError(f'{path.name}: expected "label" = "class", got {label} = {name!r}; give one text each.')
    return label_map


def label_index(classes: Sequence[str], label_map: Mapping[str, str]) -> dict[str, int]:
    """Return the class index of each class name and label in lower case, -1 for empty and unused ones.

    An empty class name in `label_map` marks a label that is not used. Class names need no entry.

    >>> label_index(["Walk", "Rest"], {"Stroll": "walk", "tv": ""})
    {'walk': 0, 'rest': 1, '': -1, 'stroll': 0, 'tv': -1}
    """
    index = {name.casefold(): k for k, name in enumerate(classes)}
    mapped: dict[str, int] = {"": UNLABELLED}
    for label, name in label_map.items():
        if name and name.casefold() not in index:
            raise ValueError(
                f"{label!r} is mapped to {name!r}, which is not a class; the classes are {', '.join(classes)}. "
                f"Correct it in names (--names; in MAP.toml under [labels])."
            )
        own = index[name.casefold()] if name else UNLABELLED
        if mapped.setdefault(label.casefold(), own) != own:
            raise ValueError(f"Labels that differ only in case have two classes: {label!r} is also {name!r}; keep one.")
    return index | mapped


def classes_of_labels(
    where: object, counts: Mapping[str, int], classes: Sequence[str], label_map: Mapping[str, str], unit: str
) -> dict[str, int]:
    """Return the class index of each label; raise ValueError if one is unknown.

    `counts` is how often each label occurs in `where`; `unit` is what it counts ("row", "sample"), for the message.
    The other parameters are those of `label_index`.
    """
    index = label_index(classes, label_map)
    unknown = {label: n for label, n in counts.items() if label.casefold() not in index}
    if unknown:
        listed = ", ".join(f"{label!r} ({n} {unit}{'' if n == 1 else 's'})" for label, n in unknown.items())
        known = dict.fromkeys([*label_map, *classes])
        raise ValueError(
            f"{where}: {listed} {'is not a known label' if len(unknown) == 1 else 'are not known labels'}; known are "
            f'{", ".join(known)}. Correct them, or map them with names (--names FILE with "{next(iter(unknown))}" = '
            f'"CLASS"; in MAP.toml under [labels]), with an empty class for those that are not used.'
        )
    return {label: index[label.casefold()] for label in counts}


def class_names(label_map: Mapping[str, str]) -> tuple[str, ...]:
    """Return the classes of a map from label to class, in order; of names that differ only in case, the first.

    >>> class_names({"1": "Walk", "2": "", "3": "sit", "4": "walk"})
    ('Walk', 'sit')
    """
    names: dict[str, str] = {}
    for name in label_map.values():
        names.setdefault(name.casefold(), name)
    return tuple(name for name in names.values() if name)


def label_codes(column: Any, codes: dict[str, int]) -> Array:
    """Return a code for each label of a pyarrow column; new labels are added to `codes`."""
    encoded = column.dictionary_encode()
    names = [_label_text(value) for value in encoded.dictionary.to_pylist()]
    own = [codes.setdefault(name, len(codes)) if name else UNLABELLED for name in names]
    index: Array = encoded.indices.fill_null(len(own)).to_numpy()
    return np.array([*own, UNLABELLED], np.int16)[index]


def class_indices(
    where: str, codes: Array, names: list[str], classes: Sequence[str], label_map: Mapping[str, str]
) -> tuple[Array, list[str]]:
    """Return the class index of each code of `label_codes`, and the classes: those of the map or file if none given."""
    label_map = {_label_text(label): name for label, name in label_map.items()}
    classes = classes or class_names(label_map) or sorted(names)
    counts = dict(zip(names, np.bincount(codes[codes >= 0], minlength=len(names)).tolist(), strict=True))
    index = classes_of_labels(where, counts, classes, label_map, "sample")
    return np.array([*(index[name] for name in names), UNLABELLED], np.int16)[codes], list(classes)


def with_classes_of_model(
    windows: Windows, own: Sequence[str], classes: Sequence[str], names: Mapping[str, str] | None = None
) -> Windows:
    """Return windows whose labels, indices of the dataset's `own` classes, are indices of the model's `classes`.

    Classes are compared by name, without case; `names` gives the model's class of a class of the dataset. Labels that
    are no class of the model become unlabelled, with a warning.
    """
    if tuple(own) == tuple(classes) and not names:
        return windows
    index = label_index(classes, names or {})
    to_model = np.array([*(index.get(name.casefold(), UNLABELLED) for name in own), UNLABELLED])
    used = set(np.unique(windows.label).tolist()) - {UNLABELLED}
    unknown = [name for k, name in enumerate(own) if k in used and name.casefold() not in index]
    warning = Warning(
        kind="labels",
        severity="warning",
        text=f"Labels {', '.join(unknown)} are no classes of the model ({', '.join(classes)}); "
        f"they count as unlabelled.",
        remedy="Map them with names (--names).",
    )
    warnings = (*windows.warnings, warning) if unknown else windows.warnings
    return replace(windows, label=to_model[windows.label], warnings=warnings)


def _label_text(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    text = str(value).strip()
    return text.partition(".")[0] if WHOLE_NUMBER.fullmatch(text) else text


def _indices_of_rows(
    path: Path, rows: Sequence[Annotation], classes: Sequence[str], label_map: Mapping[str, str]
) -> Array:
    index = classes_of_labels(path.name, Counter(row.label for row in rows), classes, label_map, "row")
    return np.array([index[row.label] for row in rows], dtype=np.int64)


def _majority(rows: Sequence[Annotation], indices: Array, n_classes: int, windows: Windows) -> Array:
    """Return the class with the largest overlap with each window, -1 where unlabelled time is longer."""
    ranges = np.array([(row.start_s, row.end_s) for row in rows]).reshape(-1, 2)
    first, last = windows.time_s, windows.time_s + windows.window_s
    covered = np.zeros((len(windows), n_classes))
    for k in np.unique(indices[indices != UNLABELLED]):
        own = ranges[indices == k]
        # Labelled seconds up to a time are piecewise linear, so the overlap is a difference of two interpolations.
        total = np.cumsum(own[:, 1] - own[:, 0])
        seconds = np.column_stack([np.append(0.0, total[:-1]), total]).ravel()
        covered[:, k] = np.interp(last, own.ravel(), seconds) - np.interp(first, own.ravel(), seconds)
    unlabelled_s = windows.window_s - covered.sum(axis=1)
    is_labelled = covered.max(axis=1, initial=0.0) >= np.maximum(unlabelled_s, 1e-9)
    return np.where(is_labelled, covered.argmax(axis=1), UNLABELLED)
