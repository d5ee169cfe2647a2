"""``sight export``: write a checkpoint as ONNX, which runs without torch."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from sight import registry
from sight._util.atomic import write_atomic
from sight.apps.cli import _options as opt
from sight.apps.cli._shared import console, print_warnings
from sight.models.card import require_card
from sight.recordings.read import read_windows
from sight.recordings.references import find_recordings


def export(
    model: Annotated[Path, typer.Argument(help="Checkpoint (.safetensors), or a bundled model, which is copied.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="ONNX file to write; beside the checkpoint by default.")
    ] = None,
    fused: Annotated[
        bool, typer.Option("--fused", help="Include a method in the graph: (window, state) to (probabilities, state).")
    ] = False,
    method: Annotated[
        str, typer.Option(help="Method of a fused graph; it must have a fused step.")
    ] = registry.RECOMMENDED,
    params: opt.Params = None,
    int8: Annotated[
        str | None, typer.Option(help="Quantise the encoder to int8; calibrated on this recording or dataset:subject.")
    ] = None,
    norms: Annotated[
        bool,
        typer.Option(
            "--norms",
            help="Add the statistics of batch normalisation as an input and the moments of its inputs as an output, "
            "for the method keel-norm.",
        ),
    ] = False,
    option: opt.DatasetOptions = None,
) -> None:
    """Write a model as ONNX with its card: windows in; features, logits and probabilities out.

    [bold]Examples[/]

      sight export model.safetensors -o model.onnx

      sight export model.safetensors --int8 synthetic:W01 -o small.onnx

      sight export model.safetensors --fused -o watch.onnx

      sight export model.safetensors --norms -o model.onnx

      sight export wrist -o wrist.onnx
    """
    from sight.models.bundled import names, resolve
    from sight.models.export import export as write

    if fused and int8:
        raise ValueError("Expected --fused or --int8, got both; a fused graph is exported in float32.")
    if norms and (fused or int8):
        raise ValueError(
            "Expected --norms alone, got it with --fused or --int8; --fused --method keel-norm needs no --norms, and "
            "--int8 folds batch normalisation into the weights."
        )
    out = out or model.with_suffix(".fused.onnx" if fused else ".int8.onnx" if int8 else ".onnx")
    if out.suffix != ".onnx":
        raise ValueError(f"Expected an output that ends with .onnx, got {out.name!r}; rename it.")
    if str(model) in names():
        if fused or int8 or norms:
            given = "--fused" if fused else "--int8" if int8 else "--norms"
            raise ValueError(
                f"{given} needs a torch checkpoint (.safetensors), but the bundled model {model} is an ONNX file; "
                f"train a model with sight train and export that, or use {model} as it is: sight adapt, stream and "
                f"serve run a method beside it."
            )
        write_atomic(out, resolve(model).read_bytes())
    else:
        hint = f', or for a model of sight.wrap call sight.export(source, path, method="{method}")' if fused else ""
        source = _load_checkpoint(resolve(model), hint)
        if int8:
            _export_int8(source, out, int8, option)
        else:
            write(source, out, method=registry.method(method, assignments=params or ()) if fused else None, norms=norms)
    console.print(f"Wrote [bold]{out}[/] ({out.stat().st_size / 1024:.0f} KB).")


def _load_checkpoint(model: Path, hint: str) -> Any:
    if model.suffix == ".onnx":
        raise ValueError(
            f"Expected a checkpoint (.safetensors), got {model.name}, which is already exported; give the .safetensors "
            f"it was exported from{hint}."
        )
    from sight.models.torch import TorchSource

    return TorchSource.load(model)


def _export_int8(source: Any, out: Path, target: str, option: list[str] | None) -> None:
    """Quantise on the windows of a recording, and print how often both models predict the same class."""
    from sight.models.export.int8 import quantise
    from sight.models.export.onnx import export_onnx
    from sight.models.load import load

    ref = find_recordings(target)[0]
    windows = read_windows(ref, require_card(source), opt.read_options(option=option))
    print_warnings(ref.name, windows.warnings)
    with tempfile.TemporaryDirectory() as folder:
        float32 = export_onnx(source, Path(folder) / "float32.onnx")
        quantise(float32, out, windows.x[:: max(1, len(windows) // 512)])
    before, after = (model.encode(windows.x)[1].argmax(axis=1) for model in (source, load(out)))
    console.print(
        f"int8 and float32 predict the same class in {(before == after).mean():.1%} of {len(windows)} windows."
    )
