"""A user's own folder: one file or one subfolder for each person, and a MAP.toml that says what is in them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from sight.datasets._base import Dataset, in_order
from sight.datasets.user_files import READABLE, read
from sight.ops import choices
from sight.types import Recording, Windows

MAP = "MAP.toml"
#: What the map may say beside its tables, and what each key is about.
READING = ("unit", "gyro_unit", "tz", "rate_hz", "time_unit", "time_format")
CUTTING = ("window_s", "stride_s", "max_gap_s", "label_rule", "unlabelled")


@dataclass(kw_only=True)
class Folder(Dataset):
    """Files of a user, CSV, Parquet or of devices, with labels in a column.

    Parameters
    ----------
    labels
        Path of the map; None is ``MAP.toml`` in the folder itself.

    Notes
    -----
    The map is TOML. Its table ``[columns]`` gives the files' name for ``time``, ``label`` and each channel (without it
    usual names are recognised, and the label is the column ``label``); its table ``[labels]`` gives the class of each
    label, the empty text where a label is not to be used. Before them may stand how files are read (``unit``, ``tz``,
    ``rate_hz`` ...) and cut (``window_s``, ``stride_s`` ...)::

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

    Several files of a person follow each other by the time they begin.
    """

    labels: Path | str | None = None

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
    files = ("PERSON.csv (or .csv.gz, .parquet, .cwa, .gt3x, .bin) or PERSON/*.csv", MAP)
    places = ("folder",)
    pattern = r"^(?P<subject>[^/]+?)(/.*)?$"

    def __post_init__(self) -> None:
        facts = {key: self._map[key] for key in CUTTING if key in self._map}
        named = {str(label): str(name) for label, name in self._map["labels"].items()}
        classes = tuple(dict.fromkeys(name for name in named.values() if name))
        self._differ(**facts, classes=classes, label_map=named)
        first = next(self.recordings(self.subjects()[0]))
        rate_hz = float(self._map.get("rate_hz") or f"{first.rate_hz:.3g}")
        self._differ(channels=first.channels, units=first.unit, rate_hz=rate_hz)

    @cached_property
    def _map(self) -> dict[str, Any]:
        path = Path(self.labels) if self.labels is not None else self.store.root / MAP
        if not path.is_file():
            raise ValueError(f"There is no map at {path}; write one with a table [labels] of label = class.")
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML ({error}); quote texts, and put tables last.") from None
        known = ("columns", "labels", *READING, *CUTTING)
        for key in content:
            if key not in known:
                raise ValueError(f"{path}: there is no setting {key!r}; {choices(key, known)}")
        if len({name for name in content.get("labels", {}).values() if name}) < 2:
            raise ValueError(f'{path}: expected a table [labels] with at least two classes, as in 1 = "walking".')
        return content

    @cached_property
    def _index(self) -> dict[str, list[str]]:
        if not self.store.root.is_dir():
            raise ValueError(f"Expected a folder at {self.store.root}, got a file; unpack it.")
        index: dict[str, list[str]] = {}
        for name in self.store.names:
            if name.lower().endswith(READABLE):
                index.setdefault(_person(name), []).append(name)
        if not index:
            raise ValueError(
                f"There is no subject in {self.store.root}; expected a file or subfolder for each person, "
                f"with files that end with {', '.join(READABLE)}."
            )
        return in_order(index)

    def _options(self) -> dict[str, Any]:
        return {"map": self._map}

    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:
        if len(names) == 1:
            yield self._read(subject, names[0])
            return
        recordings = [self._read(subject, name) for name in names]
        if all(recording.start is not None for recording in recordings):
            recordings.sort(key=lambda recording: recording.start.timestamp() if recording.start else 0.0)
        yield from recordings

    def _read(self, subject: str, name: str) -> Recording:
        columns = dict(self._map.get("columns", {}))
        label = columns.pop("label", "label")
        options = {key: self._map[key] for key in READING if key in self._map}
        return read(
            self.store.root / name,
            columns=columns or None,
            label_column=label,
            classes=self.label_map,
            subject=subject,
            **options,
        )

    def _windows(self, subject: str, settings: Mapping[str, Any]) -> Windows:
        from sight.signal import join, prepare

        signal = {key: value for key, value in settings.items() if key != "unlabelled"}
        signal |= {"channels": self.channels, "unit": self.units}
        return join([prepare(recording, **signal) for recording in self.recordings(subject)])


def _person(name: str) -> str:
    """Name the person of a file: its subfolder, or what stands before the ending.

    Examples
    --------
    >>> _person("anna/monday.csv"), _person("S1.left.csv.gz")
    ('anna', 'S1.left')
    """
    top, slash, _ = name.partition("/")
    return top if slash else re.sub(rf"({'|'.join(map(re.escape, READABLE))})$", "", name, flags=re.IGNORECASE)
