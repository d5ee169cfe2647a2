"""``sight inspect``: print what a model file contains and whether `sight` can use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sight.apps.cli._shared import print_facts


def inspect(
    model: Annotated[Path, typer.Argument(help="Bundled model, or file: .onnx, .safetensors.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Print what a model file contains and whether `sight` can use it.

    [bold]Example[/]

      sight inspect model.onnx
    """
    from sight.models.inspection import inspect as inspect_model

    facts = inspect_model(model)
    if as_json:
        typer.echo(json.dumps(facts, indent=2, default=str))
    else:
        print_facts(str(model), facts)
