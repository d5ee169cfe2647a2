"""``sight data list | fetch | info | remove``: datasets on this machine."""

from __future__ import annotations

import json
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
        table.add_column(column, overflow="fold")
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

    for path in download(name, folder, say=console.print):
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
    people = dataset.subjects()
    with progress(name, len(people)) as show:
        rows = list(describe(dataset, on_subject=show))
    _print(dataset, rows)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = out.with_name(f".{out.name}.tmp")
        draft.write_text(json.dumps(rows, indent=1, default=str), "utf-8")
        draft.replace(out)


@app.command()
def remove(
    name: Annotated[str | None, typer.Argument(help="A dataset's name; its cached windows are removed.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove the whole cache.")] = False,
) -> None:
    """Remove cached windows; the recordings themselves are never touched."""
    from sight.datasets import cache

    if name is None and not everything:
        raise ValueError(f"Say which dataset's windows to remove, or --all; the cache holds {_size()}.")
    freed = cache.remove(None if everything else registry.get("datasets", str(name)).name)
    console.print(f"Removed {freed / 1e6:.1f} MB of windows; the cache holds {_size()}.")


def _size() -> str:
    from sight.datasets import cache

    return f"{cache.size() / 1e6:.1f} MB"


def _print(dataset: Any, rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"{dataset.name}: windows of {dataset.window_s:g} s every {dataset.stride_s:g} s")
    table.add_column("person", footer="all")
    table.add_column("windows", justify="right", footer=str(sum(row["windows"] for row in rows)))
    for label in dataset.classes:
        total = sum(row["labels"][label] for row in rows)
        table.add_column(label, justify="right", footer=str(total), overflow="fold")
    table.add_column("no label", justify="right", footer=str(sum(row["unlabelled"] for row in rows)))
    table.add_column("gaps", justify="right", footer=str(sum(row["gaps"] for row in rows)))
    table.show_footer = True
    for row in rows:
        counts = [str(row["labels"][label]) for label in dataset.classes]
        table.add_row(row["subject"], str(row["windows"]), *counts, str(row["unlabelled"]), str(row["gaps"]))
    console.print(table)
