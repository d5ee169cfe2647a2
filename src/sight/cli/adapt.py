"""``sight adapt``: run recordings through a model and a method, and write result files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from sight import registry
from sight.card import ModelCard
from sight.cli import _options as opt
from sight.cli._shared import console, error_message, errors, make_adapter, print_warnings, progress
from sight.reading import ReadOptions, RecordingRef, find_recordings, read_windows
from sight.types import Result, Windows


@opt.takes_reading_options()
def adapt(
    target: opt.Targets,
    model: opt.Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("out"),
    method: opt.Method = registry.RECOMMENDED,
    params: opt.Params = None,
    preset: opt.Preset = None,
    lag: opt.Lag = 0.0,
    subject: opt.Subject = "",
    separate: opt.Separate = False,
    *,
    reading: ReadOptions,
) -> None:
    """Recognise activities in a recording while adapting to its wearer.

    Writes info.json, windows.parquet, segments.csv, daily.csv and report.html. Several recordings, or a folder of
    them, give one folder of results for each. Files of one subject are joined with --subject, or in a folder of
    their own below the folder; the time between them is a gap.

    [bold]Examples[/]

      sight adapt day.csv -m model.onnx -o results/ --columns z=up --unit mg --tz Europe/Vienna

      sight adapt monday.cwa tuesday.cwa -m model.onnx --subject S01 --tz Europe/Vienna

      sight adapt week.cwa -m model.safetensors --method sight --set tau=0.1

      sight adapt hapt:5 -m hapt.safetensors --method sticky
    """
    from sight.outputs import write_outputs
    from sight.sources import load

    source: Any = load(model)
    adapter = make_adapter(method, params, preset).bind(source)
    refs = find_recordings(target, subject=subject, separate=separate)
    failed = 0
    for ref in refs:
        try:
            windows = read_recording(ref, source, reading)
            result = run_with_progress(adapter.reset(), windows, ref.name, lag)
            folder = out if len(refs) == 1 else out / ref.name
            written = write_outputs(result, folder, info=describe_run(ref, source.card, model, windows))
        except (ValueError, OSError) as error:
            if len(refs) == 1:
                raise
            failed += 1
            errors.print(f"[yellow]{escape(ref.name)} was skipped:[/] {escape(error_message(error))}", highlight=False)
            continue
        changed = float((result.p.argmax(axis=1) != result.q.argmax(axis=1)).mean())
        console.print(
            f"[bold]{escape(ref.name)}[/]: {len(windows)} windows, {changed:.1%} of predictions differ from the model "
            f"alone; report: {escape(str(written['report.html']))}",
            soft_wrap=True,
        )
    if failed:
        others = f"results of the others are in {out}" if failed < len(refs) else "each is named above"
        raise ValueError(f"{failed} of {len(refs)} recordings could not be read; {others}.")


def read_recording(ref: RecordingRef, source: Any, options: Any) -> Windows:
    """Read windows for a source model and print their warnings."""
    from sight.card import require_card

    windows = read_windows(ref, require_card(source), options)
    print_warnings(ref.name, windows.facts)
    return windows


def run_with_progress(adapter: Any, windows: Windows, label: str, lag: float = 0.0) -> Result:
    """Run an adapter over windows with a progress bar."""
    from sight.evaluate import run

    with progress(label, len(windows)) as show:
        return run(adapter, windows, on_predictions=lambda done, *_: show(done), lag=lag)


def describe_run(ref: RecordingRef, card: ModelCard, model: Path, windows: Windows) -> dict[str, Any]:
    """Return what info.json contains about the input and the model."""
    fields = ("encoder", "dataset", "rate_hz", "window_s", "stride_s", "channels", "units", "sight_version")
    return {
        "subject": ref.subject or ref.name,
        "input": {"name": ref.name, "file": ref.file_names, "dataset": ref.dataset, **windows.facts},
        "model": {"file": model.name, **{name: getattr(card, name) for name in fields}},
    }
