"""``sight demo``: train on synthetic wearers, adapt to an unseen one, and write a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live

from sight import registry
from sight.cli._live import LiveBands
from sight.cli._shared import console, make_adapter, progress
from sight.cli.adapt import run_with_progress
from sight.cli.evaluate import write_scores
from sight.cli.train import fit_with_progress
from sight.types import Result, Windows

COMPARED = ("ema", "sticky", "sticky-learned", "sight", "keel")


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for model and report.")] = Path("out/demo"),
    wearers: Annotated[int, typer.Option(min=1, max=20, help="Number of wearers to train on.")] = 4,
    minutes: Annotated[float, typer.Option(min=2, help="Length of each recording.")] = 30,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training data.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic wearers and of the training.")] = 0,
    method: Annotated[str, typer.Option(help="Method shown live in the terminal.")] = registry.RECOMMENDED,
) -> None:
    """Train a small model, adapt it to an unseen wearer live in the terminal, and write a report.

    The wearers are synthetic: the demo shows how adaptation works, not how well it works on real recordings.

    [bold]Example[/]

      sight demo --out out/demo --seed 3
    """
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic

    adapter = make_adapter(method)
    options: dict[str, Any] = {"wearers": wearers + 1, "hours": minutes / 60, "seed": seed}
    dataset = Synthetic(**options)
    *trained_on, unseen = dataset.subjects()
    console.rule(f"[bold]1[/]  train on {len(trained_on)} synthetic wearers")
    with progress("generating wearers", wearers + 1) as show:
        windows = {}
        for done, subject in enumerate(dataset.subjects(), start=1):
            windows[subject] = windows_of(dataset, subject)
            show(done, subject)
    training = [windows[subject] for subject in trained_on]
    fields = ("channels", "units", "rate_hz")
    facts = {name: getattr(dataset, name) for name in fields} | {"dataset": dataset.name}
    source = fit_with_progress("training", training, dataset.classes, epochs=epochs, seed=seed, **facts)
    source.card = replace(source.card, training={**source.card.training, "subjects": trained_on, "options": options})
    model = source.save(out / "model.safetensors")
    console.rule(f"[bold]2[/]  adapt to {unseen}, who was not in the training data")
    result = _run_live(adapter.bind(source), windows[unseen])
    others = [
        run_with_progress(make_adapter(name).bind(source), windows[unseen], name) for name in COMPARED if name != method
    ]
    console.rule("[bold]3[/]  scores")
    info = {"subject": unseen, "input": dict(windows[unseen].facts), "model": {"file": str(model), "encoder": "cnn"}}
    write_scores(result, others, out, info, title=f"Synthetic wearer {unseen}: raw against refined")
    console.print("Results on real recordings: docs/keel.md", highlight=False)
    console.print(f"Model: {model}", highlight=False, soft_wrap=True)
    console.print(f"Try:   sight adapt synthetic:{unseen} -m {model}", highlight=False, soft_wrap=True)


def _run_live(adapter: Any, windows: Windows) -> Result:
    """Run the adapter and show its predictions live; without a terminal, show a progress bar."""
    from sight.evaluate import run

    if not console.is_terminal:
        return run_with_progress(adapter, windows, adapter.name)
    bands = LiveBands(adapter.source.classes, windows.label, windows.stride_s)
    with Live(bands, console=console, refresh_per_second=20) as live:

        def show(_: int, p: Any, q: Any) -> None:
            bands.add(p, q, adapter.trace().get("surprise", q[:, 0] * 0))
            live.update(bands)

        return run(adapter, windows, on_predictions=show, at_once=8)
