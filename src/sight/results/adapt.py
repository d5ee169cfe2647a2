"""`sight.adapt`: from a recording to tables, report and plot in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sight import registry
from sight.base import Adapter, Source
from sight.models.bundled import resolve
from sight.models.card import require_card
from sight.recordings.options import ReadOptions
from sight.recordings.read import describe_run, read_windows
from sight.recordings.references import RecordingRef, find_recording
from sight.results.adaptation import Adaptation
from sight.results.progress import Bar, progress_bar
from sight.results.tables import TableRules

__all__ = ["Adaptation", "adapt", "adapt_recording"]


def adapt(
    recording: Any,
    model: str | Path | Source = "wrist",
    method: str | Adapter | None = None,
    *,
    lag: float = 0.0,
    valid_day: str | float = "16h",
    min_bout: str | float | Iterable[str] = "60s",
    subject: str = "",
    progress: bool | Bar = True,
    **options: Any,
) -> Adaptation:
    r"""Recognise activities in a recording while adapting to its wearer.

    Parameters
    ----------
    recording
        A file, a list of files of one wearer, a subject of a dataset such as "synthetic:W12", or a pandas DataFrame
        with one sample per row and its time as a column or as the index.
    model
        Name of a bundled model, path of a model file, or a loaded source model.
    method
        Name of a method, or an adapter with its hyper-parameters such as ``sight.method("keel", align=0.2)``; None
        uses the recommended one, "none" the model alone.
    lag
        Number of later windows that a prediction may use; infinity for the whole recording (keel).
    valid_day
        A day is valid if the sensor was worn that long, such as "16h"; a number is hours.
    min_bout
        Shortest bout, such as "60s", or a list such as ``["60s", "walking=120s"]``; a number is seconds.
    subject
        Name of the wearer in tables and report; that of the recording by default.
    progress
        Whether to show a progress bar in notebooks and terminals, or a function that makes one.
    options
        Fields of `sight.recordings.options.ReadOptions`, such as ``tz="Europe/Vienna"`` or ``unit="mg"``.

    Returns
    -------
    Adaptation
        Predictions, and tables as DataFrames.

    Raises
    ------
    ValueError
        If the recording cannot be read or does not fit the model.

    Examples
    --------
    >>> from sight.testing import toy_network
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "walk.csv"
    ...     _ = file.write_text("time,x,y,z\n" + "".join(f"{t / 10},0,0,1\n" for t in range(100)))
    ...     week = adapt(file, toy_network(), tz="UTC")
    >>> week
    <Adaptation of walk: 9 windows, method keel>
    >>> week.daily["wear_h"].tolist()
    [0.0028]
    """
    source: Any = _load(model) if isinstance(model, str | Path) else model
    adapter = registry.method(method or registry.RECOMMENDED) if isinstance(method, str | None) else method
    rules, read = TableRules.parse(valid_day, min_bout), ReadOptions(**options)
    name = resolve(model) if isinstance(model, str | Path) else require_card(source).dataset or type(model).__name__
    with _reference(recording) as ref:
        found = adapt_recording(ref, source, adapter, name, read, rules, lag=lag, progress=progress)
    return replace(found, info={**found.info, "subject": subject}) if subject else found


def adapt_recording(
    ref: RecordingRef,
    source: Source,
    adapter: Adapter,
    model: str | Path,
    options: ReadOptions,
    rules: TableRules,
    *,
    lag: float = 0.0,
    progress: bool | Bar = True,
) -> Adaptation:
    """Read a recording and run a method over it; `adapter` is not changed, `model` is the name of the model's file."""
    from sight.results.prediction_loop import run

    rules.require_classes(tuple(source.classes))
    bound, card = adapter.clone().bind(source), require_card(source, model)
    windows = read_windows(ref, card, options)
    bar = progress_bar if progress is True else progress
    with bar(ref.name, len(windows)) if bar else nullcontext() as show:
        result = run(bound, windows, on_predictions=show and (lambda done, *_: show(done)), lag=lag)
    return Adaptation(result=result, info=describe_run(ref, card, model, windows), rules=rules)


def _load(model: str | Path) -> Source:
    from sight.models.load import load

    return load(model, threads=None)


@contextmanager
def _reference(recording: Any) -> Iterator[RecordingRef]:
    """Yield a reference to a recording; that of a DataFrame is a file that is removed afterwards."""
    if isinstance(recording, str | Path | list | tuple):
        yield find_recording(recording)
    elif hasattr(recording, "to_parquet"):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "DataFrame.parquet"
            _write_frame(recording, path)
            try:
                yield RecordingRef(name="DataFrame", path=path)
            except ValueError as error:
                raise ValueError(str(error).replace(str(path), "The DataFrame")) from None
    else:
        raise TypeError(
            f"Expected a file, a subject of a dataset or a pandas DataFrame, got {type(recording).__name__}; "
            f"windows are passed to sight.run."
        )


def _write_frame(frame: Any, path: Path) -> None:
    """Write a frame as Parquet: its index becomes a column if it is the time, durations become seconds."""
    import pandas as pd

    if isinstance(frame.index, pd.DatetimeIndex | pd.TimedeltaIndex) or frame.index.name:
        frame = frame.reset_index(names=frame.index.name or "time")
    durations = frame.select_dtypes("timedelta")
    frame = frame.assign(**{name: column.dt.total_seconds() for name, column in durations.items()})
    frame.rename(columns=str).to_parquet(path, index=False)
