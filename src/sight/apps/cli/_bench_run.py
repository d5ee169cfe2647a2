"""Runs of ``sight bench run``: one experiment, or a list of experiments with an estimate and a report."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.table import Column, Table

from sight.apps.cli._shared import console, errors, progress


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of the command that do not name experiment, setting or model."""

    out: Path
    engine: str
    jobs: int | None
    device: str
    gather: bool
    dry_run: bool
    methods: str | None
    seeds: list[int] | None
    limit: int | None

    @property
    def narrowed(self) -> bool:
        return (self.methods, self.seeds, self.limit) != (None, None, None)


@contextmanager
def data_folder_at(folder: Path | None) -> Iterator[None]:
    """Look for datasets in a folder; processes that start meanwhile do so too. None keeps the present one."""
    if folder is None:
        yield
        return
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}; name the folder that contains the datasets with --data.")
    before = os.environ.get("SIGHT_DATA")
    os.environ["SIGHT_DATA"] = str(folder.resolve())
    try:
        yield
    finally:
        os.environ.pop("SIGHT_DATA")
        if before is not None:
            os.environ["SIGHT_DATA"] = before


def run_one(experiment: str, dataset: str, model: Path | None, options: RunOptions) -> None:
    """Run an experiment on a setting; exit with code 1 if rows failed."""
    from sight.apps.bench import preflight
    from sight.apps.bench.experiment_lists import PlannedRun
    from sight.apps.bench.experiments import load_experiment, narrow, split_names
    from sight.apps.bench.settings import load_setting

    plan = load_experiment(experiment)
    names = None if options.methods is None else split_names(options.methods, plan)
    plan = narrow(plan, names, options.seeds)
    setting = load_setting(dataset, pairs=plan.pairs, limit=options.limit, model=model)
    preflight.check(plan, setting)
    planned = PlannedRun(plan, setting)
    if options.dry_run:
        _print_estimate([planned], options)
        return
    if not options.gather:
        preflight.check_output(options.out, options.device, options.engine)
    if not _run(planned, options, partial=options.narrowed or model is not None):
        raise typer.Exit(1)


def run_list(name: str, dataset: str | None, options: RunOptions) -> None:
    """Run the experiments of a list for which there are data, and report them; exit with code 1 if rows failed."""
    from sight.apps.bench import preflight
    from sight.apps.bench.experiment_lists import load_list, select
    from sight.apps.bench.experiment_report.write import write_report

    chosen = select(load_list(name), setting=dataset, methods=options.methods, seeds=options.seeds, limit=options.limit)
    _print_data(name, chosen)
    if not options.gather:
        if not options.dry_run:
            preflight.check_output(options.out, options.device, options.engine)
        _print_estimate(chosen.runs, options)
    if options.dry_run:
        return
    complete = [_run(planned, options, partial=options.narrowed) for planned in chosen.runs]
    if list(options.out.glob("*.parquet")):
        written = write_report([options.out], options.out / "report")
        _print(console, f"Open {written}; the same tables as text: {options.out / 'report' / 'report.md'}")
    if not all(complete):
        raise typer.Exit(1)


def _print_data(name: str, chosen: Any) -> None:
    """Print which settings lack data and which take their place; raise ValueError if no run is left."""
    from sight._util.folder_or_zip import data_folder

    present = {run.setting.name for run in chosen.runs}
    for (setting, reason), experiments in chosen.missing.items():
        what = f"{', '.join(experiments)} on {setting}" if setting in present else setting
        _print(errors, f"Left out: {what}; {reason.removeprefix(f'{setting}: ')}")
    for setting, replacement in chosen.replaced.items():
        _print(console, f"{replacement} replaces {setting}, whose dataset is missing.")
    if not chosen.runs:
        missing = ", ".join(dict.fromkeys(setting for setting, _ in chosen.missing))
        raise ValueError(
            f"None of the datasets of {name} is in {data_folder()}: {missing}; the lines above list the expected "
            f"files. Name their folder with --data."
        )


def _print_estimate(runs: Sequence[Any], options: RunOptions) -> None:
    """Count the work of runs, measure this machine, and print source models, rows and hours, the total first."""
    from sight.apps.bench.run_estimate import count_windows, estimate, processes, subjects_to_read
    from sight.apps.bench.trial_rows import count_rows

    with progress("Reading", len(subjects_to_read(runs)), "subjects") as show:
        sizes = count_windows(runs, engine=options.engine, jobs=options.jobs, on_done=show)
    for size in sizes.values():
        if size.error:
            _print(errors, f"Cannot be read, its rows will fail: {size.error}")
    costs = estimate(runs, sizes, device=options.device)
    count = processes(options.engine, options.jobs)
    hours = [(cost.training_s / 3600 / count, cost.methods_s / 3600 / count) for cost in costs]
    models, rows = sum(cost.models for cost in costs), sum(cost.rows for cost in costs)
    training, methods = (sum(parts) for parts in zip(*hours, strict=True))
    _print(
        console,
        f"Estimate: {_hours(training + methods)} hours in {count} {'process' if count == 1 else 'processes'}: "
        f"{models:,} source models, {_hours(training)} hours; {rows:,} rows, {_hours(methods)} hours. Seconds per "
        f"window were measured on made data with the networks and methods of the plan.",
    )
    heads = (Column(head, justify="right") for head in ("models", "rows", "training, h", "methods, h"))
    table = Table(Column("experiment", no_wrap=True), "setting", *heads)
    for cost, own in zip(costs, hours, strict=True):
        counts = f"{cost.models:,}", f"{cost.rows:,}"
        table.add_row(cost.experiment, cost.setting, *counts, *(_hours(value) for value in own))
    console.print(table)
    finished = count_rows(options.out)
    if finished:
        _print(console, f"{options.out} has {finished:,} finished rows; those of this plan are not computed again.")


def _hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _run(planned: Any, options: RunOptions, *, partial: bool) -> bool:
    """Run an experiment on a setting and write its rows; return whether none failed."""
    from sight.apps.bench.runner import count_steps, run as run_experiment
    from sight.apps.bench.trial_rows import count_rows

    plan, setting = planned
    absent: list[Any] = []
    steps = count_steps(plan, setting, only_finished=options.gather)
    try:
        with progress(f"{plan.name} on {setting.name}", steps, "steps") as show:
            rows, failures = run_experiment(
                plan,
                setting,
                options.out,
                engine=options.engine,
                jobs=options.jobs,
                device=options.device,
                only_finished=options.gather,
                on_done=show,
                on_absent=absent.append,
            )
    except KeyboardInterrupt:
        _print(
            errors, f"Stopped with {count_rows(options.out)} finished rows in {options.out}; the same command resumes."
        )
        raise typer.Exit(130) from None
    return _write_rows(planned, options, rows, failures, partial, len(absent))


def _print(to: Any, text: str) -> None:
    to.print(text, highlight=False, soft_wrap=True, markup=False)


def _write_rows(
    planned: Any, options: RunOptions, rows: list[Any], failures: list[Any], partial: bool, absent: int
) -> bool:
    """Write the rows, as ``*.part.parquet`` unless they are complete, and print failures and absent streams.

    Returns whether there are rows, or at least no failures.
    """
    from sight.apps.bench.result_rows import write
    from sight.apps.bench.runner import count_rows

    (plan, setting), out = planned, options.out
    total = count_rows(plan, setting) - absent * len(plan.variants)
    partial = partial or (options.gather and len(rows) < total)
    path = out / f"{plan.name}_{setting.name}{'.part' if partial else ''}.parquet"
    if rows:
        write(path, rows)
        count = f"{len(rows)} rows" if len(rows) == total else f"{len(rows)} of {total} rows"
        _print(console, f"{count} in {path}; report them with: sight bench report {out} -o {out / 'report'}")
    elif options.gather and not failures:
        _print(errors, f"No finished rows in {out}")
        return False
    if absent:
        console.print(f"Streams left out, for which the subject lacks windows: {absent}", highlight=False)
    return _print_failures(failures, path.with_suffix(".failures.txt"))


def _print_failures(failures: list[Any], path: Path) -> bool:
    """Print failures, equal ones once, and write all to a file, which is removed without any; return if none."""
    path.unlink(missing_ok=True)
    if not failures:
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{failure}\n" for failure in failures), "utf-8")
    by_error: dict[str, list[Any]] = {}
    for failure in failures:
        by_error.setdefault(failure.error, []).append(failure)
    for first, *others in list(by_error.values())[:5]:
        more = f" ({len(others) + 1} times)" if others else ""
        _print(errors, f"failed: {first}{more}")
    _print(errors, f"{len(failures)} rows failed, listed in {path}; the same command retries them.")
    return False
