"""``sight fleet``: many live wearers in one Spark stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sight import registry
from sight.cli._shared import console, errors


def fleet(
    rows: Annotated[str, typer.Argument(help="Folder in which files of rows arrive.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="An exported model (.onnx).")],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for answers, checkpoint and progress.")],
    kind: Annotated[str, typer.Option(help="What a row holds: features, windows or samples.")] = "features",
    file_format: Annotated[str, typer.Option("--format", help="Format of the files: parquet or json.")] = "parquet",
    method: Annotated[str, typer.Option(help="Method that can advance many wearers at once.")] = registry.RECOMMENDED,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Setting of the method, KEY=VALUE; repeatable.")
    ] = None,
    carry: Annotated[
        str, typer.Option(help="What wearers keep under a new model of the same classes and feature size: all, habits.")
    ] = "all",
    every: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds between triggers; without it, answer what is there and stop.")
    ] = None,
    files: Annotated[int | None, typer.Option(min=1, help="Files of one trigger at most.")] = None,
    shards: Annotated[int, typer.Option(min=1, help="Groups of wearers; fixed for the life of a checkpoint.")] = 64,
    partitions: Annotated[int, typer.Option(min=1, help="Tasks of a trigger; fixed for the life of a checkpoint.")] = 4,
    max_gap: Annotated[float, typer.Option("--max-gap", min=0, help="Pause (s) that counts as a gap.")] = 0.5,
    rate: Annotated[float | None, typer.Option(help="Sampling rate (Hz) of samples; the model's by default.")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="Setting of Spark, KEY=VALUE such as spark.master=local[2]; repeatable.")
    ] = None,
) -> None:
    """Answer a fleet of live wearers with a Spark stream that survives its driver.

    Runs in an environment of its own, made by [bold]make fleet-env[/], and needs Java 17. Started again with the same
    output folder it goes on where it stopped, with a new model if one is given; every window is answered once.

    [bold]Examples[/]

      .venv-spark/bin/sight fleet arriving/ -m model.onnx -o fleet/ --every 10

      .venv-spark/bin/sight fleet packets/ -m model.onnx -o fleet/ --kind samples --format json

      .venv-spark/bin/sight fleet arriving/ -m new.onnx -o fleet/ --conf spark.master=local[2]
    """
    from sight.fleet.plan import Plan, digest
    from sight.fleet.spark_environment import require_spark
    from sight.fleet.spark_job import Stream, run

    plan = Plan(
        path=str(model.resolve()),
        digest=digest(model),
        kind=kind,  # type: ignore[arg-type]  # checked by the plan, with a sentence
        method=method,
        settings=tuple(settings or ()),
        shards=shards,
        carry=carry,  # type: ignore[arg-type]
        max_gap_s=max_gap,
        rate_in_hz=rate,
    )
    stream = Stream(
        rows=_place(rows),
        out=_place(out),
        file_format=file_format,
        partitions=partitions,
        every_s=every,
        files_per_trigger=files,
        conf=dict(_pair(text) for text in conf or ()),
    )
    if "://" not in rows and not Path(rows).is_dir():
        raise ValueError(f"Expected a folder in which files arrive, got {rows}; make it first, it may be empty.")
    require_spark()
    total = run(plan, stream, on_trigger=_tell)
    told = ", ".join(f"{count} {name}" for name, count in total.items() if count)
    if total["invalid"] and not total["answered"]:
        errors.print(f"No row could be used; do they hold {kind} that fit the model?", highlight=False, soft_wrap=True)
    console.print(f"Done: {told or 'no rows'}; answers: {stream.out}/answers", soft_wrap=True, highlight=False)


def _tell(facts: dict[str, Any]) -> None:
    from sight.fleet.spark_job import COUNTED

    counts = ", ".join(f"{facts[name]} {name}" for name in COUNTED if facts[name])
    console.print(f"trigger {facts['batch']}: {counts} in {facts['trigger_ms'] / 1000:.1f} s", highlight=False)


def _place(text: str) -> str:
    return text if "://" in text else str(Path(text).resolve())


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"Expected a setting of Spark as KEY=VALUE, got {text!r}; such as spark.master=local[2].")
    return key, value
