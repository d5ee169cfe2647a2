"""``sight evaluate``: raw against refined, on a user's own annotation or a dataset's."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from sight import registry
from sight.cli._inputs import find, read
from sight.cli._reading import Reading, with_reading
from sight.cli._shared import console, make_adapter
from sight.cli.adapt import Lag, Method, Model, Preset, Settings, info, run_shown

#: What the table shows, with the direction that is better.
SHOWN = (
    ("macro_f1_union", "macro-F1", 100),
    ("accuracy", "accuracy", 100),
    ("balanced_accuracy", "balanced acc.", 100),
    ("ece", "ECE", 100),
    ("time_use_mae_min", "min/day", 1),
    ("delay_median_s", "delay (s)", 1),
)


@with_reading
def evaluate(
    target: Annotated[str, typer.Argument(help="A recording, or a person of a dataset such as synthetic:W12.")],
    model: Model,
    labels: Annotated[Path | None, typer.Option(help="Diary: CSV with start, end, label, or time, label.")] = None,
    names: Annotated[Path | None, typer.Option(help="TOML that maps the diary's words to the model's classes.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of the file with the model's classes.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("out"),
    method: Method = registry.RECOMMENDED,
    settings: Settings = None,
    preset: Preset = None,
    lag: Lag = 0.0,
    compare: Annotated[str, typer.Option(help="Other methods in the table, comma-separated.")] = "ema,sticky",
    *,
    reading: Reading,
) -> None:
    """Score a model alone against the model with a method, where the truth is known.

    [bold]Examples[/]

      sight evaluate day.csv -m model.onnx --labels diary.csv -o results/

      sight evaluate hapt:5 -m hapt.safetensors --compare ema,sticky,sticky-learned
    """
    from sight.smoothing import require_smoothable
    from sight.sources import load

    source = load(model)
    # Everything that can be refused is refused before anything has run.
    require_smoothable(method, lag)
    others = [name for name in map(str.strip, compare.split(",")) if name and (name != method or lag)]
    adapter = make_adapter(method, settings, preset).bind(source)
    beside = [make_adapter(name).bind(source) for name in others]
    found = find(target)
    if len(found) != 1:
        raise ValueError(f"Expected one recording to evaluate, got {len(found)} in {target}; name one of them.")
    item = found[0]
    windows = read(item, source, replace(reading, label_column=label_column))
    if labels is not None:
        from sight.annotations import label_windows, read_label_map

        windows = replace(
            windows, label=label_windows(labels, windows, source.classes, read_label_map(names) if names else None)
        )
    if not (windows.label >= 0).any():
        raise ValueError(f"{item.name} carries no labels; give them with --labels diary.csv or --label-column NAME.")
    results = [run_shown(one, windows, one.name) for one in beside]
    result = run_shown(adapter, windows, method, lag)
    write_scores(result, results, out, info(item, source, model, windows), title=f"{item.name}: raw against refined")


def write_scores(result: Any, others: list[Any], out: Path, facts: dict[str, Any], title: str) -> None:
    """Print the table, and write all files and the scores beside them."""
    from sight.atomic import write_json
    from sight.metrics import score_result
    from sight.outputs import write_outputs
    from sight.report.score_table import LAG_NOTE

    scored = {one.name: score_result(one) for one in (*others, result)}
    rows = {"none": scored[result.name]["raw"]} | {name: found["refined"] for name, found in scored.items()}
    print_scores(rows, title, {one.name: one.label for one in (*others, result)})
    if result.lag:
        console.print(LAG_NOTE, style="dim", highlight=False)
    written = write_outputs(result, out, info=facts | {"title": title}, others=others)
    scores = write_json(out / "scores.json", rows)
    console.print(f"Report: [bold]{written['report.html']}[/]  scores: {scores}", soft_wrap=True)


def print_scores(rows: dict[str, dict[str, Any]], title: str, labels: dict[str, str]) -> None:
    """Print one line a method; the best of each column is bold."""
    table = Table(title=title, caption="higher is better up to balanced accuracy, lower after; min/day: time-use error")
    table.add_column("method", no_wrap=True)
    for _, heading, _ in SHOWN:
        table.add_column(heading, justify="right")
    best = {
        key: (max if index < 3 else min)((row[key] for row in rows.values() if not math.isnan(row[key])), default=None)
        for index, (key, _, _) in enumerate(SHOWN)
    }
    for name, row in rows.items():
        label = "source-only" if name == "none" else labels[name]
        cells = [_cell(scale * row[key], row[key] == best[key]) for key, _, scale in SHOWN]
        table.add_row(label, *cells)
    console.print(table)


def _cell(value: float, best: bool) -> str:
    if math.isnan(value):
        return "-"
    return f"[bold]{value:.1f}[/]" if best else f"{value:.1f}"
