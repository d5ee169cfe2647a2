"""``sight demo``: adapt a bundled model to a synthetic wearer, and write a report."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live

from sight import registry
from sight.apps.cli._shared import console, error_message, progress
from sight.apps.cli._terminal_view import LiveBands
from sight.apps.cli.evaluate import write_scores
from sight.types import Result, Windows

#: Wearer of the demo; the model is biased for this one.
WEARER = "W08"
COMPARED = ("ema", "sticky", "sticky-learned", "sight", "keel")


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for model and report.")] = Path("out/demo"),
    wearer: Annotated[str, typer.Option(help="Synthetic wearer, W06 to W60.")] = WEARER,
    minutes: Annotated[float, typer.Option(min=2, help="Length of the recording.")] = 24,
    method: Annotated[str, typer.Option(help="Method shown live in the terminal.")] = registry.RECOMMENDED,
) -> None:
    """Adapt a bundled model to an unseen wearer live in the terminal, compare methods, and write a report.

    The wearers are synthetic, and the default one has a bias that adaptation corrects: the demo shows how adaptation
    works, not how well it works on real recordings.

    [bold]Example[/]

      sight demo --out out/demo --wearer W14
    """
    from sight._util.atomic import write_atomic
    from sight.apps.demo import DATASET, MODEL, TRAINING_SUBJECTS
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic
    from sight.models.load import load
    from sight.results.summarise_recording import run_with_progress
    from sight.results.summary import ResultSummary

    dataset = Synthetic(**(DATASET | {"hours": minutes / 60}))
    if wearer not in dataset.subjects() or wearer in TRAINING_SUBJECTS:
        raise ValueError(f"Expected a wearer from W06 to W60, got {wearer!r}; the model was trained on W01 to W05.")
    source: Any = load(MODEL)
    windows = windows_of(dataset, wearer)
    console.rule(f"[bold]1[/]  adapt to {wearer}, a synthetic wearer who was not in the training data")
    result = _run_live(registry.method(method), source, windows)
    others = [
        run_with_progress(registry.method(name), source, windows, progress=progress, label=name)
        for name in COMPARED
        if name != method
    ]
    console.rule("[bold]2[/]  scores")
    model = write_atomic(out / "model.onnx", MODEL.read_bytes())
    info: dict[str, Any] = {"subject": wearer, "title": f"Synthetic wearer {wearer}: raw against refined"}
    info |= {"input": windows.facts.as_dict(), "model": {"file": model.name, "encoder": "transformer"}}
    try:
        write_scores(ResultSummary(result, info=info), others, out)
    except ModuleNotFoundError as missing:  # the base install has no packages for tables
        console.print(f"No report was written. {error_message(missing)}", highlight=False, soft_wrap=True, markup=False)
    console.print("Results on real recordings: docs/keel.md", highlight=False)
    console.print(f"Try: sight adapt synthetic:W14 -m {model}", highlight=False, soft_wrap=True)
    console.print("     sight serve --demo", highlight=False)


def _run_live(adapter: Any, source: Any, windows: Windows) -> Result:
    from sight.results.prediction_loop import run
    from sight.results.summarise_recording import run_with_progress

    if not console.is_terminal:
        return run_with_progress(adapter, source, windows, progress=progress, label=adapter.name)
    adapter.bind(source)
    bands = LiveBands(adapter.source.classes, windows.label, windows.stride_s)
    with Live(bands, console=console, refresh_per_second=20) as live:

        def show(_: int, p: Any, q: Any) -> None:
            bands.add(p, q, adapter.trace().get("surprise", q[:, 0] * 0))
            live.update(bands)

        return run(adapter, windows, on_predictions=show, at_once=8)
