"""``sight bench``: run the paper's experiments and report them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from sight.apps.cli._shared import console

app = typer.Typer(no_args_is_help=True, help="Run experiments and report them with the paper's values.")

#: Default folder of rows, models and results.
RUNS = Path("runs")


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment or a list, or a TOML file of your own.")],
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            "-d",
            help="Name of a setting, a dataset with its subjects (see: sight bench list), or a TOML file; synthetic by "
            "default, for a list all its settings.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the datasets; SIGHT_DATA, or the user's data folder, by default.")
    ] = None,
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print source models, rows and estimated hours; run nothing.")
    ] = False,
) -> None:
    """Run an experiment on a setting, or a list of experiments; finished rows are stored and never computed twice.

    [bold]Examples[/]

      sight bench run table-main --dataset hapt --methods none,sight --seeds 0 --limit 1

      sight bench run table-main --dataset hapt

      sight bench run table-main --dataset hapt-total-pooled --model own.onnx --methods none,keel

      sight bench run paper --data DIR
    """
    from sight.apps.bench.experiment_lists import experiment_lists
    from sight.apps.cli import _bench_run

    options = _bench_run.RunOptions(
        out=out,
        engine=engine,
        jobs=jobs,
        device=device,
        gather=gather,
        dry_run=dry_run,
        methods=methods,
        seeds=None if seeds is None else _parse_seeds(seeds),
        limit=limit,
    )
    with _bench_run.data_folder_at(data):
        if experiment not in experiment_lists():
            _bench_run.run_one(experiment, dataset or "synthetic", model, options)
        elif model is not None:
            raise ValueError(f"{experiment} trains its own source models; name one experiment to use --model.")
        else:
            _bench_run.run_list(experiment, dataset, options)


def _parse_seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise ValueError(f"Expected seeds such as 0,1, got {text!r}; write whole numbers with commas.") from None


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
    """List experiments, lists of them and settings, and which settings have their data on this machine."""
    from sight.apps.bench import experiment_lists, experiments, settings

    table = Table("experiment", "title", "methods", "in the paper", title="Experiments")
    for name in experiments.experiments():
        plan = experiments.load_experiment(name)
        table.add_row(f"[bold]{name}[/]", plan.title, str(len(plan.variants)), plan.in_paper)
    console.print(table)
    table = Table("list", "title", "experiments", "settings", title="Lists of experiments")
    for name in experiment_lists.experiment_lists():
        listed = experiment_lists.load_list(name)
        plans = dict.fromkeys(experiment for experiment, _ in listed.runs)
        table.add_row(f"[bold]{name}[/]", listed.title, ", ".join(plans), ", ".join(listed.settings))
    console.print(table)
    heads = ("dataset", "pairs", "subjects here", "in the paper")
    table = Table(Column("setting", no_wrap=True), *heads, title="Settings")
    for name in settings.settings():
        summary = settings.describe(name)
        table.add_row(f"[bold]{name}[/]", summary.dataset, summary.pairs, summary.subjects, summary.paper)
    console.print(table)
    console.print(
        "hapt replaces the paper's ucihar: HAPT contains the complete recordings behind UCI-HAR, of the same subjects, "
        "and is cut into windows as UCI-HAR was; hapt-filters has its filters too.",
        highlight=False,
        soft_wrap=True,
    )
