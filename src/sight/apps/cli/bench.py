"""``sight bench``: run the paper's experiments and report them."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from sight.apps.cli._shared import console, errors, progress

app = typer.Typer(no_args_is_help=True, help="Run experiments and report them with the paper's values.")

#: Default folder of rows, models and results.
RUNS = Path("runs")


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment, or a TOML file of your own.")],
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset",
            "-d",
            help="Name of a setting, a dataset with its subjects (see: sight bench list), or a TOML file.",
        ),
    ] = "synthetic",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of results; the same folder resumes.")] = RUNS,
    engine: Annotated[str, typer.Option(help="loky, serial, dask:local:N or dask:ADDRESS.")] = "loky",
    jobs: Annotated[int | None, typer.Option(help="Processes of loky; all cores by default.", min=1)] = None,
    device: Annotated[str, typer.Option(help="Where source models are trained: cpu or cuda.")] = "cpu",
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="Trained model (.safetensors, .onnx) instead of training one.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Only these methods or labels of the experiment, such as none,sight; others are added."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Only these seeds, such as 0,1.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N pairs of subjects.", min=1)] = None,
    gather: Annotated[bool, typer.Option("--gather", help="Compute nothing; collect the finished rows.")] = False,
) -> None:
    """Run an experiment on a setting; finished rows are stored and never computed twice.

    [bold]Examples[/]

      sight bench run table-main --dataset hapt --methods none,sight --seeds 0 --limit 1

      sight bench run table-main --dataset hapt

      sight bench run table-main --dataset hapt-total-pooled --model own.onnx --methods none,keel
    """
    from sight.apps.bench import preflight
    from sight.apps.bench.experiments import load_experiment, narrow, split_names
    from sight.apps.bench.runner import count_steps, run as run_experiment
    from sight.apps.bench.settings import load_setting
    from sight.apps.bench.trial_rows import count_rows

    plan = load_experiment(experiment)
    names = None if methods is None else split_names(methods, plan)
    plan = narrow(plan, names, None if seeds is None else _parse_seeds(seeds))
    setting = load_setting(dataset, pairs=plan.pairs, limit=limit, model=model)
    preflight.check(plan, setting)
    if not gather:
        preflight.check_output(out, device, engine)
    absent: list[Any] = []
    try:
        with progress(
            f"{plan.name} on {setting.name}", count_steps(plan, setting, only_finished=gather), "steps"
        ) as show:
            rows, failures = run_experiment(
                plan,
                setting,
                out,
                engine=engine,
                jobs=jobs,
                device=device,
                only_finished=gather,
                on_done=show,
                on_absent=absent.append,
            )
    except KeyboardInterrupt:
        _print(errors, f"Stopped with {count_rows(out)} finished rows in {out}; the same command resumes.")
        raise typer.Exit(130) from None
    partial = (methods, seeds, limit, model) != (None, None, None, None)
    _write_rows(plan, setting, out, rows, failures, partial, gather, len(absent))


def _print(to: Any, text: str) -> None:
    to.print(text, highlight=False, soft_wrap=True)


def _write_rows(
    plan: Any, setting: Any, out: Path, rows: list[Any], failures: list[Any], partial: bool, gathered: bool, absent: int
) -> None:
    """Write the rows, as ``*.part.parquet`` unless they are complete, and report failures and absent streams."""
    from sight.apps.bench.result_rows import write
    from sight.apps.bench.runner import count_rows

    total = count_rows(plan, setting) - absent * len(plan.variants)
    partial = partial or (gathered and len(rows) < total)
    path = out / f"{plan.name}_{setting.name}{'.part' if partial else ''}.parquet"
    if rows:
        write(path, rows)
        count = f"{len(rows)} rows" if len(rows) == total else f"{len(rows)} of {total} rows"
        _print(console, f"{count} in {path}; report them with: sight bench report {out} -o {out / 'report'}")
    elif gathered and not failures:
        _print(errors, f"No finished rows in {out}")
        raise typer.Exit(1)
    if absent:
        console.print(f"Streams left out, for which the subject lacks windows: {absent}", highlight=False)
    _report_failures(failures, path.with_suffix(".failures.txt"))


def _parse_seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise ValueError(f"Expected seeds such as 0,1, got {text!r}; write whole numbers with commas.") from None


def _report_failures(failures: list[Any], path: Path) -> None:
    """Print failures, equal ones once, write all of them to a file, and exit; remove the file if there are none."""
    path.unlink(missing_ok=True)
    if not failures:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{failure}\n" for failure in failures), "utf-8")
    by_error: dict[str, list[Any]] = {}
    for failure in failures:
        by_error.setdefault(failure.error, []).append(failure)
    for first, *others in list(by_error.values())[:5]:
        more = f" ({len(others) + 1} times)" if others else ""
        errors.print(f"failed: {first}{more}", markup=False, highlight=False, soft_wrap=True)
    errors.print(f"{len(failures)} rows failed, listed in {path}; the same command retries them.", soft_wrap=True)
    raise typer.Exit(1)


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Result files (.parquet), or folders that contain some.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder.")] = RUNS / "report",
    across: Annotated[bool, typer.Option("--across", help="Only the tables over several settings.")] = False,
    formats: Annotated[
        str, typer.Option("--format", help="all, or markdown: report.md alone, without figures.")
    ] = "all",
) -> None:
    """Write tables (Markdown, LaTeX), figures (SVG) and an HTML page of results.

    [bold]Example[/]

      sight bench report runs -o runs/report
    """
    from sight.apps.bench.experiment_files import check_name
    from sight.apps.bench.experiment_report.write import FORMATS, write_report

    check_name(formats, FORMATS, "format")
    written = write_report(results, out, only_across=across, formats=formats)
    text = "" if written.name == "report.md" else f"; the same tables as text: {out / 'report.md'}"
    console.print(f"Open {written}{text}", soft_wrap=True)


@app.command("list")
def list_all() -> None:
    """List experiments and settings, and which settings have their data on this machine."""
    from sight.apps.bench import experiments, settings

    table = Table("experiment", "title", "methods", "in the paper", title="Experiments")
    for name in experiments.experiments():
        plan = experiments.load_experiment(name)
        table.add_row(f"[bold]{name}[/]", plan.title, str(len(plan.variants)), plan.in_paper)
    console.print(table)
    heads = ("dataset", "pairs", "subjects here", "in the paper")
    table = Table(Column("setting", no_wrap=True), *heads, title="Settings")
    for name in settings.settings():
        summary = settings.describe(name)
        table.add_row(f"[bold]{name}[/]", summary.dataset, summary.pairs, summary.subjects, summary.paper)
    console.print(table)
    _print(
        console,
        "hapt replaces the paper's ucihar: HAPT contains the complete recordings behind UCI-HAR, of the same subjects "
        "in chronological order, and is cut into windows as UCI-HAR was.",
    )
