"""``sight fleet``: predict for many live wearers in one Spark stream."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sight import registry
from sight.apps.cli import _options as opt
from sight.apps.cli._shared import console, errors, parse_pairs


def fleet(
    rows: Annotated[str, typer.Argument(help="Folder in which files of rows arrive.")],
    model: opt.Model,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for predictions, checkpoint and progress.")],
    kind: Annotated[str, typer.Option(help="Content of a row: features, windows or samples.")] = "features",
    file_format: Annotated[str, typer.Option("--format", help="Format of the files: parquet or json.")] = "parquet",
    method: Annotated[
        str, typer.Option(help="Method that can update many wearers in one call.")
    ] = registry.RECOMMENDED,
    params: opt.Params = None,
    carry: Annotated[str, typer.Option(help="State that wearers keep under a new model: all or habits.")] = "all",
    every: Annotated[
        float | None,
        typer.Option(min=0.1, help="Seconds between triggers; without it, process what is there and stop."),
    ] = None,
    files: Annotated[int | None, typer.Option(min=1, help="Most files in one trigger.")] = None,
    shards: Annotated[int, typer.Option(min=1, help="Groups of wearers; fixed for a checkpoint.")] = 64,
    partitions: Annotated[int, typer.Option(min=1, help="Tasks in a trigger; fixed for a checkpoint.")] = 4,
    max_gap: opt.MaxGap = None,
    rate: Annotated[float | None, typer.Option(help="Sampling rate (Hz) of samples; the model's by default.")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="Spark configuration, KEY=VALUE such as spark.master=local[2]; repeatable.")
    ] = None,
) -> None:
    """Predict for many live wearers with a Spark stream that survives the death of its driver.

    Needs Java 17 and a separate environment: [bold]make fleet-env[/]. Started again with the same output folder it
    resumes, also with a new model; every window is predicted exactly once. Ctrl-C ends it with exit code 130.

    [bold]Examples[/]

      .venv-spark/bin/sight fleet arriving/ -m model.onnx -o fleet/ --every 10

      .venv-spark/bin/sight fleet packets/ -m model.onnx -o fleet/ --kind samples --format json

      .venv-spark/bin/sight fleet arriving/ -m new.onnx -o fleet/ --conf spark.master=local[2]
    """
    from sight._util.hashing import file_sha256
    from sight.apps.fleet.fleet_model import FleetOptions
    from sight.apps.fleet.spark_environment import require_spark
    from sight.apps.fleet.spark_job import JobConfig, run

    if not model.is_file():
        raise FileNotFoundError(f"There is no model file {model}; check the path.")
    options = FleetOptions(
        path=str(model.resolve()),
        digest=file_sha256(model),
        kind=kind,  # type: ignore[arg-type]  # checked by FleetOptions
        method=method,
        params=tuple(params or ()),
        shards=shards,
        carry=carry,  # type: ignore[arg-type]
        **({} if max_gap is None else {"max_gap_s": max_gap}),
        rate_in_hz=rate,
    )
    config = JobConfig(
        rows=_absolute(rows),
        out=_absolute(out),
        file_format=file_format,
        partitions=partitions,
        every_s=every,
        files_per_trigger=files,
        spark=parse_pairs(conf or (), "--conf KEY=VALUE such as spark.master=local[2]"),
    )
    if "://" not in rows and not Path(rows).is_dir():
        raise ValueError(f"Expected a folder in which files arrive, got {rows}; create it first, it may be empty.")
    require_spark()
    try:
        total = run(options, config, on_trigger=_print_trigger)
    except KeyboardInterrupt:
        errors.print("Stopped; finished triggers are kept, and the same command resumes.")
        raise typer.Exit(130) from None
    if total["invalid"] and not total["predicted"]:
        errors.print(f"No row was valid; do they hold {kind} that fit the model?", highlight=False, soft_wrap=True)
    console.print(
        f"Done: {_counts(total) or 'no rows'}; predictions: {config.out}/predictions", soft_wrap=True, highlight=False
    )


def _print_trigger(facts: dict[str, Any]) -> None:
    console.print(f"trigger {facts['batch']}: {_counts(facts)} in {facts['trigger_ms'] / 1000:.1f} s", highlight=False)


def _counts(facts: dict[str, Any]) -> str:
    from sight.apps.fleet.spark_job import STATUSES

    return ", ".join(f"{facts[name]} {name}" for name in STATUSES if facts[name])


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).resolve())
