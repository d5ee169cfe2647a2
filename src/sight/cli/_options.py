"""Command-line options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sight.cli._shared import parse_pairs
from sight.models import resolve
from sight.reading import ReadOptions

Target = Annotated[
    str, typer.Argument(help="Recording, folder of recordings, or dataset:subject such as synthetic:W12.")
]
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

Columns = Annotated[str | None, typer.Option(help="Columns of a CSV or Parquet file: time=t,x=ax,y=ay,z=az.")]
Unit = Annotated[str, typer.Option(help="Unit of acceleration in the file: g, mg or m/s^2.")]
GyroUnit = Annotated[str | None, typer.Option(help="Unit of rotation: deg/s or rad/s; the model's by default.")]
TimeZone = Annotated[str | None, typer.Option("--tz", help="Time zone of the wearer's days, such as Europe/Vienna.")]
TimeUnit = Annotated[str | None, typer.Option(help="Unit of numeric times: s, ms, us or ns; detected by default.")]
Rate = Annotated[float | None, typer.Option(help="Sampling rate (Hz) of a file without timestamps.")]
MaxGap = Annotated[float, typer.Option("--max-gap", min=0, help="A longer pause (s) counts as a gap.")]
Calibrate = Annotated[bool, typer.Option("--calibrate", help="Estimate the gravity calibration from the recording.")]


def read_options(
    columns: str | None = None,
    unit: str = "g",
    gyro_unit: str | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    rate: float | None = None,
    max_gap: float = 0.5,
    calibrate: bool = False,
    option: list[str] | None = None,
    label_column: str | None = None,
) -> ReadOptions:
    """Return the reading options of a command."""
    return ReadOptions(
        columns=None if columns is None else parse_pairs(columns.split(","), "--columns time=...,x=...,y=...,z=..."),
        unit=unit,
        gyro_unit=gyro_unit,
        tz=tz,
        time_unit=time_unit,
        rate_hz=rate,
        max_gap_s=max_gap,
        calibrate=calibrate,
        label_column=label_column,
        dataset_options=parse_pairs(option or (), "--option KEY=VALUE"),
    )
