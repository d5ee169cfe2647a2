"""``sight train``: train a source model on a dataset or on a folder of labelled files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sight import registry
from sight.cli import _options as opt
from sight.cli._shared import console, progress
from sight.reading import ReadOptions, find_subject, open_dataset


@opt.takes_reading_options()
def train(
    data: Annotated[str, typer.Option(help="Name of a dataset (see: sight datasets), or a folder of your own files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write (.safetensors).")],
    labels: Annotated[
        Path | None, typer.Option(help="For a folder: TOML that maps labels to classes; MAP.toml in it by default.")
    ] = None,
    subjects: Annotated[str | None, typer.Option(help="Subjects to train on, comma-separated; all by default.")] = None,
    encoder: Annotated[str, typer.Option(help="Network: cnn, resnet, transformer or mlp.")] = "cnn",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 100,
    lr: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 1e-3,
    batch: Annotated[int, typer.Option(min=2, help="Windows per training step.")] = 64,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same model.")] = 0,
    validation: Annotated[float, typer.Option(help="Share of windows held out to pick the best epoch.")] = 0.0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    fisher: Annotated[bool, typer.Option("--fisher", help="Also store the Fisher information that EATA uses.")] = False,
    score: Annotated[
        bool,
        typer.Option("--score", help="First score by leaving out each subject in turn (one training each)."),
    ] = False,
    *,
    reading: ReadOptions,
) -> None:
    """Train a source model on labelled recordings.

    For a folder, reading options override those of its map.

    [bold]Examples[/]

      sight train --data synthetic -o model.safetensors --epochs 10

      sight train --data hapt --subjects 1,2,3 --option protocol=ucihar -o hapt.safetensors

      sight train --data recordings/ --score -o mine.safetensors
    """
    if out.suffix != ".safetensors":
        raise ValueError(f"Expected a model file that ends with .safetensors, got {out.name!r}; rename the output.")
    from sight.datasets import windows_of

    registry.get("encoders", encoder)
    options = reading.dataset_options
    dataset = open_dataset(data, options, labels, reading.given())
    chosen = _chosen(dataset, subjects)
    with progress("reading", len(chosen)) as show:
        windows = {}
        for done, subject in enumerate(chosen, start=1):
            windows[subject] = windows_of(dataset, subject)
            show(done, f"subject {subject}")
    arguments = {"encoder": encoder, "epochs": epochs, "lr": lr, "batch": batch, "seed": seed, "device": device}
    arguments |= {name: getattr(dataset, name) for name in ("channels", "units", "rate_hz")} | {"dataset": dataset.name}
    own_folder = Path(data).is_dir()
    training: dict[str, Any] = {
        "subjects": list(chosen),
        "options": {} if own_folder else {key: getattr(dataset, key) for key in options if key != "root"},
    }
    if score:
        training["leave_subjects_out"] = _leave_out(windows, dataset.classes, arguments)
    source = fit_with_progress(
        "training", list(windows.values()), dataset.classes, validation=validation, fisher=fisher, **arguments
    )
    source.card = replace(source.card, training={**source.card.training, **training})
    source.save(out)
    console.print(
        f"Wrote [bold]{out}[/]: {encoder} for {len(source.classes)} classes, trained on "
        f"{source.card.training['windows']} windows of {len(chosen)} {'subject' if len(chosen) == 1 else 'subjects'}."
    )


def fit_with_progress(label: str, windows: list[Any], classes: tuple[str, ...], **arguments: Any) -> Any:
    """Train a source model with a progress bar."""
    from sight.train import train as fit

    with progress(label, arguments["epochs"]) as show:

        def on_epoch(epoch: int, figures: Any) -> None:
            show(epoch, " ".join(f"{key} {value:.3f}" for key, value in figures.items()))

        return fit(windows, classes, on_epoch=on_epoch, **arguments)


def _chosen(dataset: Any, wanted: str | None) -> tuple[str, ...]:
    if wanted is None:
        return tuple(dataset.subjects())
    chosen = tuple(find_subject(dataset, name.strip()) for name in wanted.split(",") if name.strip())
    if not chosen:
        raise ValueError("Expected at least one subject, got none; name them as --subjects 1,2,3.")
    return chosen


def _leave_out(windows: dict[str, Any], classes: tuple[str, ...], arguments: dict[str, Any]) -> dict[str, float]:
    """Return the leave-one-subject-out macro-F1 of each subject and their mean."""
    from sight.card import filled
    from sight.evaluate import run
    from sight.metrics import score_result
    from sight.registry import method

    if len(windows) < 2:
        raise ValueError("Leaving subjects out needs at least two; add another or drop --score.")
    scores = {}
    for left_out, own in windows.items():
        others = [other for name, other in windows.items() if name != left_out]
        source = fit_with_progress(f"without {left_out}", others, classes, **arguments)
        complete = replace(own, x=filled(own.x, source.card.fill))
        raw = score_result(run(method("none").bind(source), complete))["raw"]
        scores[left_out] = round(raw["macro_f1_union"], 4)
    mean = sum(scores.values()) / len(scores)
    listed = ", ".join(f"{subject} {score:.3f}" for subject, score in scores.items())
    console.print(f"Leave-one-subject-out macro-F1: {listed}; mean {mean:.3f}")
    return scores | {"mean": round(mean, 4)}
