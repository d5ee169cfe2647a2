"""A folder of the user's own recordings, described by a MAP.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from sight.datasets._base import Dataset
from sight.datasets._label_columns import class_names
from sight.datasets.user_files import READABLE, read
from sight.ops import choices
from sight.signal.calibrate import calibrate, estimate_calibration
from sight.types import Recording

MAP = "MAP.toml"
#: Keys of the map outside its tables: how files are read (`sight.reading.ReadOptions`), and how windows are cut.
READING = ("unit", "gyro_unit", "tz", "time_unit", "time_format", "rate", "max_gap", "calibrate", "label_column")
CUTTING = ("window_s", "stride_s", "label_rule", "unlabelled")
#: Keys of version 0.1, and what they are called now.
RENAMED = {"rate_hz": "rate", "max_gap_s": "max_gap"}


@dataclass(kw_only=True)
class Folder(Dataset):
    """Labelled recordings of the user: one file, or one subfolder of files, for each subject.

    Several files of a subject are put in the order of their start times.

    Parameters
    ----------
    labels
        Path of the map; None is ``MAP.toml`` in the folder itself.
    reading
        Reading options that override those of the map, by name; `names` overrides the table ``[labels]``.

    Notes
    -----
    The map is a TOML file. The table ``[columns]`` gives the column of ``time``, of ``label`` and of each channel;
    without it usual names are recognised, and labels are read from the column ``label``. The table ``[labels]`` gives
    the class of each label; an empty class marks a label that is not used. Keys above the tables set how files are
    read (``unit``, ``tz``, ``rate`` ...) and windows are cut (``window_s``, ``stride_s`` ...)::

        unit = "g"
        window_s = 2.0
        stride_s = 1.0
        [columns]
        time = "timestamp"
        label = "activity"
        x = "ax"
        y = "ay"
        z = "az"
        [labels]
        1 = "walking"
        2 = "sitting"
        99 = ""
    """

    labels: Path | str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)

    name = "folder"
    title = "A folder of your own files"
    classes: ClassVar[tuple[str, ...]] = ()
    label_map: ClassVar[Mapping[Any, str]] = {}
    channels: ClassVar[tuple[str, ...]] = ()
    units: ClassVar[tuple[str, ...]] = ()
    rate_hz = 50.0
    window_s = 2.0
    stride_s = 1.0
    licence = "your own"
    citation = "your own"
    homepage = "your own recordings"
    version = "1"
    official_files = ("SUBJECT.csv (or .tsv, .parquet, .xlsx, .cwa, .gt3x, .bin) or SUBJECT/*.csv", MAP)
    folder_names = ("folder",)
    subject_pattern = rf"(?i)^(?P<subject>[^/]+?)(/.*)?({'|'.join(map(re.escape, READABLE))})$"

    def __post_init__(self) -> None:
        cutting = {key: self._map[key] for key in CUTTING if key in self._map}
        if "max_gap" in self._map:
            cutting["max_gap_s"] = self._map["max_gap"]
        label_map = self._map["labels"]
        self._override(**cutting, classes=tuple(class_names(label_map)), label_map=label_map)
        first = next(self.recordings(self.subjects()[0]))
        rate_hz = float(self._map.get("rate") or f"{first.rate_hz:.3g}")
        self._override(channels=first.channels, units=first.unit, rate_hz=rate_hz)

    @classmethod
    def where_to_put(cls, folder: Path) -> str:
        """Return which files belong into the user's folder."""
        return f"put one file or subfolder for each subject into {folder}, with files {', '.join(READABLE)}."

    @cached_property
    def _map(self) -> dict[str, Any]:
        if not self.store.root.is_dir():
            raise ValueError(f"Expected a folder at {self.store.root}, got a file; unpack it.")
        path = Path(self.labels) if self.labels is not None else self.store.root / MAP
        if not path.is_file():
            raise ValueError(
                f"There is no map at {path}; write one with a table [labels] of label = class, "
                f"or name another file (--labels, or --option labels=FILE)."
            )
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML ({error}); quote texts, and put tables last.") from None
        content = {RENAMED.get(key, key): value for key, value in content.items()}
        keys = ("columns", "labels", *READING, *CUTTING)
        for key in content:
            if key not in keys:
                raise ValueError(f"{path}: there is no key {key!r}; {choices(key, keys)}")
        content |= {key: value for key, value in self.reading.items() if key not in ("columns", "names")}
        content["columns"] = {**content.get("columns", {}), **self.reading.get("columns", {})}
        content["labels"] = self.reading.get("names") or _joined_keys(content.get("labels", {}))
        if len({name for name in content["labels"].values() if name}) < 2:
            raise ValueError(f'{path}: expected a table [labels] with at least two classes, as in 1 = "walking".')
        return content

    def _options(self) -> dict[str, Any]:
        return {"map": self._map}

    def _read_recordings(self, subject: str, files: Sequence[str]) -> Iterator[Recording]:
        if len(files) == 1:
            yield self._read_file(subject, files[0])
            return
        recordings = [self._read_file(subject, file) for file in files]
        if all(recording.start is not None for recording in recordings):
            recordings.sort(key=lambda recording: recording.start.timestamp() if recording.start else 0.0)
        yield from recordings

    def _read_file(self, subject: str, file: str) -> Recording:
        columns = dict(self._map["columns"])
        label = columns.pop("label", "label")
        options = {
            key: self._map[key] for key in ("unit", "gyro_unit", "tz", "time_unit", "time_format") if key in self._map
        }
        recording = read(
            self.store.root / file,
            columns=columns,
            label_column=self._map.get("label_column", label),
            classes=self.label_map,
            subject=subject,
            rate_hz=self._map.get("rate"),
            **options,
        )
        if not self._map.get("calibrate"):
            return recording
        calibration, _ = estimate_calibration(recording, max_gap_s=self.max_gap_s)
        return recording if calibration is None else calibrate(recording, calibration)


def _joined_keys(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels as written: TOML reads ``1.0 = "walking"`` as a table "1" that contains "0".

    Examples
    --------
    >>> _joined_keys({"1": {"0": "walking"}, "2": "sitting"})
    {'1.0': 'walking', '2': 'sitting'}
    """
    joined: dict[str, str] = {}
    for label, name in labels.items():
        inner = _joined_keys(name) if isinstance(name, Mapping) else None
        joined |= {label: str(name)} if inner is None else {f"{label}.{rest}": own for rest, own in inner.items()}
    return joined
