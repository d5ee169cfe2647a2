"""``sight cohort``: run many recordings through one model, and query the results."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from sight import registry
from sight.apps.cli import _options as opt
from sight.apps.cli._shared import console, errors, exit_if_strict, first_names, plural, progress
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import dataset_recordings, find_recordings
from sight.results.output_tables.rules import DAYS_FROM, VALID_DAY, TableRules
from sight.types import SEVERITIES, Severity, Warning

app = typer.Typer(no_args_is_help=True, help="Run a folder of recordings and query the results.")

Folder = Annotated[Path, typer.Argument(metavar="OUT", help="Folder written by sight cohort run.")]


@app.command()
@opt.takes_reading_options()
def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="Folder of recordings, or a dataset such as hapt: one recording a subject."
        ),
    ],
    model: opt.Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of results; the same folder resumes a run.")],
    method: opt.Method = registry.RECOMMENDED,
    params: opt.Params = None,
    preset: opt.Preset = None,
    lag: opt.Lag = None,
    engine: opt.Engine = "loky",
    jobs: opt.Jobs = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory that all recordings together may use, such as 16GB; most of what is free by default."
        ),
    ] = None,
    separate: opt.Separate = False,
    valid_day: opt.ValidDay = VALID_DAY,
    min_bout: opt.MinBout = None,
    days_from: opt.DaysFrom = DAYS_FROM,
    cut_points: opt.CutPoints = "",
    participants: Annotated[
        Path | None, typer.Option(help="CSV with one row per participant, joined with the tables.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column of --participants with names of recordings; found by default.")
    ] = None,
    strict: opt.Strict = False,
    *,
    reading: ReadOptions,
) -> None:
    """Recognise activities in every recording of a folder; finished recordings are not run again.

    Files in a folder below the folder are joined as one subject.

    Writes windows/NAME.parquet and facts/NAME.json for each recording, tables over all of them in summary/, and
    overview.html. A file that cannot be read is listed in failures.csv, and the exit code is 1.

    [bold]Examples[/]

      sight cohort run recordings/ -m model.onnx -o results/

      sight cohort run recordings/ -m wrist -o results/ --participants people.csv --valid-day 10h

      sight cohort run recordings/ -m model.onnx -o results/ --engine dask:local:8 --memory 48GB
    """
    from sight.apps.cohort.memory_budget import parse_bytes
    from sight.apps.cohort.run import run as run_cohort

    if participants is not None and not participants.is_file():
        raise ValueError(f"There is no file {participants}; check the path of --participants.")
    rules = TableRules.parse(valid_day, min_bout, days_from, cut_points)
    is_dataset = not Path(target).exists() and target.lower() in registry.names("datasets")
    if is_dataset:
        recordings = dataset_recordings(target, reading.dataset_options)
    else:
        recordings = find_recordings(target, separate=separate)
    adapter = registry.method(method, preset, params or ())
    try:
        with progress("processing", len(recordings), "recordings") as show:
            show(0)
            outcome = run_cohort(
                recordings,
                model,
                adapter,
                out,
                options=reading,
                lag=lag,
                engine=engine,
                jobs=jobs,
                budget=None if memory is None else parse_bytes(memory),
                on_done=show,
                rules=rules,
                participants=participants,
                id_column=id_column,
            )
    except KeyboardInterrupt:
        errors.print("Interrupted; finished recordings are kept, and the same command runs the remaining ones.")
        raise typer.Exit(130) from None
    unusable = _report_results(outcome, out) if outcome.finished else []
    _report_participants(outcome.participants, out)
    if outcome.failures:
        _report_failures(outcome, out)
    exit_if_strict(strict, unusable)


def _report_results(outcome: Any, out: Path) -> list[str]:
    """Print what was written, and recordings with warnings; return the names of those whose numbers cannot be used."""
    from sight.apps.cohort.results_folder import ResultsFolder
    from sight.apps.cohort.summary_tables import run_query

    notes = [f"{outcome.reused} of them from an earlier run"] if outcome.reused else []
    if outcome.replaced:
        reason = outcome.changes or "the file or the code of the method changed"
        notes.append(f"{outcome.replaced} of them replaced ({reason})")
    found = ", ".join([f"{plural(len(outcome.finished), 'recording')} in {out}", *notes])
    console.print(f"{found}; open {out / 'overview.html'}", soft_wrap=True)
    folder = ResultsFolder(out)
    names: dict[Severity, list[str]] = {}
    for severity in SEVERITIES[:2]:
        _, rows = run_query(folder, f"SELECT recording FROM recordings WHERE {severity}s > 0 ORDER BY recording")
        names[severity] = [row[0] for row in rows]
        if rows:
            first = names[severity][0]
            given = [Warning(**each) for each in (folder.read_facts(first) or {})["warnings"]]
            warning = next(each for each in given if each.severity == severity)
            text = f"{plural(len(rows), 'recording')} with {severity}s, first: {first}: {severity}: {warning}"
            errors.print(text, markup=False, highlight=False, soft_wrap=True)
    return names["error"]


def _report_participants(participants: Any, out: Path) -> None:
    from sight.apps.cohort.participants import NO_PARTICIPANT, NO_RECORDING, UNREADABLE

    if participants is None:
        return
    text = f"Participants are matched by their column {participants.id_column!r}; see {out / 'participants.csv'}."
    console.print(text, markup=False, soft_wrap=True)
    listed = {
        UNREADABLE: ("participant", "whose recording could not be read"),
        NO_RECORDING: ("participant", "without a recording"),
        NO_PARTICIPANT: ("recording", "without a participant"),
    }
    for status, (noun, what) in listed.items():
        if names := participants.names(status):
            text = f"{plural(len(names), noun)} {what}: {first_names(names)}"
            errors.print(text, markup=False, highlight=False, soft_wrap=True)


def _report_failures(outcome: Any, out: Path) -> None:
    for name, _, error in outcome.failures[:5]:
        errors.print(f"{name} was skipped: {error}", markup=False, highlight=False, soft_wrap=True)
    some = f"{plural(len(outcome.failures), 'recording')} could not be read"
    found = some if outcome.finished else "No recording could be read"
    errors.print(
        f"{found}; see {out / 'failures.csv'}. Fix the files, or remove them, and run the same command again.",
        soft_wrap=True,
    )
    raise typer.Exit(1)


@app.command()
def page(
    out: Folder,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Names of recordings, as in the overview.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Write the reports of all recordings.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the first in the browser.")] = False,
) -> None:
    """Write full reports of recordings from their stored windows; the overview links to them.

    [bold]Examples[/]

      sight cohort page results/ NAME --open

      sight cohort page results/ --all
    """
    from sight.apps.cohort.overview_page import write_recording_pages
    from sight.apps.cohort.results_folder import ResultsFolder

    listed = ResultsFolder(out).names() if every else names or []
    if not listed:
        raise ValueError("Expected names of recordings or --all, and a folder with results; got neither.")
    written = write_recording_pages(out, listed)
    found = str(written[0]) if len(written) == 1 else f"{len(written)} reports in {written[0].parent}"
    console.print(f"Wrote {found}", soft_wrap=True)
    if show:
        typer.launch(written[0].resolve().as_uri())


@app.command()
def query(
    out: Folder,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Query over windows, summary, daily, bouts, nonwear ...")],
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file instead.")] = None,
    limit: Annotated[int, typer.Option(help="Rows to print.", min=1)] = 40,
) -> None:
    """Query the results of a cohort in SQL (DuckDB).

    Prints up to --limit rows. Tables with many columns are easier to read in a file (--csv).

    [bold]Examples[/]

      sight cohort query results/ "SELECT class, hours, share_median FROM time_use"

      sight cohort query results/ "FROM recordings WHERE flags <> ''" --csv flagged.csv
    """
    from sight.apps.cohort.results_folder import ResultsFolder
    from sight.apps.cohort.summary_tables import run_query

    names, rows = run_query(ResultsFolder(out), sql, csv)
    if csv is not None:
        console.print(f"Wrote {csv}", soft_wrap=True)
        return
    table = Table(*names)
    for row in rows[:limit]:
        table.add_row(*("" if value is None else str(value) for value in row))
    console.print(table, markup=False)
    if 8 * len(names) > console.width:
        console.print(f"{len(names)} columns are cut to fit; select fewer, or write them with --csv.")
    if len(rows) > limit:
        console.print(f"{len(rows) - limit} more rows; print them with --limit or write them with --csv.")
