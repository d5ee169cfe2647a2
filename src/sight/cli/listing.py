"""``sight methods | datasets | encoders``: what there is, and what each needs."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from rich.table import Table

from sight import registry
from sight.cli._shared import console, sentence


def methods() -> None:
    """List adaptation methods, what each needs and keeps, and its settings."""
    table = Table(title="Methods", caption="* completed by us: the authors' code is not public")
    for column in ("name", "gradient", "batch", "source statistics", "keeps windows", "at a gap", "settings"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for name in registry.names("methods"):
        try:
            cls = registry.get("methods", name)
        except ModuleNotFoundError as error:
            table.add_row(f"[bold]{name}[/]", *[""] * 5, f"[dim]{sentence(error)}[/]")
            continue
        needs = cls.needs
        star = " *" if needs.completed else ""
        recommended = " (recommended)" if name == registry.RECOMMENDED else ""
        settings = ", ".join(f"{field.name}={field.default}" for field in dataclasses.fields(cls))
        table.add_row(
            f"[bold]{name}[/]{star}{recommended}",
            _yes(needs.gradient),
            _yes(needs.batch),
            needs.source_stats,
            _yes(needs.raw_windows),
            needs.gap,
            settings,
        )
    console.print(table)


def datasets() -> None:
    """List datasets with rate, window, classes and licence."""
    table = Table(title="Datasets")
    for column in ("name", "rate (Hz)", "window / stride (s)", "channels", "classes", "licence"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for name in registry.names("datasets"):
        cls = registry.get("datasets", name)
        table.add_row(
            f"[bold]{name}[/]",
            *(str(_fact(cls, fact)) for fact in ("rate_hz", "windowing", "channels", "classes", "licence")),
        )
    console.print(table)


def encoders() -> None:
    """List encoders with their size and arguments."""
    table = Table(title="Encoders")
    for column in ("name", "what it is", "arguments"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for name in registry.names("encoders"):
        try:
            cls = registry.get("encoders", name)
        except ModuleNotFoundError as error:
            table.add_row(f"[bold]{name}[/]", f"[dim]{sentence(error)}[/]", "")
            continue
        parameters = inspect.signature(cls).parameters.values()
        arguments = ", ".join(str(p) for p in parameters)
        table.add_row(f"[bold]{name}[/]", (inspect.getdoc(cls) or "").split("\n")[0], arguments)
    console.print(table)


def _yes(value: bool) -> str:
    return "yes" if value else "-"


def _fact(cls: Any, fact: str) -> Any:
    if fact == "windowing":
        return f"{cls.window_s:g} / {cls.stride_s:g}"
    value = getattr(cls, fact, "")
    return ", ".join(value) if isinstance(value, tuple) else value
