"""One experiment summarised over several settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sight.apps.bench.experiment_report.summary import MethodSummary, summarise
from sight.apps.bench.experiment_report.table_format import Cell
from sight.results import paired_tests
from sight.results.score_statistics import Difference, SettingRuns, two_way_interval


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiSettingSummary:
    """Methods of one experiment on several settings."""

    summaries: Mapping[str, MethodSummary]  # by short name of the setting, in the order of the tables
    datasets: Mapping[str, str]  # dataset of each; settings of one dataset share subjects
    _differences: dict[tuple[str, str, MultiSettingSummary, bool], Difference] = field(default_factory=dict, repr=False)

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

    def difference(
        self, label: str, other: str, against: MultiSettingSummary | None = None, *, by_dataset: bool = False
    ) -> Difference:
        """Return the mean over settings of the difference of two methods, over the runs that both have.

        The second method may be of another summary (`against`). `by_dataset` is the mean over datasets of the mean over
        their settings. NaN unless both were run on all settings.
        """
        second = against or self
        key = (label, other, second, by_dataset)
        if key not in self._differences:
            self._differences[key] = self._difference(*key)
        return self._differences[key]

    def _difference(self, label: str, other: str, second: MultiSettingSummary, by_dataset: bool) -> Difference:
        same = set(second.summaries) == set(self.summaries)
        if label not in self.complete or other not in second.complete or not same:
            return Difference(*[float("nan")] * 3)
        runs, means, weights = [], [], self.weights(by_dataset=by_dataset)
        for setting, summary in self.summaries.items():
            part = summary.model_differences(label, other, second.summaries[setting])
            means.append(part.mean(axis=1).mean())
            runs.append(
                SettingRuns(part.to_numpy(), part.index, part.columns, self.datasets[setting], weights[setting])
            )
        return Difference(float(np.average(means, weights=list(weights.values()))), *two_way_interval(runs))

    @property
    def repeats_datasets(self) -> bool:
        """Whether a dataset has several settings, so that the mean by dataset differs from the mean over settings."""
        return len(set(self.datasets.values())) < len(self.datasets)

    def weights(self, *, by_dataset: bool = False) -> dict[str, float]:
        """Return the weight of each setting in a mean over settings, or over datasets."""
        settings = Counter(self.datasets.values())
        return {setting: 1 / settings[own] if by_dataset else 1.0 for setting, own in self.datasets.items()}

    def mean(self, values: Mapping[str, float], *, by_dataset: bool = False) -> float:
        """Return the mean over settings, or over datasets, of one value per setting; NaN is left out."""
        weights = self.weights(by_dataset=by_dataset)
        kept = {setting: value for setting, value in values.items() if np.isfinite(value)}
        own = [weights[setting] for setting in kept]
        return float(np.average(list(kept.values()), weights=own)) if kept else float("nan")

    def gain(self, label: str, *, by_dataset: bool = False) -> Difference:
        return self.difference(label, self.source_only[0], by_dataset=by_dataset)

    @property
    def mean_gains(self) -> dict[str, Difference]:
        """By marked label, of methods that were run on every setting."""
        return {self.cells[label].text: self.gain(label) for label in self.complete if label not in self.source_only}

    def by_setting(self, label: str, other: str | None = None) -> dict[str, Difference]:
        """Return the difference of a method to another, or to source-only, on each setting that has both."""
        return {setting: self.summaries[setting].difference(*own) for setting, own in self._pairs(label, other)}

    def verdicts(
        self, label: str, other: str | None = None, against: MultiSettingSummary | None = None
    ) -> dict[str, str]:
        """Return "better", "worse", "open" or "unknown" for each setting with both methods.

        The second method may be of another summary (`against`). The tests over subjects are corrected for the number of
        these settings.
        """
        pairs = dict(self._pairs(label, other, against))
        differences = [self.summaries[setting].subject_differences(*own).to_numpy() for setting, own in pairs.items()]
        return dict(zip(pairs, paired_tests.verdicts(differences), strict=True))

    def _pairs(
        self, label: str, other: str | None, against: MultiSettingSummary | None = None
    ) -> Iterator[tuple[str, tuple[str, str, MethodSummary]]]:
        """Yield each setting that has a method and another one, or source-only, with both labels and the second one."""
        for setting, summary in self.summaries.items():
            second = (against or self).summaries[setting]
            found = second.source_only if other is None else other
            if found is not None and label in summary.table.index and found in second.table.index:
                yield setting, (label, found, second)

    def harmed(self, label: str, *, by_dataset: bool = False) -> float:
        """Return the share of runs that lose more than the margin to source-only: mean over settings, or datasets."""
        runs, harmed = (self.column(name).loc[label] for name in ("runs", "harmed"))
        return self.mean((harmed / runs.where(runs > 0)).to_dict(), by_dataset=by_dataset)

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
