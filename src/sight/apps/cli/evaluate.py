"""``sight evaluate``: score a model alone and with methods on labelled recordings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from sight import registry
from sight.apps.cli import _options as opt
from sight.apps.cli._shared import console, error_message, errors, print_warnings, progress
from sight.models.card import ModelCard, require_card
from sight.recordings.read import read_windows
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import RecordingRef
from sight.results.method_name import method_label, method_name
from sight.types import Result, Windows

if TYPE_CHECKING:
    from sight.results.output_files.scores import RecordingScores
    from sight.results.summary import ResultSummary

#: Metrics in the printed table: key, heading, scale. Higher is better for the first three, lower for the others.
METRICS = (
    ("macro_f1_union", "macro-F1", 100),
    ("accuracy", "accuracy", 100),
    ("balanced_accuracy", "balanced acc.", 100),
    ("ece", "ECE", 100),
    ("time_use_mae_min", "min/day", 1),
    ("delay_median_s", "delay (s)", 1),
)
CAPTION = (
    "raw: predictions of the model alone. Higher is better up to balanced accuracy, lower after. min/day: error of the "
    "time per class, scaled to 24 hours. delay -: no detected change between two neighbouring labelled windows."
)

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results; earlier ones are replaced.")]


@opt.takes_reading_options()
def evaluate(
    target: Annotated[
        str,
        typer.Argument(help="Recording, folder of recordings, subjects such as synthetic:W11,W12, or a whole dataset."),
    ],
    model: opt.Model,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Diary: CSV with start, end, label, or time, label. For several recordings a folder of diaries, a "
            "pattern such as diaries/{recording}.csv, or one diary with a column subject."
        ),
    ] = None,
    out: Out = Path("out"),
    method: opt.Method = registry.RECOMMENDED,
    params: opt.Params = None,
    preset: opt.Preset = None,
    lag: opt.Lag = None,
    compare: Annotated[str, typer.Option(help="Other methods in the table, comma-separated.")] = "ema,sticky",
    *,
    reading: ReadOptions,
) -> None:
    """Compare the model alone with adaptation methods on labelled recordings.

    Writes the files of sight adapt, scores.csv and scores.json. Several recordings give one folder of results each, and
    the scores of all of them and their mean. A warning is given if a subject was in the training of the model.

    [bold]Examples[/]

      sight evaluate day.csv -m model.onnx --labels diary.csv -o results/

      sight evaluate recordings/ -m model.onnx --labels diaries/ -o results/

      sight evaluate hapt:5,6,7 -m hapt.safetensors --compare ema,sticky,sticky-learned
    """
    from sight.models.load import load
    from sight.recordings.labelled import diaries_of, find_labelled, is_in_training
    from sight.results.smoothing import require_smoothable, stored_lag
    from sight.results.summarise_recording import run_with_progress, summarise_recording

    source: Any = load(model)
    card = require_card(source, model)
    # Check all arguments before anything runs.
    lag = stored_lag(method) if lag is None else lag
    require_smoothable(method, lag)
    adapter = registry.method(method, preset, params or ()).bind(source)
    compared = [name for name in map(str.strip, compare.split(",")) if name and (name != method or lag)]
    others = [registry.method(name).bind(source) for name in compared]
    refs, reading = find_labelled(target, card, reading, labels)
    diaries = {} if labels is None else diaries_of(refs, labels)
    rows, labels_of = [], {}
    for ref, windows in _labelled_windows(refs, card, reading, diaries):
        prefix = f"{ref.name}, " if len(refs) > 1 else ""
        results = [
            run_with_progress(other, source, windows, progress=progress, label=prefix + other.name) for other in others
        ]
        label, title = prefix + method, f"{ref.name}: raw against refined"
        summary = summarise_recording(
            ref, source, adapter, model, windows=windows, lag=lag, progress=progress, label=label, title=title
        )
        result = summary.result
        folder = out / ref.name if len(refs) > 1 else out
        rows.append(_write_recording(summary, results, folder, in_training=is_in_training(ref, card)))
        labels_of = {method_name(each): method_label(each) for each in (*results, result)}
    if len(refs) > 1 and rows:
        _print_recordings(rows, method_name(result), method_label(result))
    if rows:
        title = f"{rows[0].recording}: raw against refined" if len(refs) == 1 else f"Mean of {len(rows)} recordings"
        _print_and_write(rows, out, title, labels_of, result.lag)
    if len(rows) < len(refs):
        raise ValueError(f"{len(refs) - len(rows)} of {len(refs)} recordings could not be scored; each is named above.")


def write_scores(summary: ResultSummary, others: list[Result], out: Path) -> None:
    """Print the table of scores of one recording, and write the result files, scores.csv and scores.json."""
    row = _write_recording(summary, others, out)
    labels = {method_name(each): method_label(each) for each in (*others, summary.result)}
    _print_and_write([row], out, summary.info["title"], labels, summary.result.lag)


def _labelled_windows(
    refs: list[RecordingRef], card: ModelCard, options: ReadOptions, diaries: dict[str, Path]
) -> Iterator[tuple[RecordingRef, Windows]]:
    """Yield each recording with its windows and labels; one of several that cannot be read is named and skipped."""
    from sight.recordings.labelled import labelled

    for ref in refs:
        try:
            read, diary = read_windows(ref, card, options), diaries.get(ref.name)
            windows = labelled(read, ref, card, diary=diary, names=options.names, shared=len(refs) > 1)
        except (ValueError, OSError) as error:
            if len(refs) == 1:
                raise
            errors.print(f"[yellow]{escape(ref.name)} was skipped:[/] {escape(error_message(error))}", highlight=False)
            continue
        print_warnings(ref.name, windows.warnings)
        yield ref, windows


def _write_recording(
    summary: ResultSummary, others: list[Result], folder: Path, *, in_training: bool | None = None
) -> RecordingScores:
    from sight.results.metrics import score_result
    from sight.results.output_files.outputs import write_outputs
    from sight.results.output_files.scores import RecordingScores

    result, info = summary.result, summary.info
    scored = {method_name(each): score_result(each) for each in (*others, result)}
    write_outputs(summary, folder, others=others)
    return RecordingScores(
        recording=info.get("input", {}).get("name") or info["subject"],
        subject=info["subject"],
        in_training=in_training,
        warnings=result.windows.warnings,
        scores={"none": scored[method_name(result)]["raw"]}
        | {name: scores["refined"] for name, scores in scored.items()},
    )


def _print_and_write(rows: list[RecordingScores], out: Path, title: str, labels: dict[str, str], lag: float) -> None:
    from sight.results.output_files.scores import mean_scores, write_score_files
    from sight.results.report.score_table import LAG_NOTE

    _print_scores(mean_scores(rows), title, labels)
    if lag:
        console.print(LAG_NOTE, style="dim", highlight=False)
    written = write_score_files(out, rows)
    reports = f"Report: [bold]{out / 'report.html'}[/]" if len(rows) == 1 else f"Reports: [bold]{out}/*/report.html[/]"
    console.print(f"{reports}  scores: {written['scores.csv']}, {written['scores.json']}", soft_wrap=True)


def _print_recordings(rows: list[RecordingScores], method: str, label: str) -> None:
    headings = ("windows", "raw macro-F1", f"{label} macro-F1", "raw accuracy", f"{label} accuracy")
    table = Table("recording", *(Column(text, justify="right") for text in headings), title="Scores of each recording")
    marks = {True: " *", None: " ?", False: ""}
    table.caption = "raw: the model alone. *: the subject was in training; ?: unknown whether it was."
    for row in rows:
        pair = (row.scores["none"], row.scores[method])
        cells = [f"{100 * scores[key]:.1f}" for key in ("macro_f1_union", "accuracy") for scores in pair]
        table.add_row(escape(row.recording) + marks[row.in_training], str(pair[0]["windows"]), *cells)
    console.print(table)


def _print_scores(rows: dict[str, dict[str, Any]], title: str, labels: dict[str, str]) -> None:
    """Print one row for each method; the best value of each column is bold."""
    columns = (Column(heading, justify="right") for _, heading, _ in METRICS)
    table = Table(Column("method", no_wrap=True), *columns, title=escape(title), caption=CAPTION)
    best = {
        key: (max if index < 3 else min)((row[key] for row in rows.values() if not math.isnan(row[key])), default=None)
        for index, (key, _, _) in enumerate(METRICS)
    }
    for name, row in rows.items():
        cells = [_cell(scale * row[key], row[key] == best[key]) for key, _, scale in METRICS]
        table.add_row("raw" if name == "none" else escape(labels[name]), *cells)
    console.print(table)


def _cell(value: float, best: bool) -> str:
    text = "-" if math.isnan(value) else f"{value:.1f}"
    return f"[bold]{text}[/]" if best else text
