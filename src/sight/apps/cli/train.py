"""``sight train``: train a source model on a dataset or on a folder of labelled files."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from sight import registry
from sight.apps.cli import _options as opt
from sight.apps.cli._shared import console, errors, plural, print_warnings, progress
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import find_subject, open_dataset
from sight.types import Result, Windows

#: Space that is reserved for a model file; the largest network needs 4 MB.
MODEL_BYTES = 16 << 20


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
    validation: Annotated[
        float, typer.Option(help="Share of windows held out to score each epoch and keep the best.")
    ] = 0.0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    fisher: Annotated[bool, typer.Option("--fisher", help="Also store the Fisher information that EATA uses.")] = False,
    score: Annotated[
        bool,
        typer.Option(
            "--score", help="Then score by leaving out each subject in turn (one training each); writes two CSV files."
        ),
    ] = False,
    *,
    reading: ReadOptions,
) -> None:
    """Train a source model on labelled recordings.

    Ctrl-C ends the training and writes the best epoch so far (without --validation the last complete one).
    For a folder, reading options override those of its map.

    [bold]Examples[/]

      sight train --data synthetic -o model.safetensors --epochs 10

      sight train --data hapt --subjects 1,2,3 --option protocol=ucihar -o hapt.safetensors

      sight train --data recordings/ --score -o mine.safetensors
    """
    if out.suffix != ".safetensors":
        raise ValueError(f"Expected a model file that ends with .safetensors, got {out.name!r}; rename the output.")
    from sight._util.atomic import require_space
    from sight.datasets import windows_of

    require_space(out, MODEL_BYTES)
    registry.get("encoders", encoder)
    options = reading.dataset_options
    dataset = open_dataset(data, options, labels, reading.given())
    chosen = _chosen(dataset, subjects)
    if score and len(chosen) < 2:
        raise ValueError("Leaving subjects out needs at least two; add another or drop --score.")
    with progress("reading", len(chosen), "subjects") as show:
        windows = {}
        for done, subject in enumerate(chosen, start=1):
            windows[subject] = windows_of(dataset, subject)
            show(done, f"({subject})")
    for subject, own in windows.items():
        print_warnings(subject, own.warnings)
    _check_labels(windows, dataset.classes)
    arguments = {"encoder": encoder, "epochs": epochs, "lr": lr, "batch": batch, "seed": seed, "device": device}
    arguments |= {name: getattr(dataset, name) for name in ("channels", "units", "rate_hz")} | {"dataset": dataset.name}
    once = {"validation": validation, "fisher": fisher, "keep_on_interrupt": True}
    source = _fit("training", list(windows.values()), dataset.classes, **once, **arguments)
    own_folder = Path(data).is_dir()
    used = {} if own_folder else {key: getattr(dataset, key) for key in options if key != "root"}
    training = source.card.training | {"subjects": list(chosen), "options": used}
    source.card = replace(source.card, training=training)
    source.save(out)
    if stopped := training.get("stopped_after_epoch"):
        kept = training.get("best_epoch", stopped)
        console.print(f"[yellow]Stopped after epoch {stopped} of {epochs}; the model of epoch {kept} was kept.[/]")
    console.print(
        f"Wrote [bold]{out}[/]: {encoder} for {len(source.classes)} classes, trained on "
        f"{training['windows']} windows of {plural(len(chosen), 'subject')}.",
        soft_wrap=True,
    )
    if score and not stopped:
        scores = _score_subjects(windows, dataset.classes, arguments, out)
        source.card = replace(source.card, training=training | {"leave_subjects_out": scores})
        source.save(out)


def _fit(label: str, windows: list[Any], classes: tuple[str, ...], **arguments: Any) -> Any:
    """Train a source model with a progress bar that shows the scores of the latest epoch and the best one so far."""
    from sight.models.train import train as fit

    best = (-1.0, 0)
    with progress(label, arguments["epochs"], "epochs") as show:

        def on_epoch(epoch: int, figures: Any) -> None:
            nonlocal best
            note = f"loss {figures['loss']:.3f}"
            if "macro_f1" in figures:
                best = max(best, (figures["macro_f1"], -epoch))
                note += f", validation accuracy {figures['accuracy']:.3f}, macro-F1 {figures['macro_f1']:.3f} "
                note += f"(best {best[0]:.3f} in epoch {-best[1]})"
            show(epoch, note)

        return fit(windows, classes, on_epoch=on_epoch, **arguments)


def _check_labels(windows: dict[str, Windows], classes: tuple[str, ...]) -> None:
    """Print counts by class; raise ValueError unless two classes have windows."""
    counts = Counter(int(k) for own in windows.values() for k in own.label)
    listed = ", ".join(f"{name} {counts[k]}" for k, name in enumerate(classes))
    console.print(f"Windows: {escape(listed)}; unlabelled {counts[-1]}.", highlight=False, soft_wrap=True)
    if sum(counts[k] > 0 for k in range(len(classes))) < 2:
        raise ValueError(f"Expected labelled windows of at least two classes, got {listed}; check the labels.")
    missing = [name for k, name in enumerate(classes) if not counts[k]]
    if missing:
        errors.print(f"[yellow]No window has the label {escape(', '.join(missing))}.[/]", highlight=False)
    for subject, own in windows.items():
        if not (own.label >= 0).any():
            errors.print(f"[yellow]{escape(subject)} has no labelled window.[/]", highlight=False)


def _chosen(dataset: Any, wanted: str | None) -> tuple[str, ...]:
    if wanted is None:
        return tuple(dataset.subjects())
    chosen = tuple(find_subject(dataset, name.strip()) for name in wanted.split(",") if name.strip())
    if not chosen:
        raise ValueError("Expected at least one subject, got none; name them as --subjects 1,2,3.")
    return chosen


def _score_subjects(
    windows: dict[str, Windows], classes: tuple[str, ...], arguments: dict[str, Any], out: Path
) -> dict[str, Any]:
    """Print leave-one-subject-out scores, write them beside the model, and return what the card contains."""
    from sight.results.leave_one_out_scores import leave_one_out, subject_scores
    from sight.results.output_files.scores import write_confusions, write_subject_scores

    def fit(subject: str, others: list[Windows]) -> Any:
        return _fit(f"without {subject}", others, classes, **arguments)

    method = registry.RECOMMENDED
    results: dict[str, Result] = dict(leave_one_out(windows, fit, method))
    rows = subject_scores(results)
    _print_subject_scores(rows, method)
    scores = write_subject_scores(out.with_suffix(".scores.csv"), rows, method)
    confusions = write_confusions(out.with_suffix(".confusion.csv"), list(results.values()))
    console.print(f"Wrote {scores} and {confusions}.", highlight=False, soft_wrap=True)
    rounded = {subject: {name: round(value, 4) for name, value in row.items()} for subject, row in rows.items()}
    return {"method": method, "mean": rounded.pop("mean"), "subjects": rounded}


def _print_subject_scores(rows: dict[str, dict[str, float]], method: str) -> None:
    headings = ("windows", "raw accuracy", "raw macro-F1", "adapted accuracy", "adapted macro-F1")
    table = Table("subject", *(Column(text, justify="right") for text in headings))
    table.title = "Leave-one-subject-out scores"
    table.caption = f"Each subject is predicted by a model of the others. raw: the model alone. adapted: with {method}."
    for subject, row in rows.items():
        windows, *scores = row.values()
        table.add_row(escape(subject), f"{windows:.0f}", *(f"{100 * score:.1f}" for score in scores))
    console.print(table)
