"""Writes the generated pages of the docs; ``python -m tests.documents write`` after a change, checked by the tests."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import typer.main
from typer.testing import CliRunner

from sight import registry
from sight.cli import app
from sight.methods import presets

DOCS = Path(__file__).resolve().parents[1] / "docs"


def commands() -> str:
    """Every command with the help a terminal shows."""
    parts = ["# Commands\n\nWritten by `make docs` from the commands themselves.\n"]
    for words in _paths(typer.main.get_command(app)):
        shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"})
        text = "\n".join(line.rstrip() for line in shown.output.strip().splitlines())
        parts.append(f"## sight {' '.join(words)}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _paths(command, words=()) -> Iterator[tuple[str, ...]]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _paths(inner, (*words, name))
    else:
        yield words


def methods() -> str:
    """A table of what each method needs, then each docstring, then the presets."""
    lines = [
        "# Methods\n",
        "Written by `make docs`. Methods marked * are completed by us; their authors published no code.\n",
        "| method | gradient | depends on the batch | source statistics | keeps windows | at a gap |",
        "|---|---|---|---|---|---|",
    ]
    for name in registry.names("methods"):
        needs = registry.get("methods", name).needs
        star = " *" if needs.completed else ""
        flags = ["yes" if flag else "-" for flag in (needs.gradient, needs.batch)]
        keeps = "yes" if needs.raw_windows else "-"
        lines.append(
            f"| [{name}](#{name}){star} | {flags[0]} | {flags[1]} | {needs.source_stats} | {keeps} | {needs.gap} |"
        )
    lines += ["", *_presets()]
    for name in registry.names("methods"):
        cls = registry.get("methods", name)
        fields = ", ".join(f"{f.name}={f.default!r}" for f in dataclasses.fields(cls)) or "none"
        lines += [f"## {name}", "", f"Fields: `{fields}`", "", "```text", inspect.getdoc(cls) or "", "```", ""]
    return "\n".join(lines)


def _presets() -> Iterator[str]:
    yield "## Presets"
    yield ""
    yield "Where the two named sets of settings differ; explicit values win over both."
    yield ""
    yield "| method | field | authors | sight-paper |"
    yield "|---|---|---|---|"
    for row in presets.differences():
        yield f"| {row['method']} | `{row['field']}` | {row['authors']} | {row['sight-paper']} |"
    yield ""


PAGES = {"commands.md": commands, "methods.md": methods}


if __name__ == "__main__" and sys.argv[1:] == ["write"]:
    DOCS.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")
        print(f"wrote docs/{name}")
