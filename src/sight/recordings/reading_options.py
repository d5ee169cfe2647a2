"""Options for reading recordings.

An option is one field of `ReadOptions`: functions, the command line (`sight.apps.cli`) and MAP.toml
(`sight.recordings.recording_folder`) take it from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from sight._util.unit_conversion import ROTATION
from sight.models.card import ModelCard
from sight.recordings.labels import read_label_map


def _option(text: str, default: Any = None, *, in_map: bool = True, **command_line: Any) -> Any:
    """Return a field with its help text.

    `in_map` is whether MAP.toml has it as a key outside its tables. `command_line` may have `kind`, the type there if
    it is not that of the field; `name`, its name there; `pairs`, how KEY=VALUE pairs are written; `of_labels`, whether
    it concerns labels; and `min`.
    """
    metadata = {"help": text, "in_map": in_map, **command_line}
    return (
        field(default_factory=dict, metadata=metadata) if default == {} else field(default=default, metadata=metadata)
    )


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options for reading a recording; the command line and MAP.toml have the same names.

    All but `tz`, `max_gap`, `calibrate` and `placement` apply to tables only: device files state these facts.
    """

    #: Column of "time" and of channels, by channel name. Columns with usual names are recognised, so only others are
    #: needed; an empty column of "time" means that the file has no times, and rows follow each other at `rate`.
    columns: Mapping[str, str] | None = _option(
        "Columns that are not recognised: time=t,x=ax,y=ay,z=az.",
        kind=str | None,
        in_map=False,
        pairs="--columns time=...,x=...,y=...,z=...",
    )
    #: Unit of acceleration: "g", "mg" or "m/s^2"; None uses the unit that the column names state in brackets, else g.
    unit: str | None = _option("Unit of acceleration: g (default), mg or m/s^2.")
    #: Unit of rotation: "deg/s" or "rad/s"; None uses the unit that the column names state, else that of the model.
    gyro_unit: str | None = _option("Unit of rotation: deg/s or rad/s; the model's by default.")
    #: Time zone of the wearer: that of local times, summer time included, and of the days. None uses the offset or zone
    #: in the file, else UTC with a warning; an hour that repeats at the end of summer time is recognised by the step
    #: back.
    tz: str | None = _option("Time zone of the wearer's days, such as Europe/Vienna.")
    #: Unit of numeric times, since the start or since 1970: "s", "ms", "us" or "ns"; None detects it.
    time_unit: str | None = _option("Unit of numeric times: s, ms, us or ns; detected by default.")
    #: Format of times as text, as in `datetime.strptime`; None reads ISO 8601.
    time_format: str | None = _option("Format of times as text, such as '%d.%m.%Y %H:%M:%S.%f'.")
    #: Lines of a CSV file before the line of names, or before the first sample if it has none; None recognises them.
    skip: int | None = _option("Lines of a CSV before its header or first sample; detected.", min=0)
    #: Time of the first sample of a file whose times are no dates, as in ISO 8601; in `tz` unless it has an offset.
    start: str | None = _option("Time of the first sample without dates: '2024-05-01 09:00'.")
    #: Sampling rate in Hz of a file without times, or of one whose rate is far from that of the model.
    rate: float | None = _option("Sampling rate (Hz) without times, or if far from the model's.")
    #: A longer pause, in seconds, counts as a gap; None is 0.5.
    max_gap: float | None = _option("A longer pause (s) counts as a gap; 0.5 by default.", min=0)
    #: Whether to estimate the gravity calibration from the recording and apply it.
    calibrate: bool = _option("Estimate the gravity calibration from the recording.", default=False)
    #: Where the sensor was worn, such as "wrist", "waist" or "thigh"; None uses the placement of the model. Nights are
    #: computed at the wrist only, and cut points of intensity depend on the placement.
    placement: str | None = _option("Where the sensor was worn, such as wrist or waist; that of the model by default.")
    #: Fields of the dataset class; if empty, the options of the model's training are used for the same dataset.
    dataset_options: Mapping[str, Any] = _option(
        "Option KEY=VALUE of a dataset; repeatable.",
        default={},
        kind=list[str] | None,
        name="option",
        in_map=False,
        pairs="--option KEY=VALUE",
    )
    #: Column with labels, compared with the classes of the model without case; an empty cell is no label.
    label_column: str | None = _option("Column with labels.", of_labels=True)
    #: Label to class, for labels that are not classes of the model; an empty class means that a label is not used. A
    #: mapping or the path of a TOML file.
    names: Mapping[str, str] | None = _option(
        "TOML file that maps labels to classes.", kind=Path | None, in_map=False, of_labels=True
    )

    def __post_init__(self) -> None:
        if isinstance(self.names, str | Path):
            object.__setattr__(self, "names", read_label_map(self.names))

    def given(self) -> dict[str, Any]:
        own = [each for each in fields(self) if each.name != "dataset_options"]
        return {each.name: getattr(self, each.name) for each in own if getattr(self, each.name) != each.default}


#: Reading options that are keys of MAP.toml outside its tables.
MAP_KEYS = tuple(each.name for each in fields(ReadOptions) if each.metadata["in_map"])


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a model expects of a file; helps to detect the unit of times and the columns.

    `gyro_unit` is used if the file states none. Without `classes`, those of the file are used.
    """

    rate_hz: float | None = None
    gyro_unit: str = "deg/s"
    channels: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    @classmethod
    def by(cls, card: ModelCard) -> Self:
        gyro_unit = next((unit for unit in card.units if unit in ROTATION), cls.gyro_unit)
        return cls(rate_hz=card.rate_hz, gyro_unit=gyro_unit, channels=card.channels, classes=card.classes)
