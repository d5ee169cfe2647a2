"""``sight data``: list, download, describe and uncache datasets."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from sight import registry
from sight.apps.cli import _options as opt
from sight.apps.cli._shared import console, print_warnings, progress
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import open_dataset
from sight.types import Warning

app = typer.Typer(no_args_is_help=True, help="List, download and describe datasets.")

Name = Annotated[str, typer.Argument(help="Name of the dataset (see: sight data list).")]
NameOrFolder = Annotated[
    str, typer.Argument(help="Name of the dataset (see: sight data list), or a folder of your own with a MAP.toml.")
]


@app.command("list")
def list_() -> None:
    """List datasets and which of them are on this machine.

    Classes, channels, rates and expected files are listed by sight datasets.
    """
    columns = (Column(text, overflow="fold") for text in ("on this machine", "title", "licence"))
    table = Table(Column("name", overflow="fold", no_wrap=True), *columns, title="Datasets")
    for name in registry.names("datasets"):
        cls = registry.get("datasets", name)
        try:
            local = _subjects(len(cls().subjects()), getattr(cls, "subject_count", None))
        except ValueError:
            local = "-"
        table.add_row(f"[bold]{name}[/]", local, getattr(cls, "title", ""), cls.licence)
    console.print(table)


@app.command()
def fetch(
    name: Name,
    folder: Annotated[
        Path | None, typer.Option(help="Folder to download to; SIGHT_DATA, or the user's data folder, by default.")
    ] = None,
) -> None:
    """Download a dataset from its official site; an interrupted download is resumed.

    No hashes of the files are known, so they are not verified.

    [bold]Example[/]

      sight data fetch harth --folder data/
    """
    from sight.datasets.fetch import fetch as download

    for path in download(name, folder, echo=console.print):
        console.print(f"[bold]{path}[/]")


@app.command()
@opt.takes_reading_options()
def info(
    name: NameOrFolder,
    root: Annotated[Path | None, typer.Option(help="Folder or zip with its files.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write all facts to this JSON file.")] = None,
    *,
    reading: ReadOptions,
) -> None:
    """Count windows, labels, gaps and recorded hours of each subject.

    A gap is a pause longer than max_gap_s within a recording, or the pause between two recordings.
    For a folder, reading options override those of its map; a file whose unit is wrong is refused.

    [bold]Examples[/]

      sight data info hapt --option protocol=ucihar

      sight data info wisdm2019 --root downloads/wisdm2019_watch_accel.zip -o wisdm.json
    """
    from sight.datasets import info as describe

    options: dict[str, Any] = {**reading.dataset_options, **({"root": root} if root else {})}
    dataset, began = open_dataset(name, options, reading=reading.given()), time.perf_counter()
    with progress(name, len(dataset.subjects()), "subjects") as show:
        rows = list(describe(dataset, on_subject=lambda done, subject: show(done, f"({subject})")))
    for row in rows:
        print_warnings(row["subject"], [Warning(**warning) for warning in row["warnings"]])
    _print_table(dataset, rows)
    console.print(f"Read in {time.perf_counter() - began:.1f} s; windows are cached, the next run is faster.")
    if out:
        from sight._util.atomic import write_json

        console.print(f"Facts: [bold]{write_json(out, rows)}[/]")


@app.command()
def remove(
    name: Annotated[str | None, typer.Argument(help="Dataset whose cached windows are removed.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove the whole cache.")] = False,
) -> None:
    """Remove cached windows; the recordings themselves are kept."""
    from sight.recordings import window_cache

    if name is None and not everything:
        raise ValueError(f"Expected the name of a dataset or --all, got neither; the cache holds {_size()}.")
    freed = window_cache.remove(None if everything else registry.get("datasets", str(name)).name)
    console.print(f"Removed {freed / 1e6:.1f} MB of windows; the cache holds {_size()}.")


def _subjects(here: int, official: int | None) -> str:
    count = f"{here} of {official}" if official not in (None, here) else str(here)
    return f"{count} subject{'s' if count != '1' else ''}"


def _size() -> str:
    from sight.recordings import window_cache

    return f"{window_cache.size() / 1e6:.1f} MB"


def _print_table(dataset: Any, rows: list[dict[str, Any]]) -> None:
    table = Table(
        title=f"{dataset.name}: {_subjects(len(rows), getattr(dataset, 'subject_count', None))}, "
        f"windows of {dataset.window_s:g} s every {dataset.stride_s:g} s",
        show_footer=True,
    )
    totals = {label: sum(row["labels"][label] for row in rows) for label in dataset.classes}
    table.add_column("subject", footer="all", no_wrap=True)
    headings = {"windows": "windows", "unlabelled": "no label", "gaps": "gaps", "seconds": "hours"}
    for entry, heading in headings.items():
        total = sum(row[entry] for row in rows)
        table.add_column(heading, justify="right", no_wrap=True, footer=_figure(entry, total))
    table.add_column("labels", footer=_counts(totals))
    for row in rows:
        table.add_row(
            escape(row["subject"]), *(_figure(entry, row[entry]) for entry in headings), _counts(row["labels"])
        )
    console.print(table)


def _figure(entry: str, value: float) -> str:
    return f"{value / 3600:.1f}" if entry == "seconds" else str(value)


def _counts(labels: dict[str, int]) -> str:
    return "  ".join(f"{escape(label)}\u00a0[bold]{count}[/]" for label, count in labels.items() if count)
