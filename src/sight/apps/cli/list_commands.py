"""``sight methods``, ``sight datasets`` and ``sight encoders``: list names, or describe one."""

import dataclasses
import inspect
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from sight import params, registry
from sight.apps.cli._shared import console, error_message, print_facts

#: What is shown for a dataset of the user's own files.
FROM_FILES = "from the files"

Name = Annotated[str | None, typer.Argument(help="Name to describe; without it, all are listed.")]


def methods(name: Name = None) -> None:
    """List adaptation methods and what each needs; with a name, its hyper-parameters and notes.

    [bold]Examples[/]

      sight methods

      sight methods sight
    """
    if name:
        _method(registry.get("methods", name))
        return
    caption = f"recommended: {registry.RECOMMENDED}   * our completion: the authors' code is not public"
    table = _table("Methods", "gradient", "batch", "statistics", "windows", "at a gap", caption=caption)
    for key, cls in _classes("methods", table):
        needs = cls.needs
        flags = ["yes" if flag else "-" for flag in (needs.gradient, needs.batch)]
        keeps = "kept" if needs.raw_windows else "-"
        statistics = "-" if needs.source_stats == "no" else needs.source_stats
        table.add_row(f"[bold]{key}[/]{' *' if needs.completed else ''}", *flags, statistics, keeps, needs.gap)
    console.print(table)


def datasets(name: Name = None) -> None:
    """List datasets; with a name, its classes, channels, expected files, licence and citation.

    Which datasets are on this machine is listed by sight data list.
    """
    if name:
        cls = registry.get("datasets", name)
        names = ("title", "classes", "channels", "units", "rate_hz", "window_s", "stride_s", "max_gap_s", "version")
        facts = {key: getattr(cls, key) for key in (*names, "official_files", "licence", "citation", "homepage")}
        if not cls.channels:
            facts |= dict.fromkeys(("classes", "channels", "units", "rate_hz"), FROM_FILES)
        if not cls.window_s:
            facts |= dict.fromkeys(("window_s", "stride_s"), FROM_FILES)
        folders = [f"{folder}/ or {folder}.zip" for folder in getattr(cls, "folder_names", ())]
        if getattr(cls, "downloads", ()):
            facts["in the data folder as"] = tuple(folders)
        print_facts(name, {key: ", ".join(v) if isinstance(v, tuple) else v for key, v in facts.items()})
        return
    table = _table("Datasets", "rate (Hz)", "window / stride (s)", "channels", "classes")
    for key, cls in _classes("datasets", table):
        cutting = f"{cls.window_s:.4g} / {cls.stride_s:.4g}" if cls.window_s else FROM_FILES
        counts = (str(len(cls.channels)), str(len(cls.classes))) if cls.channels else (FROM_FILES, FROM_FILES)
        table.add_row(f"[bold]{key}[/]", f"{cls.rate_hz:.4g}" if cls.channels else FROM_FILES, cutting, *counts)
    console.print(table)


def encoders(name: Name = None) -> None:
    """List encoders; with a name, its arguments and size."""
    if name:
        console.print(escape(inspect.getdoc(registry.get("encoders", name)) or ""), highlight=False)
        return
    table = _table("Encoders", "description")
    for key, cls in _classes("encoders", table):
        table.add_row(f"[bold]{key}[/]", escape((inspect.getdoc(cls) or "").split("\n")[0]))
    console.print(table)


def _table(title: str, *columns: str, caption: str | None = None) -> Table:
    return Table(Column("name", no_wrap=True), *columns, title=title, caption=caption)


def _classes(kind: str, table: Table) -> Any:
    """Yield names with their classes; add a row with the remedy for each that lacks a package."""
    for name in registry.names(kind):
        try:
            yield name, registry.get(kind, name)
        except ModuleNotFoundError as error:
            empty = [""] * (len(table.columns) - 2)
            table.add_row(f"[bold]{name}[/]", *empty, f"[dim]{escape(error_message(error))}[/]")


def _method(cls: Any) -> None:
    table = Table("name", "default", "values", title=f"Hyper-parameters of {cls.name}")
    hints = params.field_annotations(cls)
    for field in dataclasses.fields(cls):
        table.add_row(f"[bold]{field.name}[/]", str(field.default), escape(params.describe(hints[field.name])))
    console.print(escape(inspect.getdoc(cls) or ""), highlight=False)
    console.print(table)
