"""``sight adapt``: recordings through a model and a method, into files that people can use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sight import registry
from sight.cli._inputs import Input, find, read
from sight.cli._reading import Reading, with_reading
from sight.cli._shared import console, errors, make_adapter, progress, sentence
from sight.types import Result, Windows

Target = Annotated[
    str, typer.Argument(help="A recording, a folder of them, or a person of a dataset such as synthetic:W12.")
]
Model = Annotated[Path, typer.Option("--model", "-m", help="A model file: .safetensors or .onnx.")]
Method = Annotated[str, typer.Option(help="Adaptation method; see: sight methods.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="Setting of the method, KEY=VALUE; repeatable.")]
Preset = Annotated[str | None, typer.Option(help="Named settings of the method: authors or sight-paper; --set wins.")]
Lag = Annotated[
    float, typer.Option(min=0, help="Windows that an answer may wait for; inf for the whole recording (keel).")
]


@with_reading
def adapt(
    target: Target,
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("out"),
    method: Method = registry.RECOMMENDED,
    settings: Settings = None,
    preset: Preset = None,
    lag: Lag = 0.0,
    *,
    reading: Reading,
) -> None:
    """Recognise activities in a recording while adapting to its wearer.

    Writes info.json, windows.parquet, segments.csv, daily.csv and report.html; for a folder, one set each.

    [bold]Examples[/]

      sight adapt walk.csv -m model.onnx -o results/ --columns time=t,x=ax,y=ay,z=az --unit m/s^2

      sight adapt week.cwa -m model.safetensors --method sight --set tau=0.1

      sight adapt hapt:5 -m hapt.safetensors --method sticky
    """
    from sight.sources import load

    source = load(model)
    adapter = make_adapter(method, settings, preset).bind(source)
    found = find(target)
    failed = 0
    for item in found:
        folder = out if len(found) == 1 else out / item.name
        try:
            _one(item, adapter.reset(), source, reading, folder, model, lag)
        except (ValueError, OSError) as error:
            if len(found) == 1:
                raise
            failed += 1
            errors.print(f"[yellow]{item.name} was left out:[/] {sentence(error)}", highlight=False)
    if failed:
        rest = f"the others are in {out}" if failed < len(found) else "each is named above"
        raise ValueError(f"{failed} of {len(found)} recordings could not be read; {rest}.")


def _one(item: Input, adapter: Any, source: Any, reading: Reading, folder: Path, model: Path, lag: float) -> None:
    from sight.outputs import write_outputs

    windows = read(item, source, reading)
    result = run_shown(adapter, windows, item.name, lag)
    written = write_outputs(result, folder, info=info(item, source, model, windows))
    changed = float((result.p.argmax(axis=1) != result.q.argmax(axis=1)).mean())
    console.print(
        f"[bold]{item.name}[/]: {len(windows)} windows, {changed:.1%} answered otherwise than by the model alone; "
        f"report: {written['report.html']}",
        soft_wrap=True,
    )


def run_shown(adapter: Any, windows: Windows, label: str, lag: float = 0.0) -> Result:
    """Run the loop with a progress bar."""
    from sight.evaluate import run

    with progress(label, len(windows)) as show:
        return run(adapter, windows, on_predictions=lambda done, *_: show(done), lag=lag)


def info(item: Input, source: Any, model: Path, windows: Windows) -> dict[str, Any]:
    """Gather what info.json tells of the input and the model."""
    card = source.card
    return {
        "subject": item.subject or item.name,
        "input": {"name": item.name, "file": item.path.name if item.path else "", "dataset": item.dataset}
        | dict(windows.facts),
        "model": {
            "file": model.name,
            "encoder": card.encoder,
            "dataset": card.dataset,
            "rate_hz": card.rate_hz,
            "window_s": card.window_s,
            "stride_s": card.stride_s,
            "channels": list(card.channels),
            "units": list(card.units),
            "sight_version": card.sight_version,
        },
    }
