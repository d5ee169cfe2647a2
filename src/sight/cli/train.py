"""``sight train``: a source model from a dataset or from a folder of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sight import registry
from sight.cli._inputs import dataset_of, person
from sight.cli._shared import console, progress


def train(
    data: Annotated[str, typer.Option(help="A dataset's name (see: sight datasets), or a folder of your own files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model (.safetensors).")],
    labels: Annotated[Path | None, typer.Option(help="For a folder: TOML that maps labels to classes.")] = None,
    subjects: Annotated[str | None, typer.Option(help="Whom to train on, comma-separated; all by default.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Option of the dataset, KEY=VALUE; repeatable.")] = None,
    encoder: Annotated[str, typer.Option(help="Network: cnn, resnet, transformer, mlp.")] = "cnn",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 100,
    lr: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 1e-3,
    batch: Annotated[int, typer.Option(min=2, help="Windows a step.")] = 64,
    seed: Annotated[int, typer.Option(help="Same seed, same model.")] = 0,
    validation: Annotated[float, typer.Option(help="Share of windows held out to pick the best epoch.")] = 0.0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    fisher: Annotated[bool, typer.Option("--fisher", help="Leave the Fisher information that EATA uses.")] = False,
    score: Annotated[
        bool,
        typer.Option("--score", help="First score by leaving out each subject in turn (trains once more for each)."),
    ] = False,
) -> None:
    """Train a source model on labelled recordings.

    [bold]Examples[/]

      sight train --data synthetic -o model.safetensors --epochs 10

      sight train --data hapt --subjects 1,2,3 --option protocol=ucihar -o hapt.safetensors

      sight train --data recordings/ --labels map.toml --score -o mine.safetensors
    """
    if out.suffix != ".safetensors":
        raise ValueError(f"Expected a model file that ends with .safetensors, got {out.name!r}; rename the output.")
    from sight.datasets import windows_of

    registry.get("encoders", encoder)
    dataset, options = dataset_of(data, option, labels)
    people = _chosen(dataset, subjects)
    with progress("reading", len(people)) as show:
        windows = {}
        for done, name in enumerate(people, start=1):
            windows[name] = windows_of(dataset, name)
            show(done, name)
    how = {"encoder": encoder, "epochs": epochs, "lr": lr, "batch": batch, "seed": seed, "device": device}
    facts = {"channels": dataset.channels, "units": dataset.units, "rate_hz": dataset.rate_hz, "dataset": dataset.name}
    training: dict[str, Any] = {"subjects": list(people), "options": options}
    if score:
        training["leave_subjects_out"] = _leave_out(windows, dataset.classes, how | facts)
    source = fit_shown(
        "training", list(windows.values()), dataset.classes, validation=validation, fisher=fisher, **how, **facts
    )
    source.card = replace(source.card, training={**source.card.training, **training})
    source.save(out)
    console.print(
        f"Wrote [bold]{out}[/]: {encoder} for {len(source.classes)} classes, trained on "
        f"{source.card.training['windows']} windows of {len(people)} {'person' if len(people) == 1 else 'people'}."
    )


def fit_shown(label: str, windows: list[Any], classes: tuple[str, ...], **how: Any) -> Any:
    """Train with a progress bar."""
    from sight.train import train as fit

    with progress(label, how["epochs"]) as show:

        def on_epoch(epoch: int, figures: Any) -> None:
            show(epoch, " ".join(f"{key} {value:.3f}" for key, value in figures.items()))

        return fit(windows, classes, on_epoch=on_epoch, **how)


def _chosen(dataset: Any, wanted: str | None) -> tuple[str, ...]:
    if wanted is None:
        return tuple(dataset.subjects())
    chosen = tuple(person(dataset, name.strip()) for name in wanted.split(",") if name.strip())
    if not chosen:
        raise ValueError("Expected at least one subject, got none; name them as --subjects 1,2,3.")
    return chosen


def _leave_out(windows: dict[str, Any], classes: tuple[str, ...], how: dict[str, Any]) -> dict[str, float]:
    """Train without each person in turn and score on them; the honest guess for the next wearer."""
    from sight.card import filled
    from sight.evaluate import run
    from sight.metrics import score_result
    from sight.registry import method

    if len(windows) < 2:
        raise ValueError("Leaving subjects out needs at least two; add another or drop --score.")
    scores = {}
    for left_out, own in windows.items():
        others = [other for name, other in windows.items() if name != left_out]
        source = fit_shown(f"without {left_out}", others, classes, **how)
        whole = replace(own, x=filled(own.x, source.card.fill))
        found = score_result(run(method("none").bind(source), whole))["raw"]
        scores[left_out] = round(found["macro_f1_union"], 4)
    mean = sum(scores.values()) / len(scores)
    console.print(
        f"Left out in turn, macro-F1: {', '.join(f'{k} {v:.3f}' for k, v in scores.items())}; mean {mean:.3f}"
    )
    return scores | {"mean": round(mean, 4)}
