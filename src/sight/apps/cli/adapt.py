"""``sight adapt``: run recordings through a model and a method, and write result files."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from sight import registry
from sight.apps.cli import _options as opt
from sight.apps.cli._shared import console, error_message, errors, exit_if_strict, print_warnings, progress
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import find_recordings
from sight.results.output_tables.rules import DAYS_FROM, VALID_DAY, TableRules


@opt.takes_reading_options()
def adapt(
    target: opt.Targets,
    model: opt.Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("out"),
    method: opt.Method = registry.RECOMMENDED,
    params: opt.Params = None,
    preset: opt.Preset = None,
    lag: opt.Lag = None,
    subject: opt.Subject = "",
    separate: opt.Separate = False,
    valid_day: opt.ValidDay = VALID_DAY,
    min_bout: opt.MinBout = None,
    days_from: opt.DaysFrom = DAYS_FROM,
    cut_points: opt.CutPoints = "",
    csv: Annotated[bool, typer.Option("--csv", help="Write windows.csv as well.")] = False,
    strict: opt.Strict = False,
    *,
    reading: ReadOptions,
) -> None:
    """Recognise activities in a recording while adapting to its wearer.

    Writes report.html, info.json and the tables windows.parquet, segments.csv, daily.csv, hourly.csv,
    day_statistics.csv, nights.csv, bouts.csv, nonwear.csv, summary.csv and quality.csv. Several recordings, or a
    folder of them, give one folder of results for each. Files of one subject are joined with --subject, or in a folder
    of their own below the folder; the time between them is a gap.

    [bold]Examples[/]

      sight adapt day.csv -m model.onnx -o results/ --columns z=up --unit mg --tz Europe/Vienna

      sight adapt monday.cwa tuesday.cwa -m model.onnx --subject S01 --tz Europe/Vienna

      sight adapt week.cwa -m model.safetensors --method sight --set tau=0.1

      sight adapt hapt:5 -m hapt.safetensors --method sticky
    """
    from sight.models.load import load
    from sight.results.adapted_recording import Adaptation
    from sight.results.summarise_recording import summarise_recording

    source: Any = load(model, threads=None)
    adapter = registry.method(method, preset, params or ())
    refs = find_recordings(target, subject=subject, separate=separate)
    rules = TableRules.parse(valid_day, min_bout, days_from, cut_points)
    failed, unusable = 0, []
    for ref in refs:
        try:
            summary = summarise_recording(
                ref, source, adapter, model, options=reading, rules=rules, lag=lag, progress=progress
            )
            week = Adaptation(summary)
            written = week.save(out if len(refs) == 1 else out / ref.name, csv=csv)
        except (ValueError, OSError) as error:
            if len(refs) == 1:
                raise
            failed += 1
            errors.print(f"[yellow]{escape(ref.name)} was skipped:[/] {escape(error_message(error))}", highlight=False)
            continue
        print_warnings(ref.name, week.warnings)
        if not summary.usable:
            unusable.append(ref.name)
        console.print(
            f"[bold]{escape(ref.name)}[/]: {escape(week.headline)}. Report: {escape(str(written['report.html']))}",
            soft_wrap=True,
            highlight=False,
        )
    if failed:
        others = f"results of the others are in {out}" if failed < len(refs) else "each is named above"
        raise ValueError(f"{failed} of {len(refs)} recordings could not be read; {others}.")
    exit_if_strict(strict, unusable)
