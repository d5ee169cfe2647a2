"""``sight demo``: train on synthetic wearers, meet one nobody has seen, watch the adaptation, read the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live

from sight import registry
from sight.cli._live import LiveBands
from sight.cli._shared import console, make_adapter, progress
from sight.cli.adapt import run_shown
from sight.cli.evaluate import write_scores
from sight.cli.train import fit_shown
from sight.types import Result, Windows

RIVALS = ("ema", "sticky", "sticky-learned", "sight", "keel")


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for model and report.")] = Path("out/demo"),
    wearers: Annotated[int, typer.Option(min=1, max=20, help="How many to train on.")] = 4,
    minutes: Annotated[float, typer.Option(min=2, help="Length of each recording.")] = 30,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training data.")] = 8,
    seed: Annotated[int, typer.Option(help="Other seed, other people.")] = 0,
    method: Annotated[str, typer.Option(help="Method to watch.")] = registry.RECOMMENDED,
) -> None:
    """Train a small model, adapt it to an unseen wearer live in the terminal, and write a report.

    The wearers are synthetic: the demo shows how things work, not how well.

    [bold]Example[/]

      sight demo --out out/demo --seed 3
    """
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic

    adapter = make_adapter(method)
    options: dict[str, Any] = {"wearers": wearers + 1, "hours": minutes / 60, "seed": seed}
    people = Synthetic(**options)
    *known, unseen = people.subjects()
    console.rule(f"[bold]1[/]  train on {len(known)} synthetic wearers")
    with progress("making wearers", wearers + 1) as show:
        windows = {}
        for done, person in enumerate(people.subjects(), start=1):
            windows[person] = windows_of(people, person)
            show(done, person)
    facts = {"channels": people.channels, "units": people.units, "rate_hz": people.rate_hz, "dataset": people.name}
    source = fit_shown(
        "training", [windows[person] for person in known], people.classes, epochs=epochs, seed=seed, **facts
    )
    source.card = replace(source.card, training={**source.card.training, "subjects": known, "options": options})
    model = source.save(out / "model.safetensors")
    console.rule(f"[bold]2[/]  meet {unseen}, whom nobody has seen")
    result = _watch(adapter.bind(source), windows[unseen])
    others = [run_shown(make_adapter(name).bind(source), windows[unseen], name) for name in RIVALS if name != method]
    console.rule("[bold]3[/]  what it was worth")
    about = {"subject": unseen, "input": dict(windows[unseen].facts), "model": {"file": str(model), "encoder": "cnn"}}
    write_scores(result, others, out, about, title=f"Synthetic wearer {unseen}: raw against refined")
    console.print(
        "Synthetic people show how things work, not how well; see docs/keel.md for real ones.", highlight=False
    )
    console.print(
        f"Model: {model}",
        f"Try:   sight adapt synthetic:{unseen} -m {model}",
        sep="\n",
        highlight=False,
        soft_wrap=True,
    )


def _watch(adapter: Any, windows: Windows) -> Result:
    """Run the loop while the terminal shows what goes on; without a terminal, show a bar."""
    from sight.evaluate import run

    if not console.is_terminal:
        return run_shown(adapter, windows, adapter.name)
    bands = LiveBands(adapter.source.classes, windows.label, windows.stride_s)
    with Live(bands, console=console, refresh_per_second=20) as live:

        def show(_: int, p: Any, q: Any) -> None:
            surprise = adapter.trace().get("surprise", q[:, 0] * 0)
            bands.add(p, q, surprise)
            live.update(bands)

        return run(adapter, windows, on_predictions=show, at_once=8)
