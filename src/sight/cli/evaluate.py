"""``sight evaluate``: score a model alone and with methods on labelled recordings."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sight import registry
from sight.cli import _options as opt
from sight.cli._shared import console, make_adapter
from sight.cli.adapt import describe_run, read_recording, run_with_progress
from sight.reading import ReadOptions, find_recording

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
    "source-only: raw predictions, without adaptation. Higher is better up to balanced accuracy, lower after. min/day: "
    "error of the time per class, scaled to 24 hours. delay -: no change of activity."
)


@opt.takes_reading_options()
def evaluate(
    target: Annotated[str, typer.Argument(help="A recording, or a subject of a dataset such as synthetic:W12.")],
    model: opt.Model,
    labels: Annotated[Path | None, typer.Option(help="Diary: CSV with start, end, label, or time, label.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results; earlier ones are replaced.")] = Path(
        "out"
    ),
    method: opt.Method = registry.RECOMMENDED,
    params: opt.Params = None,
    preset: opt.Preset = None,
    lag: opt.Lag = 0.0,
    compare: Annotated[str, typer.Option(help="Other methods in the table, comma-separated.")] = "ema,sticky",
    *,
    reading: ReadOptions,
) -> None:
    """Compare the model alone with adaptation methods on a labelled recording.

    Writes the files of sight adapt, and scores.json.

    [bold]Examples[/]

      sight evaluate day.csv -m model.onnx --labels diary.csv -o results/

      sight evaluate hapt:5 -m hapt.safetensors --compare ema,sticky,sticky-learned
    """
    from sight.smoothing import require_smoothable
    from sight.sources import load

    source: Any = load(model)
    # Check all arguments before anything runs.
    require_smoothable(method, lag)
    adapter = make_adapter(method, params, preset).bind(source)
    compared = [name for name in map(str.strip, compare.split(",")) if name and (name != method or lag)]
    others = [make_adapter(name).bind(source) for name in compared]
    ref = find_recording(target)
    windows = read_recording(ref, source, reading)
    if labels is not None:
        from sight.annotations import label_windows

        windows = replace(windows, label=label_windows(labels, windows, source.classes, reading.names))
    if not (windows.label >= 0).any():
        raise ValueError(f"{ref.name} has no labels; give them with --labels diary.csv or --label-column NAME.")
    results = [run_with_progress(other, windows, other.name) for other in others]
    result = run_with_progress(adapter, windows, method, lag)
    info = describe_run(ref, source.card, model, windows)
    write_scores(result, results, out, info, title=f"{ref.name}: raw against refined")


def write_scores(result: Any, others: list[Any], out: Path, facts: dict[str, Any], title: str) -> None:
    """Print the table of scores, and write the result files and scores.json."""
    from sight.atomic import write_json
    from sight.metrics import score_result
    from sight.outputs import write_outputs
    from sight.report.score_table import LAG_NOTE

    scored = {each.name: score_result(each) for each in (*others, result)}
    rows = {"none": scored[result.name]["raw"]} | {name: scores["refined"] for name, scores in scored.items()}
    print_scores(rows, title, {each.name: each.label for each in (*others, result)})
    if result.lag:
        console.print(LAG_NOTE, style="dim", highlight=False)
    written = write_outputs(result, out, info=facts | {"title": title}, others=others)
    scores = write_json(out / "scores.json", rows)
    console.print(f"Report: [bold]{written['report.html']}[/]  scores: {scores}", soft_wrap=True)


def print_scores(rows: dict[str, dict[str, Any]], title: str, labels: dict[str, str]) -> None:
    """Print one row for each method; the best value of each column is bold."""
    table = Table(title=escape(title), caption=CAPTION)
    table.add_column("method", no_wrap=True)
    for _, heading, _ in METRICS:
        table.add_column(heading, justify="right")
    best = {
        key: (max if index < 3 else min)((row[key] for row in rows.values() if not math.isnan(row[key])), default=None)
        for index, (key, _, _) in enumerate(METRICS)
    }
    for name, row in rows.items():
        label = "source-only" if name == "none" else labels[name]
        cells = [_cell(scale * row[key], row[key] == best[key]) for key, _, scale in METRICS]
        table.add_row(label, *cells)
    console.print(table)


def _cell(value: float, best: bool) -> str:
    if math.isnan(value):
        return "-"
    return f"[bold]{value:.1f}[/]" if best else f"{value:.1f}"
