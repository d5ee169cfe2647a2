"""How users' files are read: the options that several commands share, and the one object they become."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any

import typer

Columns = Annotated[str | None, typer.Option(help="Columns of a CSV or Parquet file: time=t,x=ax,y=ay,z=az.")]
Unit = Annotated[str, typer.Option(help="Unit of its acceleration: g, mg or m/s^2.")]
Zone = Annotated[str | None, typer.Option("--tz", help="Time zone of times without one, such as Europe/Vienna.")]
Rate = Annotated[float | None, typer.Option(help="Sampling rate (Hz) of a file without timestamps.")]
MaxGap = Annotated[float, typer.Option("--max-gap", min=0, help="Pause (s) that counts as a gap.")]
Calibrate = Annotated[bool, typer.Option("--calibrate", help="Estimate gravity calibration from the recording.")]
Options = Annotated[list[str] | None, typer.Option("--option", help="Option of the dataset, KEY=VALUE; repeatable.")]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read users' files: columns, unit, time zone, rate, and options of a dataset."""

    columns: str | None = None
    unit: str = "g"
    tz: str | None = None
    rate_hz: float | None = None
    calibrate: bool = False
    label_column: str | None = None
    max_gap_s: float = 0.5
    options: tuple[str, ...] = ()

    def mapping(self) -> dict[str, str] | None:
        """Read ``time=t,x=ax,y=ay,z=az`` as our names to the file's columns."""
        if self.columns is None:
            return None
        pairs = [pair.partition("=") for pair in self.columns.split(",")]
        if any(not equals for _, equals, _ in pairs):
            raise ValueError(f"Expected --columns time=...,x=...,y=...,z=..., got {self.columns!r}.")
        return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `_reading` behind its own, and their values as one argument, `reading`."""
    shared = inspect.signature(_reading, eval_str=True).parameters
    own = dict(inspect.signature(command, eval_str=True).parameters)
    del own["reading"]

    @wraps(command)
    def whole(**given: Any) -> None:
        reading = _reading(**{name: given.pop(name) for name in shared})
        command(**given, reading=reading)

    # Typer reads the options from here.
    whole.__signature__ = inspect.Signature([*own.values(), *shared.values()])  # type: ignore[attr-defined]
    return whole


def _reading(
    columns: Columns = None,
    unit: Unit = "g",
    tz: Zone = None,
    rate: Rate = None,
    max_gap: MaxGap = 0.5,
    calibrate: Calibrate = False,
    option: Options = None,
) -> Reading:
    return Reading(
        columns=columns,
        unit=unit,
        tz=tz,
        rate_hz=rate,
        max_gap_s=max_gap,
        calibrate=calibrate,
        options=tuple(option or ()),
    )
