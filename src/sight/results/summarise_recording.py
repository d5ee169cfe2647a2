"""From a recording to the summary of its result: read it, run a method over it, describe it."""

from pathlib import Path

from sight._util.progress import Bar, begin
from sight.base import Adapter, Source
from sight.models.card import require_card
from sight.recordings.read import describe_run, read_windows
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import RecordingRef
from sight.results.output_tables.rules import TableRules
from sight.results.prediction_loop import run
from sight.results.smoothing import stored_lag
from sight.results.summary import ResultSummary
from sight.types import Result, Windows


def summarise_recording(
    ref: RecordingRef,
    source: Source,
    adapter: Adapter,
    model: str | Path,
    *,
    options: ReadOptions | None = None,
    windows: Windows | None = None,
    rules: TableRules | None = None,
    lag: float | None = None,
    progress: Bar | None = None,
    label: str = "",
    title: str = "",
) -> ResultSummary:
    """Read a recording, run a method over it and summarise the result.

    A copy of `adapter` is bound; `model` is the name of the model's file. Windows are read with `options` unless they
    are given. `lag` is that of `sight.adapt`. `label` of the progress bar is the name of the recording by default,
    `title` is that of the report.
    """
    card = require_card(source, model)
    if rules is not None:
        rules.require_classes(tuple(source.classes))
    if windows is None:
        windows = read_windows(ref, card, options or ReadOptions(), progress=progress)
    lag = stored_lag(adapter.name) if lag is None else lag
    result = run_with_progress(adapter, source, windows, lag=lag, progress=progress, label=label or ref.name)
    info = describe_run(ref, card, model, windows)
    return ResultSummary(result, rules, info | {"title": title} if title else info)


def run_with_progress(
    adapter: Adapter, source: Source, windows: Windows, *, lag: float = 0.0, progress: Bar | None, label: str
) -> Result:
    """Run a copy of an adapter over windows, with a progress bar if one is given."""
    bound = adapter.clone().bind(source)
    with begin(progress, label, len(windows), "windows") as show:
        return run(bound, windows, on_predictions=lambda done, *_: show(done), lag=lag)
