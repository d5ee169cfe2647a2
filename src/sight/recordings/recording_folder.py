"""A folder of the user's own recordings, described by a MAP.toml."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sight._util.text import choices
from sight.recordings.diaries import count_labels, diary_expression
from sight.recordings.labels import class_names, classes_of_labels, label_samples
from sight.recordings.reading_options import MAP_KEYS, Expected, ReadOptions
from sight.recordings.recording_collection import Dataset
from sight.recordings.recording_files import READABLE, read
from sight.recordings.signal.calibrate import calibrate, estimate_calibration
from sight.recordings.signal.quality import refuse_errors, warnings_for
from sight.types import Recording

MAP = "MAP.toml"
#: Keys of the map that set how windows are cut.
CUTTING = ("window_s", "stride_s", "label_rule", "unlabelled")
ENDING = rf"({'|'.join(map(re.escape, READABLE))})$"


@dataclass(kw_only=True)
class Folder(Dataset):
    """Labelled recordings of the user: one file, or one subfolder of files, for each subject.

    Several files of a subject are put in the order of their start times. A file whose acceleration at rest shows that
    its unit is wrong is refused.

    Parameters
    ----------
    labels
        Path of the map; None is ``MAP.toml`` in the folder itself.
    reading
        Reading options that override those of the map, by name; `names` overrides the table ``[labels]``.

    Notes
    -----
    The map is a TOML file; docs/training.md describes it. Its keys set how files are read and windows are cut, the
    table ``[columns]`` gives the columns of time, label and channels, and ``[labels]`` the class of each label. The key
    ``diary`` names files from which labels are read instead of a column, as in ``diary = "diaries/{subject}.csv"``.
    """

    labels: Path | str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)

    name = "folder"
    title = "A folder of your own files"
    rate_hz = 50.0
    window_s = 2.0
    stride_s = 1.0
    licence = "your own"
    citation = "your own"
    homepage = "your own recordings"
    version = "1"
    official_files = ("SUBJECT.csv (or .tsv, .parquet, .xlsx, .cwa, .gt3x, .bin) or SUBJECT/*.csv", MAP)
    folder_names = ("folder",)
    subject_pattern = rf"(?i)^(?P<subject>[^/]+?)(/.*)?{ENDING}"

    def __post_init__(self) -> None:
        label_map = self._map["labels"]
        if "diary" in self._map:
            is_diary = diary_expression(self._map["diary"])
            self._override(subject_pattern=self.subject_pattern.replace("^", f"^(?!{is_diary}$)", 1))
            counts = self._count_diary_labels()
            label_map = label_map or {label: label for label in sorted(filter(None, counts))}
        classes = class_names(label_map)
        if len(classes) < 2:
            raise ValueError(
                f"{self._map_path}: expected labels of at least two classes, got {', '.join(classes) or 'none'}; "
                f'give them in a table [labels], as in 1 = "walking".'
            )
        if "diary" in self._map:
            classes_of_labels(f"Diaries in {self.store.root}", counts, classes, label_map, "row")
        cutting = {key: self._map[key] for key in CUTTING if key in self._map}
        if "max_gap" in self._map:
            cutting["max_gap_s"] = self._map["max_gap"]
        self._override(**cutting, classes=classes, label_map=label_map)
        first = next(self.recordings(self.subjects()[0]))
        rate_hz = float(self._map.get("rate") or f"{first.rate_hz:.3g}")
        self._override(channels=first.channels, units=first.unit, rate_hz=rate_hz)

    @classmethod
    def where_to_put(cls, folder: Path) -> str:
        return f"put one file or subfolder for each subject into {folder}, with files {', '.join(READABLE)}."

    @property
    def _map_path(self) -> Path:
        return Path(self.labels) if self.labels is not None else self.store.root / MAP

    @cached_property
    def _map(self) -> dict[str, Any]:
        if not self.store.root.is_dir():
            raise ValueError(f"Expected a folder at {self.store.root}, got a file; unpack it.")
        path = self._map_path
        if not path.is_file():
            raise ValueError(
                f"There is no map at {path}; write one with a table [labels] of label = class "
                f"or a key diary, or name another file (--labels, or --option labels=FILE)."
            )
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML ({error}); quote texts, and put tables last.") from None
        keys = ("columns", "labels", "diary", *MAP_KEYS, *CUTTING)
        for key in content:
            if key not in keys:
                raise ValueError(f"{path}: there is no key {key!r}; {choices(key, keys)}")
        content |= {key: value for key, value in self.reading.items() if key not in ("columns", "names")}
        content["columns"] = {**content.get("columns", {}), **self.reading.get("columns", {})}
        content["labels"] = self.reading.get("names") or _joined_keys(content.get("labels", {}))
        if "diary" in content and ("label" in content["columns"] or "label_column" in content):
            raise ValueError(f"{path}: labels come from a diary or from a column; remove one of the two keys.")
        return content

    def _options(self) -> dict[str, Any]:
        return {"map": self._map}

    @property
    def _read_options(self) -> ReadOptions:
        given = {key: self._map[key] for key in MAP_KEYS if key in self._map}
        columns = dict(self._map["columns"])
        given.setdefault("label_column", columns.pop("label", "label"))
        if "diary" in self._map:
            given["label_column"] = None
        return ReadOptions(columns=columns, names=self.label_map, **given)

    def _read_recordings(self, subject: str, files: Sequence[str]) -> Iterator[Recording]:
        if len(files) == 1:
            yield self._read_file(subject, files[0])
            return
        recordings = [self._read_file(subject, file) for file in files]
        if all(recording.start is not None for recording in recordings):
            recordings.sort(key=lambda recording: recording.start.timestamp() if recording.start else 0.0)
        yield from recordings

    def _read_file(self, subject: str, file: str) -> Recording:
        options = self._read_options
        recording = read(self.store.root / file, options, Expected(classes=self.classes), subject=subject)
        found = warnings_for(recording)
        refuse_errors(str(self.store.root / file), found)
        recording = replace(recording, warnings=(*recording.warnings, *found))
        if options.calibrate:
            calibration, _ = estimate_calibration(recording, max_gap_s=self.max_gap_s)
            recording = recording if calibration is None else calibrate(recording, calibration)
        if "diary" in self._map:
            diary = self.store.root / self._diary_of(file)
            is_shared = "{recording}" not in self._map["diary"] and len(self._files_of(subject)) > 1
            labels = label_samples(diary, recording, self.classes, self.label_map, subject=subject, shared=is_shared)
            return replace(recording, labels=labels)
        if recording.labels is None:
            raise ValueError(
                f"{self.store.root / file}: a device file contains no labels; write a diary, and its place into "
                f'{self._map_path}: diary = "diaries/{{subject}}.csv".'
            )
        return recording

    def _input_files(self, files: Sequence[str]) -> Sequence[str]:
        return [*files, *dict.fromkeys(map(self._diary_of, files))] if "diary" in self._map else files

    def _diary_of(self, file: str) -> str:
        folder, _, name = file.rpartition("/")
        recording = re.sub(f"(?i){ENDING}", "", name)
        subject = folder.partition("/")[0] or recording
        diary: str = self._map["diary"].replace("{subject}", subject).replace("{recording}", recording)
        if diary not in self.store.names:
            raise ValueError(
                f"There is no diary {diary} in {self.store.root} for {file}; write it, or correct "
                f"diary = {self._map['diary']!r} in {self._map_path}."
            )
        return diary

    def _count_diary_labels(self) -> Counter[str]:
        """Return how many rows of all diaries have each label; rows of subjects without files are ignored."""
        subjects_of: dict[str, set[str]] = {}
        for subject, files in self._files_by_subject.items():
            for file in files:
                subjects_of.setdefault(self._diary_of(file), set()).add(subject.casefold())
        counts: Counter[str] = Counter()
        for diary, subjects in subjects_of.items():
            for (subject, label), n in count_labels(self.store.root / diary).items():
                if not subject and len(subjects) > 1:
                    raise ValueError(
                        f"{self.store.root / diary} is the diary of {len(subjects)} subjects, but has rows without a "
                        f"subject; add a column subject, or write one diary for each ({{subject}} in diary)."
                    )
                if not subject or subject.casefold() in subjects:
                    counts[label] += n
        return counts


def _joined_keys(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels as written: TOML reads ``1.0 = "walking"`` as a table "1" that contains "0".

    >>> _joined_keys({"1": {"0": "walking"}, "2": "sitting"})
    {'1.0': 'walking', '2': 'sitting'}
    """
    joined: dict[str, str] = {}
    for label, name in labels.items():
        inner = _joined_keys(name) if isinstance(name, Mapping) else None
        joined |= {label: str(name)} if inner is None else {f"{label}.{rest}": own for rest, own in inner.items()}
    return joined
