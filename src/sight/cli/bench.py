"""``sight bench``: every table and figure of the paper by one command, and the stopwatch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.table import Column, Table

from sight.cli._shared import console, errors, progress

app = typer.Typer(no_args_is_help=True, help="Run experiments, report them beside the paper's numbers, measure speed.")

#: Where rows, models and results go unless told otherwise.
RUNS = Path("runs")


@app.command()
def run(
    ctx: typer.Context,
    experiment: Annotated[str, typer.Argument(help="Name of an experiment, or a TOML file of your own.")],
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", help="Name of a setting (see: sight bench list), or a TOML file.")
    ] = "synthetic",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of results; the same folder resumes.")] = RUNS,
    engine: Annotated[str, typer.Option(help="loky, serial, dask:local:N or dask:ADDRESS.")] = "loky",
    jobs: Annotated[int | None, typer.Option(help="Processes of loky; all cores by default.", min=1)] = None,
    device: Annotated[str, typer.Option(help="Where sources are trained: cpu or cuda.")] = "cpu",
    methods: Annotated[str | None, typer.Option(help="Only these, such as none,sight,mymethod.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Only these, such as 0,1.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only so many pairs of people.", min=1)] = None,
    gather: Annotated[bool, typer.Option("--gather", help="Run nothing; take the rows that are finished.")] = False,
) -> None:
    """Run an experiment on a dataset; what is finished is kept and never run twice.

    [bold]Example[/]

      sight bench run table-main --dataset hapt
    """
    from sight.bench import preflight
    from sight.bench.experiments import load_experiment, narrow
    from sight.bench.runner import run as run_all
    from sight.bench.runner import steps
    from sight.bench.settings import load_setting

    plan = load_experiment(experiment)
    if plan.kind == "speed":
        _refuse_options(ctx, plan.name)
        speed(out=out / "speed.json")
        return
    wanted = None if methods is None else [name.strip() for name in methods.split(",")]
    plan = narrow(plan, wanted, None if seeds is None else _numbers(seeds))
    setting = load_setting(dataset, pairs=plan.pairs, limit=limit)
    preflight.check(plan, setting)
    if not gather:
        preflight.check_place(out, device, engine)
    try:
        with progress(f"{plan.name} on {setting.name}", steps(plan, setting, only_finished=gather)) as show:
            rows, failures = run_all(
                plan, setting, out, engine=engine, jobs=jobs, device=device, only_finished=gather, on_done=show
            )
    except KeyboardInterrupt:
        _stopped(out)
    part = (methods, seeds, limit) != (None, None, None)
    _finish(plan, setting, out, rows, failures, part=part, gathered=gather)


def _refuse_options(ctx: typer.Context, name: str) -> None:
    """Refuse what the stopwatch would ignore."""
    given = [entry for entry in ctx.params if (source := ctx.get_parameter_source(entry)) and source.name != "DEFAULT"]
    wrong = [f"--{entry}" for entry in given if entry not in ("experiment", "out")]
    if wrong:
        raise ValueError(
            f"{name} is the stopwatch of sight bench speed, at shapes of its own and with every method; it takes no "
            f"{', '.join(wrong)}, so leave that out."
        )


def _stopped(out: Path) -> NoReturn:
    from sight.bench.runner import kept

    errors.print(
        f"Stopped; the same command goes on from the {kept(out)} rows that are finished in {out}, "
        f"and keeps the models that are trained.",
        highlight=False,
        soft_wrap=True,
    )
    raise typer.Exit(130) from None


def _finish(
    plan: Any, setting: Any, out: Path, rows: list[Any], failures: list[Any], *, part: bool, gathered: bool
) -> None:
    """Write the rows, under the name of a part unless they are the whole, and tell."""
    from sight.bench.result_rows import write
    from sight.bench.runner import planned

    whole = planned(plan, setting)
    part = part or (gathered and len(rows) < whole)
    path = out / f"{plan.name}_{setting.name}{'.part' if part else ''}.parquet"
    if rows:
        write(path, rows)
        count = f"{len(rows)} rows" if len(rows) == whole else f"{len(rows)} of {whole} rows"
        console.print(
            f"{count} in {path}; see them with: sight bench report {out} -o {out / 'report'}",
            highlight=False,
            soft_wrap=True,
        )
    elif gathered and not failures:
        errors.print(f"No finished rows in {out}", highlight=False, soft_wrap=True)
        raise typer.Exit(1)
    _tell(failures, path.with_suffix(".failures.txt"))


def _numbers(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise ValueError(f"Expected seeds such as 0,1, got {text!r}; write whole numbers with commas.") from None


def _tell(failures: list[Any], path: Path) -> None:
    """Name what failed, equal ones once, and all in a file; a file of an earlier run goes when nothing did."""
    path.unlink(missing_ok=True)
    if not failures:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{failure}\n" for failure in failures), "utf-8")
    alike: dict[str, list[Any]] = {}
    for failure in failures:
        alike.setdefault(failure.error, []).append(failure)
    for first, *others in list(alike.values())[:5]:
        more = f" ({len(others) + 1} times)" if others else ""
        errors.print(f"failed: {first}{more}", markup=False, highlight=False, soft_wrap=True)
    errors.print(
        f"{len(failures)} rows failed, all named in {path}; the same command tries them once more.", soft_wrap=True
    )
    raise typer.Exit(1)


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Result files (.parquet), or folders that hold them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for page, tables and figures.")] = RUNS / "report",
    across: Annotated[bool, typer.Option("--across", help="Only the tables over several settings.")] = False,
) -> None:
    """Write tables (Markdown, LaTeX), figures (SVG) and a page of all results, and tables over several settings.

    [bold]Example[/]

      sight bench report runs -o runs/report
    """
    from sight.bench.report import write_report

    console.print(f"Open {write_report(results, out, only_across=across)}", soft_wrap=True)


@app.command("list")
def listing() -> None:
    """List the experiments, the settings they run on, and which of those have their data here."""
    from sight.bench import experiments, settings

    table = Table("experiment", "what it compares", "methods", "in the paper", title="Experiments")
    for name in experiments.experiments():
        plan = experiments.load_experiment(name)
        count = str(len(plan.variants)) if plan.variants else "all"
        table.add_row(f"[bold]{name}[/]", plan.title, count, experiments.PRINTED.get(name, ""))
    console.print(table)
    table = Table(Column("setting", no_wrap=True), "corpus", "whom", "here", "stands for", title="Settings")
    for name in settings.settings():
        about = settings.describe(name)
        table.add_row(f"[bold]{name}[/]", about.corpus, about.whom, about.here, about.paper)
    console.print(table)
    console.print(
        "hapt stands for the paper's ucihar: HAPT holds the recordings behind UCI-HAR, of the same people, whole and "
        "in the order of time, and is cut as UCI-HAR was.",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def speed(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the figures.")] = Path("out/speed.json"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions; for a look, not for a table.")] = False,
) -> None:
    """Time every method at the shapes of HARTH and CAPTURE-24, one thread, ratios in one run.

    [bold]Example[/]

      sight bench speed --quick
    """
    from sight.bench.preflight import probe
    from sight.bench.speed import speed as measure

    probe(out.parent)
    measure(out=out, quick=quick)
    console.print(f"All figures in {out}; sight bench report leaves them out.", highlight=False, soft_wrap=True)
