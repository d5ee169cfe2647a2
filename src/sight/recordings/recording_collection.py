"""Base class of all datasets.

A dataset is a subclass of `Dataset` in a file of its own. It declares facts as class attributes, options as dataclass
fields, and reads a file in one hook, `_read_file`. CONTRIBUTING.md shows the steps.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from sight import params, registry
from sight._util.folder_or_zip import FileStore, data_folder, natural
from sight._util.text import choices
from sight.recordings.labels import label_index
from sight.recordings.signal.preparation import prepare
from sight.recordings.signal.windows import drop_unlabelled, join
from sight.types import Array, Recording, RecordingFacts, Windows

WINDOWING = ("rate_hz", "window_s", "stride_s", "max_gap_s", "label_rule", "unlabelled")


@dataclass(frozen=True, kw_only=True)
class Download:
    """An official file to download."""

    url: str
    #: Hash of the content; without one the file is not verified.
    sha256: str | None = None
    #: Name of a zip inside the official zip that contains the data.
    inner_zip: str | None = None
    #: Name in the data folder; None is the first of the dataset's `folder_names` with ``.zip``.
    filename: str | None = None


@dataclass
class Dataset:
    """A dataset of recordings of several subjects.

    A subclass sets the class attributes below, adds its options as dataclass fields and implements `_read_file`, or
    `_read_recordings` if a recording is not one file. Class attributes describe the default options; `__post_init__`
    may call `_override` for other options.

    Parameters
    ----------
    root
        Folder or zip with the official files; None searches the data folder (`SIGHT_DATA`) for `folder_names`.
    """

    root: Path | str | None = None

    #: Registry name, and one line for lists.
    name: ClassVar[str]
    title: ClassVar[str]
    classes: ClassVar[tuple[str, ...]] = ()
    #: Label in the files to class name; an empty name marks a valid label that is not used.
    label_map: ClassVar[Mapping[Any, str]] = {}
    channels: ClassVar[tuple[str, ...]] = ()
    units: ClassVar[tuple[str, ...]] = ()
    rate_hz: ClassVar[float]
    #: How windows are cut by default, as in `sight.recordings.signal.prepare`.
    window_s: ClassVar[float]
    stride_s: ClassVar[float]
    max_gap_s: ClassVar[float] = 0.5
    label_rule: ClassVar[str] = "majority"
    #: "keep" or "drop" windows without a label.
    unlabelled: ClassVar[str] = "keep"
    #: Whether `time_s` of all recordings of a subject counts from the same moment.
    one_clock: ClassVar[bool] = False
    licence: ClassVar[str]
    citation: ClassVar[str]
    homepage: ClassVar[str]
    version: ClassVar[str]
    #: Official file names, shown in messages about missing files.
    official_files: ClassVar[tuple[str, ...]]
    #: Names of the folder or zip (without ``.zip``) to look for in the data folder.
    folder_names: ClassVar[tuple[str, ...]]
    #: Regular expression for the files of a subject; the group ``subject`` is the subject's name.
    subject_pattern: ClassVar[str]
    downloads: ClassVar[tuple[Download, ...]] = ()
    #: Number of subjects in the official files; None if it is not fixed.
    subject_count: ClassVar[int | None] = None

    def subjects(self) -> tuple[str, ...]:
        """Return the names of all subjects with files, in natural order."""
        return tuple(self._files_by_subject)

    @final
    def recordings(self, subject: str) -> Iterator[Recording]:
        """Yield the recordings of a subject in time order, one at a time."""
        for recording in self._read_recordings(subject, self._files_of(subject)):
            if len(recording.values) == 0:
                raise ValueError(
                    f"{self.name}: a recording of subject {subject} has no samples "
                    f"({recording.facts.file or 'unknown file'}); remove the file or download it again."
                )
            yield recording

    @final
    def windows(self, subject: str, *, cache: bool = True, **overrides: Any) -> Windows:
        """Return the windows of a subject's recordings, joined in time order.

        `cache` stores them on disk for the next call. `overrides` replace the dataset's own `rate_hz`, `window_s`,
        `stride_s`, `max_gap_s`, `label_rule` ("majority", "whole", "centre") or `unlabelled` ("keep", "drop").
        """
        files, windowing = self._files_of(subject), self.windowing(**overrides)
        if not cache:
            return self._checked_windows(subject, windowing)
        from sight.recordings.window_cache import cached

        paths, members = self.store.identity(self._input_files(files))
        key = {"dataset": self.name, "subject": subject, "options": self._options(), "windowing": windowing, **members}
        return cached(paths, key, lambda: self._checked_windows(subject, windowing))

    @final
    def windowing(self, **overrides: Any) -> dict[str, Any]:
        """Return the parameters by which windows are cut, with overrides applied."""
        own = {key: getattr(self, key) for key in WINDOWING}
        for key in overrides:
            if key not in own:
                raise TypeError(f"{self.name}: windows are set by {', '.join(own)}, not by {key!r}.")
        windowing = own | overrides
        if windowing["unlabelled"] not in ("keep", "drop"):
            raise ValueError(f"{self.name}: expected unlabelled 'keep' or 'drop', got {windowing['unlabelled']!r}.")
        return windowing

    def _read_file(self, subject: str, file: str) -> Recording:
        """Return the recording in a file; see `_recording` and `_class_indices`."""
        raise NotImplementedError

    def _read_recordings(self, subject: str, files: Sequence[str]) -> Iterator[Recording]:
        """Yield the recordings in a subject's files, in time order; by default one per file, in natural order."""
        for file in files:
            yield self._read_file(subject, file)

    def _make_windows(self, subject: str, windowing: Mapping[str, Any]) -> Windows:
        """Return the windows of a subject; override for datasets with a window protocol of their own."""
        fields = {key: value for key, value in windowing.items() if key != "unlabelled"}
        fields |= {"channels": self.channels, "unit": self.units}
        return join([prepare(recording, **fields) for recording in self.recordings(subject)], one_clock=self.one_clock)

    def _input_files(self, files: Sequence[str]) -> Sequence[str]:
        """Return all files that determine a subject's windows; override if files of several subjects do."""
        return files

    def _options(self) -> dict[str, Any]:
        """Return the options that determine the windows, for the key of the cache."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "root"}

    @cached_property
    def _files_by_subject(self) -> dict[str, list[str]]:
        """Files of each subject; override if file names do not contain the subject."""
        index: dict[str, list[str]] = {}
        for name in self.store.names:
            match = re.search(self.subject_pattern, name)
            if match:
                index.setdefault(match["subject"], []).append(name)
        if not index:
            inner = [name for name in self.store.names if name.endswith(".zip")]
            remedy = f"unpack {inner[0]} first." if inner else self.where_to_put(self.store.root.parent)
            raise ValueError(
                f"{self.name}: no subject in {self.store.root}, expected files such as {self.official_files[0]}; "
                f"{remedy}"
            )
        return natural_order(index)

    @classmethod
    def where_to_put(cls, folder: Path) -> str:
        """Return which official files belong where, for the end of an error message."""
        return (
            f"put {', '.join(cls.official_files)} from {cls.homepage} into the folder {folder / cls.folder_names[0]} "
            f"(or their zip at {folder / cls.folder_names[0]}.zip), or set SIGHT_DATA to the folder that contains it."
        )

    def _override(self, **attributes: Any) -> None:
        """Set attributes of this instance that differ from its class, as its options require."""
        vars(self).update(attributes)

    def _recording(self, subject: str, file: str, values: Array, **fields: Any) -> Recording:
        """Return a recording with the dataset's channels, units and rate, and regular times if `time_s` is missing."""
        fields.setdefault("time_s", np.arange(len(values)) / self.rate_hz)
        fields["facts"] = RecordingFacts.from_dict({"file": file, **fields.get("facts", {})})
        return Recording(
            values=values, channels=self.channels, unit=self.units, rate_hz=self.rate_hz, subject=subject, **fields
        )

    def _class_indices(self, labels: Any, where: str) -> Array:
        """Return the class index of each label in the files, -1 if unused; raise ValueError if not in `label_map`."""
        label_map = {str(label): name if name in self.classes else "" for label, name in self.label_map.items()}
        index = label_index(self.classes, label_map)
        values, inverse = np.unique(labels, return_inverse=True)
        for value in values.tolist():
            if value not in self.label_map:
                raise ValueError(
                    f"{self.name}: label {value!r} in {where} is not in the map; expected {', '.join(label_map)}."
                )
        return np.array([index[str(value).casefold()] for value in values.tolist()], dtype=np.int16)[inverse]

    @cached_property
    def store(self) -> FileStore:
        return FileStore(self._find_root())

    def _find_root(self) -> Path:
        if self.root is not None:
            candidates = [Path(self.root)]
        else:
            folder = data_folder()
            candidates = [folder / f"{name}{ending}" for name in self.folder_names for ending in ("", ".zip")]
        for candidate in candidates:
            if candidate.exists():
                return candidate
        raise ValueError(f"{self.name}: found nothing at {candidates[-1]}; {self.where_to_put(candidates[-1].parent)}")

    def _files_of(self, subject: str) -> list[str]:
        if not isinstance(subject, str):
            raise ValueError(f"{self.name}: subjects are text; expected {str(subject)!r}, got {subject!r}.")
        if subject not in self._files_by_subject:
            raise ValueError(f"{self.name} has no subject {subject!r}; {choices(subject, self._files_by_subject)}")
        return self._files_by_subject[subject]

    def _checked_windows(self, subject: str, windowing: Mapping[str, Any]) -> Windows:
        windows = self._make_windows(subject, windowing)
        if windowing["unlabelled"] == "drop":
            windows = drop_unlabelled(windows, windowing["max_gap_s"])
        if len(windows) == 0:
            raise ValueError(
                f"{self.name}: subject {subject} has no window of {windowing['window_s']:g} s; all recordings are "
                f"shorter, have gaps or no label; choose a shorter window_s or leave the subject out."
            )
        return windows


def natural_order(index: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Sort subjects by number if each has exactly one, else by name.

    >>> list(natural_order({"S10": [], "S9": []})), list(natural_order({"4E": [], "10B": []}))
    (['S9', 'S10'], ['10B', '4E'])
    """
    numbered = all(re.fullmatch(r"\D*\d+", subject) for subject in index)
    return {subject: index[subject] for subject in (sorted(index, key=natural) if numbered else sorted(index))}


def load(name: str, root: Path | str | None = None, **options: Any) -> Any:
    """Return a dataset by its registry name.

    `root` is the folder or zip with the official files; None searches the data folder (`SIGHT_DATA`). `options` are
    fields of the dataset; a ValueError lists those that are unknown or have a wrong value.

    Examples
    --------
    >>> load("harth", sensor="back").channels
    ('back_x', 'back_y', 'back_z')
    """
    cls = registry.get("datasets", name)
    fields = options if root is None else {"root": root, **options}
    if hasattr(cls, "__dataclass_fields__"):
        params.check(cls, fields)
    return cls(**fields)


def windows_of(dataset: Any, subject: str, **overrides: Any) -> Windows:
    """Return the windows of a subject, with overrides as in `Dataset.windows`.

    A dataset that is not a `Dataset` needs `recordings`, `rate_hz`, `window_s`, `stride_s` and `max_gap_s`.
    """
    if hasattr(dataset, "windows"):
        windows: Windows = dataset.windows(subject, **overrides)
        return windows
    own = {key: getattr(dataset, key) for key in ("rate_hz", "window_s", "stride_s", "max_gap_s")} | overrides
    drop = own.pop("unlabelled", "keep") == "drop"
    windows = join([prepare(recording, **own) for recording in dataset.recordings(subject)])
    return drop_unlabelled(windows, own["max_gap_s"]) if drop else windows


def info(dataset: Any, on_subject: Callable[[int, str], None] | None = None) -> Iterator[dict[str, Any]]:
    """Yield a description of each subject: windows, label counts, seconds, gaps, warnings and facts of the signal.

    `on_subject` is called with the number of subjects done and the name of the last one, for progress bars.
    """
    for done, subject in enumerate(dataset.subjects(), start=1):
        windows = windows_of(dataset, subject)
        counts = np.bincount(windows.label[windows.label >= 0], minlength=len(dataset.classes))
        yield {
            "subject": subject,
            "windows": len(windows),
            "labels": dict(zip(dataset.classes, counts.tolist(), strict=True)),
            "unlabelled": int((windows.label < 0).sum()),
            "seconds": round(len(windows) * windows.stride_s, 3),
            "gaps": int((windows.gap_before_s > 0).sum()),
            "gap_seconds": round(float(windows.gap_before_s.sum()), 3),
            "warnings": [dataclasses.asdict(warning) for warning in windows.warnings],
            "facts": windows.facts.as_dict(),
        }
        if on_subject:
            on_subject(done, subject)
