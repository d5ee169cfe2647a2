"""``sight cohort``: thousands of recordings through one model, tables and a page over all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sight import registry
from sight.cli._inputs import Input, dataset_of, find, read
from sight.cli._reading import Reading, with_reading
from sight.cli._shared import console, errors, make_adapter, progress
from sight.cli.adapt import Method, Model, Preset, Settings
from sight.types import Windows

app = typer.Typer(no_args_is_help=True, help="Run a cohort of recordings, look at one of them, ask about all of them.")

Folder = Annotated[Path, typer.Argument(metavar="OUT", help="Folder that sight cohort run wrote.")]


@app.command()
@with_reading
def run(
    target: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="Folder of recordings, or a dataset such as hapt, one person each."),
    ],
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of results; the same folder resumes.")],
    method: Method = registry.RECOMMENDED,
    settings: Settings = None,
    preset: Preset = None,
    engine: Annotated[str, typer.Option(help="loky, serial, dask:local:N or dask:ADDRESS.")] = "loky",
    jobs: Annotated[int | None, typer.Option(help="Processes of loky; all cores by default.", min=1)] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory recordings may need together, such as 16GB; most of what is free by default."),
    ] = None,
    *,
    reading: Reading,
) -> None:
    """Recognise activities in every recording of a folder; what is finished is kept and never run twice.

    Writes windows/NAME.parquet and facts/NAME.json for each, tables over all in summary/, and overview.html. A file
    that cannot be read is named in failures.csv, and the exit code is 1.

    [bold]Examples[/]

      sight cohort run recordings/ -m model.onnx -o results/

      sight cohort run recordings/ -m model.onnx -o results/ --engine dask:local:8 --memory 48GB
    """
    from sight.cohort.memory_budget import parse
    from sight.cohort.run import run as run_all

    streams = _streams(target, list(reading.options))
    try:
        with progress("recordings", len(streams)) as show:
            outcome = run_all(
                streams,
                model,
                make_adapter(method, settings, preset),
                out,
                read=read_quietly,
                reading=reading,
                engine=engine,
                jobs=jobs,
                budget=None if memory is None else parse(memory),
                on_done=show,
            )
    except KeyboardInterrupt:
        errors.print("Interrupted; what is finished is kept, and the same command does the rest.")
        raise typer.Exit(130) from None
    kept = f", {outcome.kept} of them from before" if outcome.kept else ""
    console.print(f"{len(outcome.finished)} recordings in {out}{kept}; open {out / 'overview.html'}", soft_wrap=True)
    _tell(outcome.failures, out)


def _streams(target: str, options: list[str]) -> list[Input]:
    """List what to run: the files of a folder, or the people of a dataset."""
    if Path(target).exists() or ":" in target or target.lower() not in registry.names("datasets"):
        return find(target)
    dataset, _ = dataset_of(target, options)
    name = target.lower()
    return [Input(name=f"{name}-{who}", dataset=name, subject=who) for who in dataset.subjects()]


def read_quietly(item: Input, source: Any, reading: Reading) -> Windows:
    """Read a stream as `sight adapt` does; remarks go to its facts instead of the terminal."""
    with errors.capture() as said:
        windows = read(item, source, reading)
    remarks = Text.from_ansi(said.get()).plain.splitlines()
    return replace(
        windows, facts={**windows.facts, "warnings": [line.removeprefix(f"{item.name}: ") for line in remarks]}
    )


def _tell(failures: list[tuple[str, str, str]], out: Path) -> None:
    for name, _, error in failures[:5]:
        errors.print(f"{name} was left out: {error}", markup=False, highlight=False, soft_wrap=True)
    if failures:
        errors.print(
            f"{len(failures)} recordings could not be read, all named in {out / 'failures.csv'}; mend or remove them, "
            f"and the same command does the rest.",
            soft_wrap=True,
        )
        raise typer.Exit(1)


@app.command()
def page(
    out: Folder,
    name: Annotated[str, typer.Argument(help="Name of the recording, as the overview shows it.")],
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the full report of one recording from its stored windows.

    [bold]Example[/]

      sight cohort page results/ P012 --open
    """
    from sight.cohort.recording_page import write_page

    written = write_page(out, name)
    console.print(f"Wrote {written}", soft_wrap=True)
    if show:
        typer.launch(written.resolve().as_uri())


@app.command()
def query(
    out: Folder,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Over windows, days, recordings, transitions, time_use.")],
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the answer to this file instead.")] = None,
    limit: Annotated[int, typer.Option(help="Rows to show in the terminal.", min=1)] = 40,
) -> None:
    """Ask anything about a cohort in SQL (DuckDB).

    [bold]Examples[/]

      sight cohort query results/ "SELECT class, avg(minutes) FROM days GROUP BY class"

      sight cohort query results/ "FROM recordings WHERE flags <> ''" --csv look.csv
    """
    from sight.cohort.sql_query import ask

    if csv is not None:
        ask(out, sql, csv)
        console.print(f"Wrote {csv}", soft_wrap=True)
        return
    names, rows = ask(out, sql)
    table = Table(*names)
    for row in rows[:limit]:
        table.add_row(*("" if value is None else str(value) for value in row))
    console.print(table, markup=False)
    if len(rows) > limit:
        console.print(f"{len(rows) - limit} more rows; see them with --limit or --csv.")
