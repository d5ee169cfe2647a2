"""``sight export``: a checkpoint as ONNX, to run where torch does not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sight import registry
from sight.cli._shared import console, make_adapter
from sight.cli.adapt import Settings


def export(
    model: Annotated[Path, typer.Argument(help="A checkpoint of sight (.safetensors).")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The .onnx file; beside the checkpoint by default.")
    ] = None,
    fused: Annotated[
        bool, typer.Option("--fused", help="Put the adaptation into the graph too: (window, state) to (answer, state).")
    ] = False,
    method: Annotated[str, typer.Option(help="With --fused: the method in the graph.")] = registry.RECOMMENDED,
    settings: Settings = None,
) -> None:
    """Write a model as ONNX: windows in, features, logits and probabilities out, its card inside.

    [bold]Examples[/]

      sight export model.safetensors -o model.onnx

      sight export model.safetensors --fused --set variant=authors -o watch.onnx
    """
    from sight.sources.export import export_onnx
    from sight.sources.torch import TorchSource

    out = out or model.with_suffix(".fused.onnx" if fused else ".onnx")
    if out.suffix != ".onnx":
        raise ValueError(f"Expected an output that ends with .onnx, got {out.name!r}; rename it.")
    source = TorchSource.load(model)
    if fused:
        from sight.export import export_fused

        export_fused(source, out, make_adapter(method, settings))
    else:
        export_onnx(source, out)
    console.print(f"Wrote [bold]{out}[/] ({out.stat().st_size / 1024:.0f} KB).")
