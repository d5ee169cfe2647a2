"""``sight methods | datasets | encoders``: what there is; with a name, what is to know about it."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sight import params, registry
from sight.cli._shared import console, sentence

Name = Annotated[str | None, typer.Argument(help="One of them, for all that is to know about it.")]


def methods(name: Name = None) -> None:
    """List adaptation methods, and what each needs and keeps; with a name, its settings and notes.

    [bold]Examples[/]

      sight methods

      sight methods sight
    """
    if name:
        _method(registry.get("methods", name))
        return
    caption = f"recommended: {registry.RECOMMENDED}   * completed by us: the authors' code is not public"
    table = _table("Methods", "gradient", "batch", "statistics", "windows", "at a gap", caption=caption)
    for known, cls in _classes("methods", table):
        needs = cls.needs
        flags = ["yes" if flag else "-" for flag in (needs.gradient, needs.batch)]
        keeps = "kept" if needs.raw_windows else "-"
        statistics = "-" if needs.source_stats == "no" else needs.source_stats
        table.add_row(f"[bold]{known}[/]{' *' if needs.completed else ''}", *flags, statistics, keeps, needs.gap)
    console.print(table)


def datasets(name: Name = None) -> None:
    """List datasets; with a name, its classes, channels, licence and citation."""
    if name:
        cls = registry.get("datasets", name)
        facts = ("title", "classes", "channels", "units", "rate_hz", "window_s", "stride_s", "max_gap_s", "version")
        _facts(name, {fact: getattr(cls, fact) for fact in (*facts, "files", "licence", "citation", "homepage")})
        return
    table = _table("Datasets", "rate (Hz)", "window / stride (s)", "channels", "classes")
    for known, cls in _classes("datasets", table):
        counts = (str(len(cls.channels)), str(len(cls.classes)))
        table.add_row(f"[bold]{known}[/]", f"{cls.rate_hz:.4g}", f"{cls.window_s:.4g} / {cls.stride_s:.4g}", *counts)
    console.print(table)


def encoders(name: Name = None) -> None:
    """List encoders; with a name, its arguments and size."""
    if name:
        console.print(escape(inspect.getdoc(registry.get("encoders", name)) or ""), highlight=False)
        return
    table = _table("Encoders", "what it is")
    for known, cls in _classes("encoders", table):
        table.add_row(f"[bold]{known}[/]", escape((inspect.getdoc(cls) or "").split("\n")[0]))
    console.print(table)


def _table(title: str, *columns: str, caption: str | None = None) -> Table:
    table = Table(title=title, caption=caption)
    table.add_column("name", no_wrap=True)
    for column in columns:
        table.add_column(column)
    return table


def _classes(kind: str, table: Table) -> Any:
    """Yield names with their classes; one whose packages are not installed gets a row that says how to."""
    for name in registry.names(kind):
        try:
            yield name, registry.get(kind, name)
        except ModuleNotFoundError as error:
            room = [""] * (len(table.columns) - 2)
            table.add_row(f"[bold]{name}[/]", *room, f"[dim]{escape(sentence(error))}[/]")


def _method(cls: Any) -> None:
    table = Table(title=f"Settings of {cls.name}")
    for column in ("setting", "default", "takes"):
        table.add_column(column)
    hints = params.field_annotations(cls)
    for field in dataclasses.fields(cls):
        table.add_row(f"[bold]{field.name}[/]", str(field.default), escape(params.describe(hints[field.name])))
    console.print(escape(inspect.getdoc(cls) or ""), highlight=False)
    console.print(table)


def _facts(title: str, facts: dict[str, Any]) -> None:
    table = Table(title=title, show_header=False)
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), escape(", ".join(value) if isinstance(value, tuple) else str(value)))
    console.print(table)
