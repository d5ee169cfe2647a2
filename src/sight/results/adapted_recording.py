"""`sight.adapt`: from a recording to tables, report and plot in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sight import registry
from sight._util.progress import Bar, progress_bar
from sight.base import Adapter, Source
from sight.models.bundled import resolve
from sight.models.card import require_card
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import RecordingRef, find_recording
from sight.results.method_name import method_name
from sight.results.output_files.outputs import write_outputs
from sight.results.output_tables import TABLES, Row, Table, table
from sight.results.output_tables.headline import headline
from sight.results.output_tables.rules import DAYS_FROM, MIN_BOUT, VALID_DAY, TableRules
from sight.results.output_tables.windows import window_columns
from sight.results.report import write_report
from sight.results.summarise_recording import summarise_recording
from sight.results.summary import ResultSummary
from sight.types import Result, Warning

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Adaptation:
    """Activities of one wearer, as `sight.adapt` returns them.

    Tables are computed when they are first used and have the columns of the output files; times are in the wearer's
    time zone.

    Parameters
    ----------
    summary
        The result with its rules and information.

    Attributes
    ----------
    windows : DataFrame
        One row per window: raw and refined class and probabilities, confidence, intensity, wear, gaps.
    segments : DataFrame
        One row per run of one refined class.
    daily : DataFrame
        One row per day: wear, gaps, time in bed, intensity, hours of each class.
    hourly : DataFrame
        One row per clock hour of each day.
    day_statistics : DataFrame
        One row per number of a day: mean, median and range over valid days.
    nights : DataFrame
        One row per night: sleep period and sleep in it.
    bouts : DataFrame
        One row per bout: a long run of one class with short interruptions.
    nonwear : DataFrame
        One row per period of non-wear or gap.
    summary : DataFrame
        One row with means over valid days.
    quality : DataFrame
        One row about the recording: device, rate, damage, calibration, gaps, warnings by severity.
    """

    if TYPE_CHECKING:
        segments: pd.DataFrame
        daily: pd.DataFrame
        hourly: pd.DataFrame
        day_statistics: pd.DataFrame
        nights: pd.DataFrame
        bouts: pd.DataFrame
        nonwear: pd.DataFrame
        summary: pd.DataFrame
        quality: pd.DataFrame

    def __init__(self, summary: ResultSummary) -> None:
        self._summary = summary
        self._frames: dict[str, pd.DataFrame] = {}

    @property
    def result(self) -> Result:
        """Windows, raw and refined probabilities, and diagnostics."""
        return self._summary.result

    @property
    def info(self) -> Mapping[str, Any]:
        """What `info.json` contains about the input and the model."""
        return self._summary.info

    @property
    def rules(self) -> TableRules:
        """Which days are valid and how long bouts last at least."""
        return self._summary.rules

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """What looks wrong with the recording; empty if nothing does."""
        return self._summary.warnings

    @property
    def headline(self) -> str:
        """One sentence about the days."""
        return headline(self._summary)

    @property
    def windows(self) -> pd.DataFrame:
        """One row per window."""
        import pandas as pd

        if "windows" not in self._frames:
            self._frames["windows"] = pd.DataFrame(window_columns(self._summary))
        return self._frames["windows"]

    def __getattr__(self, name: str) -> Any:
        if name not in TABLES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name not in self._frames:
            self._frames[name] = _frame(self._summary, table(name))
        return self._frames[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *TABLES})

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the HTML report and return its path."""
        return write_report(path, self._summary)

    def plot(self, *, most_days: int = 14) -> Figure:
        """Return a matplotlib figure with one row for each of the first days: raw classes above refined ones."""
        from sight.results.plot import plot_days

        return plot_days(self._summary, most_days)

    def save(self, folder: str | Path, *, csv: bool = False) -> dict[str, Path]:
        """Write all files of `sight adapt` to a folder and return their paths by name; `csv` adds `windows.csv`."""
        return write_outputs(self._summary, folder, csv=csv)

    def __repr__(self) -> str:
        name, count = self.info.get("subject", "a recording"), len(self.result.windows)
        return f"<Adaptation of {name}: {count} windows, method {method_name(self.result)}>"

    def _repr_html_(self) -> str:
        from sight.results.notebook import to_html

        return to_html(self._summary)


def adapt(
    recording: Any,
    model: str | Path | Source = "wrist",
    method: str | Adapter | None = None,
    *,
    lag: float | None = None,
    valid_day: str | float = VALID_DAY,
    min_bout: str | float | Iterable[str] = MIN_BOUT,
    days_from: str = DAYS_FROM,
    cut_points: str = "",
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
        Number of later windows that a prediction may use, infinity for the whole recording, 0 for predictions as in a
        live stream. None is the whole recording if the method allows it (keel), else 0.
    valid_day
        A day is valid if the sensor was worn that long, such as "16h"; a number is hours.
    min_bout
        Shortest bout, such as "60s", or a list such as ``["60s", "walking=120s"]``; a number is seconds.
    days_from
        Where days begin: "midnight", "start" (every 24 hours from the start of the recording) or "waking".
    cut_points
        Limits of intensity by name, such as "hildebrand-children-wrist", or in milli-g, such as "45,100"; by default
        those of adults for the place of the sensor.
    subject
        Name of the wearer in tables and report; that of the recording by default.
    progress
        Whether to show a progress bar in notebooks and terminals, or a function that makes one.
    options
        Fields of `sight.recordings.reading_options.ReadOptions`, such as ``tz="Europe/Vienna"`` or ``unit="mg"``.

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
    >>> from tempfile import TemporaryDirectory
    >>> from sight.testing import toy_network
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "walk.csv"
    ...     _ = file.write_text("time,x,y,z\n" + "".join(f"{t / 10},0,0,1\n" for t in range(100)))
    ...     week = adapt(file, toy_network(), tz="UTC")
    >>> week
    <Adaptation of walk: 9 windows, method keel, whole recording>
    >>> week.daily["wear_h"].tolist()
    [0.0028]
    """
    from sight.models.load import load

    source: Any = load(model, threads=None) if isinstance(model, str | Path) else model
    adapter = registry.method(method or registry.RECOMMENDED) if isinstance(method, str | None) else method
    rules, read = TableRules.parse(valid_day, min_bout, days_from, cut_points), ReadOptions(**options)
    name = resolve(model) if isinstance(model, str | Path) else require_card(source).dataset or type(model).__name__
    bar = progress_bar if progress is True else progress or None
    ref = _reference(recording)
    summary = summarise_recording(ref, source, adapter, name, options=read, rules=rules, lag=lag, progress=bar)
    if subject:
        summary.info["subject"] = subject
    return Adaptation(summary)


def _frame(summary: ResultSummary, table: Table) -> pd.DataFrame:
    """Return a table as a frame; times are those of the wearer's clock, or missing."""
    import pandas as pd

    rows: list[Row] = list(summary.rows(table.name))
    frame = pd.DataFrame(rows, columns=list(table.columns_of(summary)))
    zone = getattr(summary.result.windows.start, "tzinfo", None)
    moment_type: Any = pd.DatetimeTZDtype("us", zone) if zone else "datetime64[us]"
    for name, kind in table.kinds.items():
        if kind == "date":
            frame[name] = pd.to_datetime(frame[name])
        elif kind == "time":
            moments = [None if pd.isna(second) else summary.clock(second) for second in frame[f"{name}_s"]]
            frame[name] = pd.Series(moments, dtype=moment_type)
    return frame


def _reference(recording: Any) -> RecordingRef:
    if isinstance(recording, str | Path | list | tuple):
        return find_recording(recording)
    if hasattr(recording, "to_parquet"):
        return RecordingRef(name="DataFrame", path=Path("DataFrame.parquet"), content=_arrow_table(recording))
    raise TypeError(
        f"Expected a file, a subject of a dataset or a pandas DataFrame, got {type(recording).__name__}; "
        f"windows are passed to sight.run."
    )


def _arrow_table(frame: Any) -> Any:
    """Return a frame as a pyarrow table: its index becomes a column if it is the time, durations become seconds."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(frame.index, pd.DatetimeIndex | pd.TimedeltaIndex) or frame.index.name:
        frame = frame.reset_index(names=frame.index.name or "time")
    durations = frame.select_dtypes("timedelta")
    frame = frame.assign(**{name: column.dt.total_seconds() for name, column in durations.items()})
    return pa.Table.from_pandas(frame.rename(columns=str), preserve_index=False)
