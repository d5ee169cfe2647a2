"""``sight export``: write a model as ONNX, which runs without torch, or as C source for a microcontroller."""

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
from sight.recordings.recording_references import find_recordings
from sight.types import Array, Windows

#: Instead of a recording: the ranges of layers that the model contains.
STORED = "stored"
#: Windows of a recording that set the ranges.
CALIBRATED = 512


def export(
    model: Annotated[Path, typer.Argument(help="Checkpoint (.safetensors), exported model (.onnx) or bundled model.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="ONNX file, or new folder for C source; beside the model by default."),
    ] = None,
    fused: Annotated[
        bool, typer.Option("--fused", help="Include a method in the graph: (window, state) to (probabilities, state).")
    ] = False,
    c: Annotated[
        bool, typer.Option("--c", help="Write C source of model, method and windower for a microcontroller.")
    ] = False,
    method: Annotated[str, typer.Option(help="Method of a fused graph or of C source.")] = registry.RECOMMENDED,
    params: opt.Params = None,
    int8: Annotated[
        str | None,
        typer.Option(
            help="Quantise the encoder to int8; calibrated on this recording or dataset:subject, or 'stored' for the "
            "ranges that a bundled model contains."
        ),
    ] = None,
    norms: Annotated[
        bool,
        typer.Option(
            "--norms",
            help="Add the statistics of batch normalisation as an input and the moments of its inputs as an output, "
            "for the method keel-norm.",
        ),
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option(help="Rate of the sensor in Hz, for the windower in C; that of the model by default.", min=0.001),
    ] = None,
    adapter_only: Annotated[
        bool, typer.Option("--adapter-only", help="C source of the method alone, for an encoder of your own.")
    ] = False,
    option: opt.DatasetOptions = None,
) -> None:
    """Write a model as ONNX with its card: windows in; features, logits and probabilities out. Or as C source.

    [bold]Examples[/]

      sight export model.safetensors -o model.onnx

      sight export model.safetensors --int8 synthetic:W01 -o small.onnx

      sight export wrist --fused -o watch.onnx

      sight export wrist --c --int8 stored -o firmware/

      sight export model.safetensors --norms -o model.onnx
    """
    from sight.models.bundled import resolve

    _check_combination(fused=fused, c=c, int8=int8, norms=norms, for_c=rate is not None or adapter_only)
    suffix = "-c" if c else ".fused.onnx" if fused else ".int8.onnx" if int8 else ".onnx"
    out = out or model.with_name(model.stem + suffix)
    if not c and out.suffix != ".onnx":
        raise ValueError(f"Expected an output that ends with .onnx, got {out.name!r}; rename it.")
    path = resolve(model)
    adapter = registry.method(method, assignments=params or ()) if fused or c else None
    if c:
        _export_c(path, out, adapter, int8, rate, not adapter_only, option)
        console.print(f"Wrote [bold]{out}[/]; read {out / 'README.md'} first.")
        return
    _export_onnx(path, out, adapter, int8, norms, option)
    console.print(f"Wrote [bold]{out}[/] ({out.stat().st_size / 1024:.0f} KB).")


def _check_combination(*, fused: bool, c: bool, int8: str | None, norms: bool, for_c: bool) -> None:
    if c and fused:
        raise ValueError("Expected --fused or --c, got both; C source contains the method without --fused.")
    if fused and int8:
        raise ValueError("Expected --fused or --int8, got both; a fused graph is exported in float32.")
    if norms and (fused or int8 or c):
        raise ValueError(
            "Expected --norms alone, got it with --fused, --int8 or --c; --fused --method keel-norm needs no --norms, "
            "and --int8 folds batch normalisation into the weights."
        )
    if for_c and not c:
        raise ValueError("Expected --rate and --adapter-only with --c, got them without; add --c, or leave them out.")


def _load(path: Path) -> Any:
    from sight.models.load import load

    return load(path)


def _export_onnx(path: Path, out: Path, adapter: Any, int8: str | None, norms: bool, option: list[str] | None) -> None:
    from sight.models.export import export as write

    if int8:
        _export_int8(path, out, int8, option)
    elif path.suffix == ".onnx" and adapter is None and not norms:
        write_atomic(out, path.read_bytes())
    else:
        write(_load(path), out, method=adapter, norms=norms)


def _export_c(
    path: Path,
    out: Path,
    adapter: Any,
    int8: str | None,
    rate: float | None,
    encoder: bool,
    option: list[str] | None,
) -> None:
    from sight.models.export.c import export_c
    from sight.recordings.signal.live_windows import Windower

    source = _load(path)
    card = require_card(source, path) if encoder else None
    windower: Any = None
    if card is not None:
        windower = Windower(
            rate_in_hz=rate or card.rate_hz,
            rate_hz=card.rate_hz,
            channels=len(card.channels),
            window_s=card.window_s,
            stride_s=card.stride_s,
        ).constants()
    calibration: Any = int8
    if int8 and int8 != STORED:
        calibration = _sample(_calibration_windows(source, int8, option))
    export_c(source, out, name=path.stem, method=adapter, int8=calibration, windower=windower, encoder=encoder)


def _export_int8(path: Path, out: Path, target: str, option: list[str] | None) -> None:
    """Quantise on the windows of a recording, and print how often both models predict the same class."""
    from sight.models.export import export as write
    from sight.models.export.int8 import quantise

    source = _load(path)
    windows = None if target == STORED else _calibration_windows(source, target, option)
    with tempfile.TemporaryDirectory() as folder:
        float32 = write(source, Path(folder) / "float32.onnx")
        quantise(float32, out, None if windows is None else _sample(windows))
    if windows is not None:
        before, after = (model.encode(windows.x)[1].argmax(axis=1) for model in (source, _load(out)))
        console.print(
            f"int8 and float32 predict the same class in {(before == after).mean():.1%} of {len(windows)} windows."
        )


def _calibration_windows(source: Any, target: str, option: list[str] | None) -> Windows:
    ref = find_recordings(target)[0]
    windows = read_windows(ref, require_card(source), opt.read_options(option=option))
    print_warnings(ref.name, windows.warnings)
    return windows


def _sample(windows: Windows) -> Array:
    """Return about `CALIBRATED` windows, spread over a recording."""
    return windows.x[:: max(1, len(windows) // CALIBRATED)]
