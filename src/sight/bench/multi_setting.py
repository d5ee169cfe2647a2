"""Methods over several settings: gains in each, their mean, and how sure it is when settings share people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sight.bench import stats
from sight.bench.aggregate import MethodSummary, summarise
from sight.bench.stats import Apart

#: Filters of a line or two, which a method must beat to be worth its length.
TRIVIAL = ("ema", "sticky", "sticky-learned")


@dataclass(frozen=True, kw_only=True, eq=False)
class Across:
    """One experiment on several settings.

    Parameters
    ----------
    summaries
        By setting as tables call it, in their order.
    corpora
        Corpus of each; settings of one corpus share people.
    """

    summaries: Mapping[str, MethodSummary]
    corpora: Mapping[str, str]
    _known: dict[tuple[str, str, Across], Apart] = field(default_factory=dict, repr=False)

    @cached_property
    def gains(self) -> Any:
        """Difference to source-only in points, methods by settings; without source-only itself."""
        found = self.figure("delta")
        return found.drop(index=[label for label in found.index if label in self.baselines])

    @cached_property
    def baselines(self) -> tuple[str, ...]:
        """Labels of source-only."""
        return tuple(dict.fromkeys(s.baseline for s in self.summaries.values() if s.baseline is not None))

    @cached_property
    def methods(self) -> dict[str, str]:
        """Registry name of each label, in the order of the plan."""
        return {str(k): str(v) for s in self.summaries.values() for k, v in s.table["method"].items()}

    @cached_property
    def starred(self) -> dict[str, str]:
        """Each label with its mark, * for methods that were completed by us."""
        pairs = ((label, done) for s in self.summaries.values() for label, done in s.table["completed"].items())
        return {str(label): f"{label}{'*' if done else ''}" for label, done in pairs}

    @cached_property
    def whole(self) -> list[str]:
        """Labels that were run on every setting."""
        return [label for label in self.methods if all(label in s.table.index for s in self.summaries.values())]

    def figure(self, column: str) -> Any:
        """One column of all summaries, methods by settings, NaN where a method was not run."""
        import pandas as pd

        found = pd.DataFrame({shown: summary.table[column] for shown, summary in self.summaries.items()})
        return found.reindex(list(self.methods))

    def difference(self, label: str, other: str, against: Across | None = None) -> Apart:
        """Mean over settings of the difference of two methods, the other maybe under other conditions.

        Over the runs that both have; NaN unless both were run on all settings.
        """
        rival = against or self
        if (label, other, rival) in self._known:
            return self._known[label, other, rival]
        if label not in self.whole or other not in rival.whole or set(rival.summaries) != set(self.summaries):
            return Apart(*[float("nan")] * 3)
        parts = [summary.apart(label, other, rival.summaries[shown]) for shown, summary in self.summaries.items()]
        people = [
            [f"{self.corpora[shown]}/{person}" for person in part.index]
            for shown, part in zip(self.summaries, parts, strict=True)
        ]
        values = [part.to_numpy() for part in parts]
        found = Apart(float(np.mean([own.mean() for own in values])), *stats.shared_interval(values, people))
        self._known[label, other, rival] = found
        return found

    def gain(self, label: str) -> Apart:
        """Mean over settings of the difference to source-only."""
        return self.difference(label, self.baselines[0])

    @property
    def mean_gains(self) -> dict[str, Apart]:
        """Mean gain of each method that was run on every setting, by its marked label."""
        return {self.starred[label]: self.gain(label) for label in self.whole if label not in self.baselines}

    def each(self, label: str, other: str | None = None) -> dict[str, Apart]:
        """Difference of a method to another, or to source-only, on each setting that has both."""
        found = {}
        for shown, summary in self.summaries.items():
            rival = summary.baseline if other is None else other
            if rival is not None and {label, rival} <= set(summary.table.index):
                found[shown] = summary.difference(label, rival)
        return found

    def harmed(self, label: str) -> float:
        """Share of all runs, over settings, that lose more than the margin to source-only."""
        runs, harmed = (self.figure(column).loc[label].sum() for column in ("runs", "harmed"))
        return float(harmed / runs) if runs else float("nan")

    @cached_property
    def best_in(self) -> Any:
        """Number of settings in which each method gains most on its own runs; source-only is best if nobody does."""
        found = self.figure("delta")
        found.loc[list(self.baselines)] = 0.0
        return found.eq(found.max(axis=0), axis=1).sum(axis=1)

    @property
    def alone(self) -> bool:
        """Whether there is but one setting, so that nothing is a mean over several."""
        return len(self.summaries) == 1


def over(rows: Any, shown: Mapping[str, str], metric: str | None = None) -> Across:
    """Summarise rows of one experiment on each of some settings.

    Parameters
    ----------
    rows
        Of one network and order.
    shown
        Settings, and how tables call them; those without rows are left out.
    metric
        As in `summarise`.
    """
    groups = {setting: own for setting, own in rows.groupby("setting", sort=False) if setting in shown}
    present = [setting for setting in shown if setting in groups]
    return Across(
        summaries={shown[setting]: summarise(groups[setting], metric) for setting in present},
        corpora={shown[setting]: str(groups[setting]["dataset"].iloc[0]) for setting in present},
    )
