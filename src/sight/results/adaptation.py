"""Result of `sight.adapt`: tables as DataFrames, report, plot and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sight.results.files import summary_row, write_outputs
from sight.results.report import write_report
from sight.results.tables import (
    NONWEAR_COLUMNS,
    SEGMENT_COLUMNS,
    ResultSummary,
    TableRules,
    bout_columns,
    bout_rows,
    daily_columns,
    daily_rows,
    headline,
    nonwear_rows,
    segment_rows,
    warnings_of,
    window_columns,
)
from sight.types import Result, Warning

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Adaptation:
    """Activities of one wearer, as `sight.adapt` returns them.

    Tables are computed when they are first used and have the columns of the output files; times are in the wearer's
    time zone.

    Parameters
    ----------
    result
        Windows, raw and refined probabilities, and diagnostics.
    info
        What `info.json` contains about the input and the model.
    rules
        Which days are valid and how long bouts last at least.
    """

    result: Result
    info: Mapping[str, Any]
    rules: TableRules = field(default_factory=TableRules)

    @cached_property
    def windows(self) -> pd.DataFrame:
        """One row per window: raw and refined class and probabilities, confidence, intensity, wear, gaps."""
        import pandas as pd

        return pd.DataFrame(window_columns(self._summary))

    @cached_property
    def segments(self) -> pd.DataFrame:
        """One row per run of one refined class."""
        return self._timed(segment_rows(self._summary), SEGMENT_COLUMNS)

    @cached_property
    def daily(self) -> pd.DataFrame:
        """One row per local day: wear, gaps, intensity, hours of each class."""
        import pandas as pd

        frame = pd.DataFrame(self._daily, columns=daily_columns(self._summary))
        return frame.assign(date=pd.to_datetime(frame["date"]))

    @cached_property
    def bouts(self) -> pd.DataFrame:
        """One row per bout: a long run of one class with short interruptions."""
        return self._timed(self._bouts, bout_columns(self._summary))

    @cached_property
    def nonwear(self) -> pd.DataFrame:
        """One row per period of non-wear or gap."""
        return self._timed(nonwear_rows(self._summary), NONWEAR_COLUMNS)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row with means over valid days."""
        import pandas as pd

        return pd.DataFrame([summary_row(self._summary, self._daily, self._bouts, self.info)])

    @cached_property
    def warnings(self) -> list[Warning]:
        """What looks wrong with the recording; empty if nothing does."""
        return warnings_of(self._summary, self._daily)

    @property
    def headline(self) -> str:
        """One sentence about the days."""
        return headline(self._daily, self.result.classes)

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the HTML report and return its path."""
        return write_report(path, self.result, facts=self.info, rules=self.rules)

    def plot(self, *, most_days: int = 14) -> Figure:
        """Return a matplotlib figure with one row per day: raw classes above refined ones.

        Parameters
        ----------
        most_days
            Only the first days are drawn if there are more.
        """
        from sight.results.plot import plot_days

        return plot_days(self._summary, most_days)

    def save(self, folder: str | Path, *, csv: bool = False) -> dict[str, Path]:
        """Write all files of `sight adapt` to a folder and return their paths by name; `csv` adds `windows.csv`."""
        return write_outputs(self.result, folder, info=self.info, rules=self.rules, csv=csv)

    def __repr__(self) -> str:
        name, count = self.info.get("subject", "a recording"), len(self.result.windows)
        return f"<Adaptation of {name}: {count} windows, method {self.result.name}>"

    def _repr_html_(self) -> str:
        from sight.results.notebook import to_html

        return to_html(self, self._summary)

    @cached_property
    def _summary(self) -> ResultSummary:
        return ResultSummary(self.result, rules=self.rules)

    @cached_property
    def _daily(self) -> list[dict[str, Any]]:
        return daily_rows(self._summary)

    @cached_property
    def _bouts(self) -> list[dict[str, Any]]:
        return bout_rows(self._summary)

    def _timed(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
        """Return rows as a frame whose start and end are times of the wearer's clock, or missing."""
        import pandas as pd

        frame = pd.DataFrame(rows, columns=list(columns))
        moments = {name: [self._summary.clock(second) for second in frame[f"{name}_s"]] for name in ("start", "end")}
        return frame.assign(**{name: pd.Series(values, dtype=self._dtype) for name, values in moments.items()})

    @property
    def _dtype(self) -> Any:
        import pandas as pd

        zone = getattr(self.result.windows.start, "tzinfo", None)
        return pd.DatetimeTZDtype("us", zone) if zone else "datetime64[us]"
