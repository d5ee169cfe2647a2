"""Command-line options that several commands share."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from sight.apps.cli._shared import parse_pairs
from sight.models.bundled import resolve
from sight.recordings.reading_options import ReadOptions
from sight.recordings.signal.intensity import CUT_POINTS
from sight.results.output_tables.rules import MIN_BOUT

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
Lag = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Later windows that a prediction may use: 0 for none, as in a live stream, inf for the whole recording. "
        "By default the whole recording if the method allows it, else none.",
        show_default=False,
    ),
]
Engine = Annotated[str, typer.Option(help="loky, serial, dask:local:N or dask:ADDRESS.")]
Jobs = Annotated[int | None, typer.Option(help="Number of loky processes; all cores by default.", min=1)]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with code 3 if the numbers of a recording cannot be used.")
]
ValidDay = Annotated[str, typer.Option("--valid-day", help="Wear that makes a day valid, such as 16h.")]
DaysFrom = Annotated[
    str,
    typer.Option(
        help="Where days begin: midnight, start (every 24 hours from the start of the recording) or waking (from one "
        "waking to the next)."
    ),
]
CutPoints = Annotated[
    str,
    typer.Option(
        help=f"Limits of intensity: {', '.join(CUT_POINTS)}, or those of light and moderate activity in mg, such as "
        "45,100. By default those of adults for the placement.",
        show_default=False,
    ),
]
MinBout = Annotated[
    list[str] | None,
    typer.Option(
        "--min-bout", help=f"Shortest bout, {MIN_BOUT} by default, or of one class: walking=120s; repeatable."
    ),
]


def _reading_options() -> dict[str, tuple[Any, Any]]:
    options = {}
    for each in fields(ReadOptions):
        kind = each.metadata.get("kind", get_type_hints(ReadOptions)[each.name])
        name, default = each.metadata.get("name", each.name), None if each.default is MISSING else each.default
        flags = ["--" + name.replace("_", "-")]  # without it, a truth value would get --no-NAME too
        limits = {"min": each.metadata["min"]} if "min" in each.metadata else {}
        panel = None if "name" in each.metadata else "Reading options"
        option = typer.Option(*flags, help=each.metadata["help"], rich_help_panel=panel, **limits)
        options[name] = Annotated[kind, option], default
    return options


READING = _reading_options()
TimeZone, MaxGap, DatasetOptions = (READING[name][0] for name in ("tz", "max_gap", "option"))
OF_LABELS = {each.name for each in fields(ReadOptions) if each.metadata.get("of_labels")}


def takes_reading_options(*, labels: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the reading options to a command, which gets them as its argument `reading`.

    `labels` is whether the command takes those of labels too.
    """
    options = {name: value for name, value in READING.items() if labels or name not in OF_LABELS}

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


def read_options(**values: Any) -> ReadOptions:
    given = {}
    for each in fields(ReadOptions):
        value = values.get(each.metadata.get("name", each.name))
        if value is not None and (pairs := each.metadata.get("pairs")):
            value = parse_pairs(value.split(",") if isinstance(value, str) else value, pairs)
        if value is not None:
            given[each.name] = value
    return ReadOptions(**given)
