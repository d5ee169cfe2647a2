"""Command-line options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from sight.apps.cli._shared import parse_pairs
from sight.models.bundled import resolve
from sight.recordings.labels import read_label_map
from sight.recordings.read import ReadOptions

Target = Annotated[
    str, typer.Argument(help="Recording, folder of recordings, or dataset:subject such as synthetic:W12.")
]
Targets = Annotated[
    list[str], typer.Argument(help="Recordings, folders of recordings, or dataset:subject such as synthetic:W12.")
]
Subject = Annotated[str, typer.Option(help="Join all files into one recording of this subject.")]
Separate = Annotated[bool, typer.Option("--separate", help="Do not join the files of a folder below the folder.")]
Model = Annotated[
    Path,
    typer.Option(
        "--model", "-m", callback=resolve, help="Bundled model (see: sight models list), or file: .onnx, .safetensors."
    ),
]
Method = Annotated[str, typer.Option(help="Adaptation method; see: sight methods.")]
Params = Annotated[list[str] | None, typer.Option("--set", help="Hyper-parameter KEY=VALUE of the method; repeatable.")]
Preset = Annotated[str | None, typer.Option(help="Hyper-parameters by name, authors or sight-paper; --set overrides.")]
Lag = Annotated[float, typer.Option(min=0, help="Windows a prediction may wait for; inf: the whole recording (keel).")]
Engine = Annotated[str, typer.Option(help="loky, serial, dask:local:N or dask:ADDRESS.")]
Jobs = Annotated[int | None, typer.Option(help="Number of loky processes; all cores by default.", min=1)]
DatasetOptions = Annotated[
    list[str] | None, typer.Option("--option", help="Option KEY=VALUE of a dataset; repeatable.")
]

# --- reading options, the fields of `sight.recordings.read.ReadOptions` ----------------------------------------------


def _reading(kind: Any, text: str, *names: str, **limits: Any) -> Any:
    """Return an option of the panel for reading options; it is named after its argument unless `names` are given."""
    return Annotated[kind, typer.Option(*names, help=text, rich_help_panel="Reading options", **limits)]


TimeZone = _reading(str | None, "Time zone of the wearer's days, such as Europe/Vienna.", "--tz")
MaxGap = _reading(float | None, "A longer pause (s) counts as a gap; 0.5 by default.", min=0)

#: Option and default of each field; those of labels last.
READING: dict[str, tuple[Any, Any]] = {
    "columns": (_reading(str | None, "Columns that are not recognised: time=t,x=ax,y=ay,z=az."), None),
    "unit": (_reading(str | None, "Unit of acceleration: g (default), mg or m/s^2."), None),
    "gyro_unit": (_reading(str | None, "Unit of rotation: deg/s or rad/s; the model's by default."), None),
    "tz": (TimeZone, None),
    "time_unit": (_reading(str | None, "Unit of numeric times: s, ms, us or ns; detected by default."), None),
    "time_format": (_reading(str | None, "Format of times as text, such as '%d.%m.%Y %H:%M:%S.%f'."), None),
    "rate": (_reading(float | None, "Sampling rate (Hz) without times, or if far from the model's."), None),
    "max_gap": (MaxGap, None),
    "calibrate": (_reading(bool, "Estimate the gravity calibration from the recording.", "--calibrate"), False),
    "option": (DatasetOptions, None),
    "label_column": (_reading(str | None, "Column with labels."), None),
    "names": (_reading(Path | None, "TOML file that maps labels to classes."), None),
}
LABELS = ("label_column", "names")


def takes_reading_options(*, labels: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the reading options to a command, which gets them as its argument `reading`.

    `labels` is whether the command takes those of labels too.
    """
    options = {name: value for name, value in READING.items() if labels or name not in LABELS}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_options(**values: Any) -> None:
            reading = read_options(**{name: values.pop(name) for name in options})
            command(**values, reading=reading)

        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.name != "reading"]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]
        with_options.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
        return with_options

    return decorate


ValidDay = Annotated[str, typer.Option("--valid-day", help="Wear that makes a day valid, such as 16h.")]
MinBout = Annotated[
    list[str] | None,
    typer.Option("--min-bout", help="Shortest bout, 60s by default, or of one class: walking=120s; repeatable."),
]


def read_options(
    *, columns: str | None = None, names: Path | None = None, option: list[str] | None = None, **fields: Any
) -> ReadOptions:
    """Return the reading options of a command; `fields` are those that need no parsing."""
    return ReadOptions(
        columns=None if columns is None else parse_pairs(columns.split(","), "--columns time=...,x=...,y=...,z=..."),
        names=None if names is None else read_label_map(names),
        dataset_options=parse_pairs(option or (), "--option KEY=VALUE"),
        **fields,
    )
