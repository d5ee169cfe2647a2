"""``sight inspect``: what a model file is, where it can be cut, and if not, why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from sight.cli._shared import console


def inspect(
    model: Annotated[Path, typer.Argument(help="A model file: .safetensors or .onnx.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print facts as JSON.")] = False,
) -> None:
    """Say what a model is and whether `sight` can use it.

    [bold]Example[/]

      sight inspect model.onnx
    """
    from sight.sources import inspect as tell

    facts = tell(model)
    if as_json:
        typer.echo(json.dumps(facts, indent=2, default=str))
        return
    table = Table(title=str(model), show_header=False)
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), _words(value))
    console.print(table)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_words(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        shown = [str(item) for item in value[:12]]
        return ", ".join(shown) + (f", ... ({len(value)} in all)" if len(value) > 12 else "")
    return str(value)
