"""What the chapters of the findings look at: rows by experiment, summed up over settings, and words for intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sight.bench import paper_figures, stats
from sight.bench.aggregate import MethodSummary
from sight.bench.coverage import listed
from sight.bench.multi_setting import Across, over
from sight.bench.result_rows import details
from sight.bench.settings import short, suite
from sight.bench.stats import Apart
from sight.bench.table_format import number, several

#: The paper of SIGHT.
PAPER = "Temporal Structure Matters for Efficient Test-Time Adaptation in Wearable Human Activity Recognition"
BASE, OURS, AUTHORS, KEEL, STICKY, EMA = "Source-only", "SIGHT", "SIGHT, authors' code", "Keel", "Sticky", "EMA"
#: Where the reports of the settings lie, seen from the page.
REPORTS = "../benchmarks/results"
#: The corpora of the paper's smaller tables.
PRINTED = {"harth": "HARTH", "capture24": "CAPTURE-24"}
#: What an interval of gains says of a claim of a gain.
CLAIM = {"better": "holds", "worse": "does not hold", "open": "is not shown", "unknown": "cannot be judged"}
#: What is said of any claim where there is no interval.
FEW = "cannot be judged here with so few people"
#: What an AUC must reach to count as the paper's strong separation.
STRONG = 0.9


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """All results at hand.

    Parameters
    ----------
    rows
        As `sight.bench.result_rows.read` gives them.
    speed
        What ``sight bench speed`` wrote, if it did.
    """

    rows: Any
    speed: Mapping[str, Any] = field(default_factory=dict)
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def nine(self) -> dict[str, str]:
        """Settings of the suite, and how tables call them."""
        return suite()

    @property
    def judged(self) -> int:
        """Count the settings of the suite with results of the main comparison."""
        return len(set(self.rows.loc[self.rows["experiment"] == "table-main", "setting"]) & set(self.nine))

    @property
    def settings(self) -> dict[str, str]:
        """Settings with results: those outside the suite first."""
        there = self.rows["setting"].unique().tolist()
        others = {name: short(name) for name in sorted(there) if name not in self.nine}
        return others | {name: shown for name, shown in self.nine.items() if name in there}

    def of(self, experiment: str, *, everywhere: bool = False, **where: str) -> Any:
        """Rows of an experiment on the suite, or on every setting where told or where the suite has none."""
        kept = self.rows["experiment"] == experiment
        for column, value in where.items():
            kept &= self.rows[column] == value
        inside = kept & self.rows["setting"].isin(list(self.nine))
        return self.rows[kept if everywhere or not inside.any() else inside]

    def across(
        self,
        experiment: str,
        *,
        everywhere: bool = False,
        metric: str | None = None,
        only: Sequence[str] | None = None,
        **where: str,
    ) -> Across:
        """Sum an experiment up over the suite, or over every setting; only some methods where told."""
        key = (experiment, everywhere, metric, tuple(only or ()), tuple(sorted(where.items())))
        if key not in self._kept:
            rows = self.of(experiment, everywhere=everywhere, **where)
            rows = rows if only is None else rows[rows["label"].isin(only)]
            self._kept[key] = over(rows, self.settings, metric)
        found: Across = self._kept[key]
        return found

    def scope(self, experiment: str, *labels: str, **where: str) -> str:
        """Say in brackets on how many settings and seeds an experiment rests; nothing where on all.

        Parameters
        ----------
        experiment, where
            As in `of`.
        labels
            Methods that are spoken of; those with the fewest seeds count.
        """
        rows = self.of(experiment, everywhere=False, **where)
        rows = rows[rows["label"].isin(labels)] if labels else rows
        if not len(rows):
            return ""
        seeds = rows.groupby(["setting", "label"])["seed"].nunique().groupby("setting").min()
        least, most = int(seeds.min()), int(seeds.max())
        inside = len(set(seeds.index) & set(self.nine))
        if inside == len(self.nine) and least == self.rows["seed"].nunique():
            return ""
        place = f"{inside} of {len(self.nine)} settings" if inside else listed(map(short, seeds.index))
        return f" ({place}, {several(most, 'seed') if least == most else f'{least} to {most} seeds'})"

    def by_person(self, rows: Any, values: Any) -> dict[str, Apart]:
        """Mean and interval over target people of one number a row, on each setting."""
        found = {}
        for setting, shown in self.settings.items():
            here = rows["setting"] == setting
            own = values[here].groupby(rows.loc[here, "target"]).mean().dropna().to_numpy()
            if len(own):
                found[shown] = Apart(float(own.mean()), *stats.bootstrap_interval(own))
        return found


# --- words ---------------------------------------------------------------------------------------------------------


def on(found: Mapping[str, Apart], verdict: str) -> str:
    """Name the settings with a verdict.

    Examples
    --------
    >>> on({"a": Apart(1, 0.5, 2), "b": Apart(0, -1, 1)}, "better"), on({"a": Apart(0, -1, 1)}, "better")
    ('a', 'no setting')
    """
    own = [shown for shown, apart in found.items() if apart.verdict == verdict]
    return f"all {len(own)} settings" if len(own) == len(found) > 2 else listed(own) if own else "no setting"


def of_average(found: Across) -> str:
    """Say that a figure is a mean over settings, where there are several."""
    return "" if found.alone else " on average"


def outcome(found: Mapping[str, Apart], gains: str = "gains", loses: str = "loses", open_: str = "is level") -> str:
    """Say where a method gains, loses, or shows neither.

    Examples
    --------
    >>> outcome({"a": Apart(1, 0.5, 2), "b": Apart(0, -1, 1), "c": Apart(3, 2, 4)})
    'gains on a and c and is level on b'
    """
    verbs = {"better": gains, "worse": loses, "open": open_, "unknown": "cannot be judged"}
    said = [
        f"{verb} on {on(found, verdict)}"
        for verdict, verb in verbs.items()
        if any(apart.verdict == verdict for apart in found.values())
    ]
    return listed(said)


def counted(found: Mapping[str, Apart]) -> str:
    """Count verdicts over settings.

    Examples
    --------
    >>> counted({"a": Apart(1, 0.5, 2), "b": Apart(0, -1, 1), "c": Apart(3, 2, 4)})
    'better on 2 of 3, level on 1'
    """
    words = {"better": "better", "worse": "worse", "open": "level", "unknown": "open, with few people,"}
    verdicts = [words[apart.verdict] for apart in found.values()]
    kinds = [kind for kind in words.values() if kind in verdicts]
    if len(kinds) == 1:
        return f"{kinds[0]} on all {len(verdicts)}" if len(verdicts) > 1 else kinds[0]
    first, *rest = kinds
    said = [f"{first} on {verdicts.count(first)} of {len(verdicts)}"]
    return ", ".join([*said, *(f"{kind} on {verdicts.count(kind)}" for kind in rest)])


def lead(first: MethodSummary, others: Iterable[MethodSummary], label: str = OURS) -> str:
    """Say of a method whether it is better under one condition than under each of the others, as `Apart` does."""
    found = [first.difference(label, label, other).verdict for other in others]
    return next((verdict for verdict in ("worse", "unknown", "open") if verdict in found), "better")


def printed(table: str, method: str, case: str = "average", *, less: str = BASE, less_case: str = "") -> str:
    """Write what the paper prints as a difference on its own corpora; nothing where it prints none."""
    said = []
    for dataset, called in PRINTED.items():
        one = paper_figures.average(table, dataset, case, method)
        two = paper_figures.average(table, dataset, less_case or case, less)
        if one is not None and two is not None:
            said.append(f"{number(one - two, sign=True)} on {called}")
    return listed(said) if said else ""


def persistence(rows: Any, name: str) -> float:
    """Probability that a window repeats the one before, averaged over classes, from the counts of that name."""
    counts = np.sum(details(rows, name), axis=0)
    seen = counts.sum(axis=1) > 0
    return float((np.diag(counts)[seen] / counts.sum(axis=1)[seen]).mean())


def share(part: float, whole: float) -> float:
    """Percentage, NaN of nothing."""
    return 100 * part / whole if whole else float("nan")


def mean(values: Iterable[float]) -> float:
    """Mean of what is known, NaN of nothing."""
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")
