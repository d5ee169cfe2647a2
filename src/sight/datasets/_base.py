"""What every corpus has in common: facts in one place, files by official names, recordings in time order."""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from sight.datasets._dataset_files import Store, data_folder, natural
from sight.datasets._window_protocols import join_on_one_clock, without_unlabelled
from sight.ops import choices
from sight.types import UNLABELLED, Array, Recording, Windows

WINDOWING = ("rate_hz", "window_s", "stride_s", "max_gap_s", "label_rule", "unlabelled")


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file at its official place.

    Parameters
    ----------
    url
        Where it is.
    sha256
        What its content hashes to, or None where we could not find out; then nothing is verified, and that is said.
    inside
        Name of an inner zip that holds the data, where the official zip only wraps another.
    file
        Name to keep it under in the data folder; None is the corpus's own name with ``.zip``.
    """

    url: str
    sha256: str | None = None
    inside: str | None = None
    file: str | None = None


@dataclass
class Dataset(ABC):
    """A corpus of recordings of several people; subclasses add options as fields and write `_recordings`.

    Class attributes are the facts under default options; an instance whose options differ has its own.

    Parameters
    ----------
    root
        Folder or zip with the official files; None looks in the folder of `SIGHT_DATA` under the corpus's names.
    """

    root: Path | str | None = None

    name: ClassVar[str]
    title: ClassVar[str]
    classes: ClassVar[tuple[str, ...]]
    #: Label in the files to class; the empty class means that the label is known and not used.
    label_map: ClassVar[Mapping[Any, str]]
    channels: ClassVar[tuple[str, ...]]
    units: ClassVar[tuple[str, ...]]
    rate_hz: ClassVar[float]
    window_s: ClassVar[float]
    stride_s: ClassVar[float]
    max_gap_s: ClassVar[float] = 0.5
    label_rule: ClassVar[str] = "majority"
    #: "keep" leaves windows without a label in the stream, "drop" takes them out.
    unlabelled: ClassVar[str] = "keep"
    licence: ClassVar[str]
    citation: ClassVar[str]
    homepage: ClassVar[str]
    version: ClassVar[str]
    #: Whether `time_s` of all recordings of a person count from the same moment, even if no file tells which.
    one_clock: ClassVar[bool] = False
    #: Official file names, as a person would look for them.
    files: ClassVar[tuple[str, ...]]
    #: Names under which the folder or zip may lie in the data folder, without ``.zip``.
    places: ClassVar[tuple[str, ...]]
    #: How a file of a subject is recognised; the group ``subject`` names who.
    pattern: ClassVar[str]
    downloads: ClassVar[tuple[Download, ...]] = ()

    # --- people and their recordings --------------------------------------------------------------------------

    def subjects(self) -> tuple[str, ...]:
        """Name everybody of whom there are files, in natural order."""
        return tuple(self._index)

    @final
    def recordings(self, subject: str) -> Iterator[Recording]:
        """Yield a person's recordings in time order, one at a time."""
        for recording in self._recordings(subject, self._names(subject)):
            if len(recording.values) == 0:
                raise ValueError(
                    f"{self.name}: a recording of subject {subject} has no samples "
                    f"({recording.facts.get('file', 'unknown file')}); remove the file or fetch it again."
                )
            yield recording

    @final
    def windows(self, subject: str, *, cache: bool = True, **overrides: Any) -> Windows:
        """Cut a person's recordings into windows and join them in time order.

        Parameters
        ----------
        subject
            Who.
        cache
            Whether to keep the windows on disk and take them from there the next time.
        overrides
            Other values than the corpus's own for `rate_hz`, `window_s`, `stride_s`, `max_gap_s`, `label_rule`
            ("majority", "whole" or "centre") or `unlabelled` ("keep" or "drop").
        """
        names, settings = self._names(subject), self.windowing(**overrides)
        if not cache:
            return self._cut(subject, settings)
        from sight.datasets.window_cache import cached

        paths, members = self.store.identity(self._depends(names))
        key = {"dataset": self.name, "subject": subject, "options": self._options(), "windowing": settings, **members}
        return cached(paths, key, lambda: self._cut(subject, settings))

    @final
    def windowing(self, **overrides: Any) -> dict[str, Any]:
        """Return how windows are cut, with some values replaced."""
        own = {key: getattr(self, key) for key in WINDOWING}
        for key in overrides:
            if key not in own:
                raise TypeError(f"{self.name}: windows are set by {', '.join(own)}, not by {key!r}.")
        settings = own | overrides
        if settings["unlabelled"] not in ("keep", "drop"):
            raise ValueError(f"{self.name}: expected unlabelled 'keep' or 'drop', got {settings['unlabelled']!r}.")
        return settings

    # --- hooks ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:
        """Read the files of a person, in time order."""

    def _windows(self, subject: str, settings: Mapping[str, Any]) -> Windows:
        """Cut a person's recordings; corpora with a protocol of their own write another."""
        from sight.signal import join, prepare

        signal = {key: value for key, value in settings.items() if key != "unlabelled"}
        parts = [prepare(recording, **signal) for recording in self.recordings(subject)]
        return join_on_one_clock(parts) if self.one_clock else join(parts)

    def _subject(self, match: re.Match[str]) -> str:
        """Name the person of a recognised file."""
        return match["subject"].lstrip("0") or "0"

    def _options(self) -> dict[str, Any]:
        """Return what else decides the windows of a person beside files and windowing."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "root"}

    def _depends(self, names: Sequence[str]) -> Sequence[str]:
        """Name all files that decide the windows of the person whose own files these are."""
        return names

    # --- files ------------------------------------------------------------------------------------------------

    @cached_property
    def store(self) -> Store:
        """The files, found on first use."""
        return Store(self._root())

    def _root(self) -> Path:
        if self.root is not None:
            candidates = [Path(self.root)]
        else:
            folder = data_folder()
            candidates = [folder / f"{place}{ending}" for place in self.places for ending in ("", ".zip")]
        for candidate in candidates:
            if candidate.exists():
                return candidate
        raise ValueError(
            f"{self.name}: found nothing at {candidates[-1]}; {where_to_put(type(self), candidates[-1].parent)}"
        )

    @cached_property
    def _index(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for name in self.store.names:
            match = re.search(self.pattern, name)
            if match:
                index.setdefault(self._subject(match), []).append(name)
        if not index:
            inner = [name for name in self.store.names if name.endswith(".zip")]
            remedy = f"unpack {inner[0]} first" if inner else where_to_put(type(self), self.store.root.parent)
            raise ValueError(
                f"{self.name}: no subject in {self.store.root}, expected files such as {self.files[0]}; {remedy}"
            )
        return in_order(index)

    def _names(self, subject: str) -> list[str]:
        if subject not in self._index:
            raise ValueError(f"{self.name} has no subject {subject!r}; {choices(subject, self._index)}")
        return self._index[subject]

    # --- help for subclasses ----------------------------------------------------------------------------------

    def _differ(self, **facts: Any) -> None:
        """Give this instance other facts than its class, as its options ask."""
        vars(self).update(facts)

    def _code(self, raw: Any, where: str) -> int:
        """Turn one label of the files into a class index."""
        if raw not in self.label_map:
            known = ", ".join(str(label) for label in self.label_map)
            raise ValueError(f"{self.name}: label {raw!r} in {where} is not in the map; known are {known}.")
        name = self.label_map[raw]
        return self.classes.index(name) if name in self.classes else UNLABELLED

    def _codes(self, raw: Array, where: str) -> Array:
        """Turn labels of the files into class indices, each distinct one looked up once."""
        values, inverse = np.unique(raw, return_inverse=True)
        return np.array([self._code(value, where) for value in values.tolist()], dtype=np.int16)[inverse]

    def _cut(self, subject: str, settings: Mapping[str, Any]) -> Windows:
        windows = self._windows(subject, settings)
        if settings["unlabelled"] == "drop":
            windows = without_unlabelled(windows, settings["max_gap_s"])
        if len(windows) == 0:
            raise ValueError(
                f"{self.name}: subject {subject} gives no window of {settings['window_s']:g} s, all recordings are "
                f"shorter, hold gaps or no label; ask for a shorter window_s or leave the subject out."
            )
        return windows


def in_order(index: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Sort people by number where each has one, else by name.

    Examples
    --------
    >>> list(in_order({"S10": [], "S9": []})), list(in_order({"4E": [], "10B": []}))
    (['S9', 'S10'], ['10B', '4E'])
    """
    numbered = all(re.fullmatch(r"\D*\d+", person) for person in index)
    return {person: index[person] for person in (sorted(index, key=natural) if numbered else sorted(index))}


def where_to_put(dataset: type[Dataset], folder: Path) -> str:
    """Say in half a sentence which files belong where."""
    return (
        f"put {', '.join(dataset.files)} from {dataset.homepage} into the folder {folder / dataset.places[0]} "
        f"(or their zip at {folder / dataset.places[0]}.zip), or set SIGHT_DATA to the folder that holds it."
    )
