"""One experiment summarised over several settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sight.apps.bench.experiment_report.summary import MethodSummary, summarise
from sight.apps.bench.experiment_report.table_format import Cell
from sight.results import score_statistics as stats
from sight.results.score_statistics import Difference


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiSettingSummary:
    """Methods of one experiment on several settings."""

    summaries: Mapping[str, MethodSummary]  # by short name of the setting, in the order of the tables
    datasets: Mapping[str, str]  # dataset of each; settings of one dataset share subjects
    _differences: dict[tuple[str, str, MultiSettingSummary], Difference] = field(default_factory=dict, repr=False)

    @cached_property
    def source_only(self) -> tuple[str, ...]:
        found = (summary.source_only for summary in self.summaries.values())
        return tuple(dict.fromkeys(label for label in found if label is not None))

    @cached_property
    def methods(self) -> dict[str, str]:
        """Registry name of each label, in the order of the plan."""
        return {str(k): str(v) for s in self.summaries.values() for k, v in s.table["method"].items()}

    @cached_property
    def cells(self) -> dict[str, Cell]:
        return {label: cell for summary in self.summaries.values() for label, cell in summary.cells.items()}

    @cached_property
    def complete(self) -> list[str]:
        """Labels of methods that were run on every setting."""
        return [label for label in self.methods if all(label in s.table.index for s in self.summaries.values())]

    def column(self, name: str) -> Any:
        """Return one column of all summaries, methods by settings; NaN where a method was not run."""
        import pandas as pd

        found = pd.DataFrame({setting: summary.table[name] for setting, summary in self.summaries.items()})
        return found.reindex(list(self.methods))

    @cached_property
    def gains(self) -> Any:
        """Difference to source-only in points, methods (without source-only) by settings."""
        return self.column("delta").drop(index=list(self.source_only))

    def difference(self, label: str, other: str, against: MultiSettingSummary | None = None) -> Difference:
        """Return the mean over settings of the difference of two methods, over the runs that both have.

        The second method may be of another summary (`against`). NaN unless both were run on all settings.
        """
        second = against or self
        key = (label, other, second)
        if key not in self._differences:
            self._differences[key] = self._difference(*key)
        return self._differences[key]

    def _difference(self, label: str, other: str, second: MultiSettingSummary) -> Difference:
        same = set(second.summaries) == set(self.summaries)
        if label not in self.complete or other not in second.complete or not same:
            return Difference(*[float("nan")] * 3)
        values, subjects = [], []
        for setting, summary in self.summaries.items():
            part = summary.subject_differences(label, other, second.summaries[setting])
            values.append(part.to_numpy())
            subjects.append([f"{self.datasets[setting]}/{subject}" for subject in part.index])
        return Difference(float(np.mean([own.mean() for own in values])), *stats.shared_interval(values, subjects))

    def gain(self, label: str) -> Difference:
        return self.difference(label, self.source_only[0])

    @property
    def mean_gains(self) -> dict[str, Difference]:
        """By marked label, of methods that were run on every setting."""
        return {self.cells[label].text: self.gain(label) for label in self.complete if label not in self.source_only}

    def by_setting(self, label: str, other: str | None = None) -> dict[str, Difference]:
        """Return the difference of a method to another, or to source-only, on each setting that has both."""
        found = {}
        for setting, summary in self.summaries.items():
            second = summary.source_only if other is None else other
            if second is not None and {label, second} <= set(summary.table.index):
                found[setting] = summary.difference(label, second)
        return found

    def harmed(self, label: str) -> float:
        """Return the share of runs, over all settings, that lose more than the margin to source-only."""
        runs, harmed = (self.column(name).loc[label].sum() for name in ("runs", "harmed"))
        return float(harmed / runs) if runs else float("nan")

    @cached_property
    def best_in(self) -> Any:
        """Number of settings on which each method has the highest gain; source-only counts with a gain of zero."""
        found = self.column("delta")
        found.loc[list(self.source_only)] = 0.0
        return found.eq(found.max(axis=0), axis=1).sum(axis=1)


def summarise_settings(rows: Any, names: Mapping[str, str], metric: str | None = None) -> MultiSettingSummary:
    """Summarise rows of one experiment, network and order on several settings, given with their short names.

    Settings without rows are skipped; `metric` is that of `summarise`.
    """
    groups = {setting: own for setting, own in rows.groupby("setting", sort=False) if setting in names}
    present = [setting for setting in names if setting in groups]
    return MultiSettingSummary(
        summaries={names[setting]: summarise(groups[setting], metric) for setting in present},
        datasets={names[setting]: str(groups[setting]["dataset"].iloc[0]) for setting in present},
    )
