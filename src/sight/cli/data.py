"""``sight data list | fetch | info | remove``: datasets on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from sight import registry
from sight.cli._inputs import dataset_of
from sight.cli._shared import console, progress

app = typer.Typer(no_args_is_help=True, help="Datasets: what there is, where it lies, what is in it.")

Name = Annotated[str, typer.Argument(help="A dataset's name (see: sight data list).")]


@app.command("list")
def list_() -> None:
    """List datasets and say which are on this machine."""
    table = Table(title="Datasets")
    for column in ("name", "here", "what", "licence"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for name in registry.names("datasets"):
        cls = registry.get("datasets", name)
        try:
            here = f"{len(cls().subjects())} people"
        except ValueError:
            here = "-"
        table.add_row(f"[bold]{name}[/]", here, getattr(cls, "title", ""), cls.licence)
    console.print(table)


@app.command()
def fetch(
    name: Name,
    folder: Annotated[
        Path | None, typer.Option(help="Where to put it; SIGHT_DATA or ../shared/data by default.")
    ] = None,
) -> None:
    """Download a dataset from its official place, hash checked, resumed if broken off.

    [bold]Example[/]

      sight data fetch harth --folder data/
    """
    from sight.datasets.fetch import fetch as download

    for path in download(name, folder, echo=console.print):
        console.print(f"[bold]{path}[/]")


@app.command()
def info(
    name: Name,
    option: Annotated[list[str] | None, typer.Option(help="Option of the dataset, KEY=VALUE; repeatable.")] = None,
    root: Annotated[Path | None, typer.Option(help="Folder or zip with its files.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write all facts as JSON.")] = None,
) -> None:
    """Count windows and labels of each person, with what the reading found.

    [bold]Examples[/]

      sight data info hapt --option protocol=ucihar

      sight data info wisdm2019 --root downloads/wisdm2019_watch_accel.zip -o wisdm.json
    """
    from sight.datasets import info as describe

    dataset, _ = dataset_of(name, [*(option or []), *([f"root={root}"] if root else [])])
    people, began = dataset.subjects(), time.perf_counter()
    with progress(name, len(people)) as show:
        rows = list(describe(dataset, on_subject=show))
    _print(dataset, rows)
    console.print(f"Read in {time.perf_counter() - began:.1f} s; windows are cached, the next time is quicker.")
    if out:
        from sight.atomic import write_json

        console.print(f"Facts: [bold]{write_json(out, rows)}[/]")


@app.command()
def remove(
    name: Annotated[str | None, typer.Argument(help="A dataset's name; its cached windows are removed.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove the whole cache.")] = False,
) -> None:
    """Remove cached windows; the recordings themselves are never touched."""
    from sight.datasets import window_cache

    if name is None and not everything:
        raise ValueError(f"Say which dataset's windows to remove, or --all; the cache holds {_size()}.")
    freed = window_cache.remove(None if everything else registry.get("datasets", str(name)).name)
    console.print(f"Removed {freed / 1e6:.1f} MB of windows; the cache holds {_size()}.")


def _size() -> str:
    from sight.datasets import window_cache

    return f"{window_cache.size() / 1e6:.1f} MB"


def _print(dataset: Any, rows: list[dict[str, Any]]) -> None:
    table = Table(
        title=f"{dataset.name}: {len(rows)} people, windows of {dataset.window_s:g} s every {dataset.stride_s:g} s",
        show_footer=True,
    )
    totals = {label: sum(row["labels"][label] for row in rows) for label in dataset.classes}
    table.add_column("person", footer="all", no_wrap=True)
    for heading, entry in (("windows", "windows"), ("no label", "unlabelled"), ("gaps", "gaps"), ("hours", "seconds")):
        total = sum(row[entry] for row in rows)
        table.add_column(heading, justify="right", no_wrap=True, footer=_figure(entry, total))
    table.add_column("labels", footer=_counts(totals))
    for row in rows:
        figures = [_figure(entry, row[entry]) for entry in ("windows", "unlabelled", "gaps", "seconds")]
        table.add_row(row["subject"], *figures, _counts(row["labels"]))
    console.print(table)


def _figure(entry: str, value: float) -> str:
    return f"{value / 3600:.1f}" if entry == "seconds" else str(value)


def _counts(labels: dict[str, int]) -> str:
    return "  ".join(f"{label}\u00a0[bold]{count}[/]" for label, count in labels.items() if count)
