"""``sight export``: a checkpoint as ONNX, to run where torch does not."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from sight import registry
from sight.cli._inputs import find, read
from sight.cli._reading import Options, Reading
from sight.cli._shared import console, make_adapter
from sight.cli.adapt import Settings


def export(
    model: Annotated[Path, typer.Argument(help="A checkpoint of sight (.safetensors).")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The .onnx file; beside the checkpoint by default.")
    ] = None,
    fused: Annotated[
        bool, typer.Option("--fused", help="Put a method into the graph too: (window, state) to (answer, state).")
    ] = False,
    method: Annotated[str, typer.Option(help="Method of a fused graph: keel or sight.")] = registry.RECOMMENDED,
    settings: Settings = None,
    int8: Annotated[
        str | None,
        typer.Option(help="Quantise the encoder to 8 bits; a recording or dataset:subject to calibrate it on."),
    ] = None,
    option: Options = None,
) -> None:
    """Write a model as ONNX: windows in, features, logits and probabilities out, its card inside.

    [bold]Examples[/]

      sight export model.safetensors -o model.onnx

      sight export model.safetensors --int8 synthetic:W01 -o small.onnx

      sight export model.safetensors --fused -o watch.onnx
    """
    from sight.sources.torch import TorchSource

    if fused and int8:
        raise ValueError("Expected --fused or --int8, got both; a fused graph is exported in float32.")
    out = out or model.with_suffix(".fused.onnx" if fused else ".int8.onnx" if int8 else ".onnx")
    if out.suffix != ".onnx":
        raise ValueError(f"Expected an output that ends with .onnx, got {out.name!r}; rename it.")
    if model.suffix == ".onnx":
        raise ValueError(
            f"Expected a checkpoint (.safetensors), got {model.name}, which is exported already; give the .safetensors "
            f"it was exported from."
        )
    source = TorchSource.load(model)
    if fused:
        from sight.sources.fused_export import export_fused

        export_fused(source, out, make_adapter(method, settings))
    elif int8:
        _small(source, out, int8, tuple(option or ()))
    else:
        from sight.sources.onnx_export import export_onnx

        export_onnx(source, out)
    console.print(f"Wrote [bold]{out}[/] ({out.stat().st_size / 1024:.0f} KB).")


def _small(source: Any, out: Path, target: str, options: tuple[str, ...]) -> None:
    """Quantise on the windows of a recording, and say how often the small model answers as the large one."""
    from sight.sources import load
    from sight.sources.onnx_export import export_onnx
    from sight.sources.quantise import quantise

    windows = read(find(target)[0], source, Reading(options=options))
    with tempfile.TemporaryDirectory() as folder:
        whole = export_onnx(source, Path(folder) / "whole.onnx")
        quantise(whole, out, windows.x[:: max(1, len(windows) // 512)])
    large, small = (one.encode(windows.x)[1].argmax(axis=1) for one in (source, load(out)))
    console.print(f"In 8 bits {(large == small).mean():.1%} of {len(windows)} windows are answered alike.")
