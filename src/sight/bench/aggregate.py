"""From rows to the numbers of a table: means, spread over seeds, intervals over people, the paper's beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from sight.bench import paper_figures, stats
from sight.bench.stats import Apart
from sight.types import Array

BASELINE = "none"
#: The reading of macro-F1 that comparisons rest on: over classes in truth or answers, as most code computes it.
METRIC = "macro_f1_union"
READINGS = ("macro_f1_union", "macro_f1_truth", "macro_f1_all")
#: What is compared where there is no macro-F1: in a stream of one class every wrong answer would add a class of zero.
METRIC_OF_KIND = {"classes": "accuracy"}
#: Points that a run may lose to source-only before it counts as harmed.
HARM = 3.0
#: Networks and orders as the paper's tables call them.
CASES = {
    **{"cnn": "1D-CNN", "resnet": "1D-ResNet", "transformer": "Transformer"},
    **{"chronological": "chronological", "blocks": "block32", "shuffled": "shuffled"},
}


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodSummary:
    """Methods of one experiment on one setting, side by side.

    Parameters
    ----------
    table
        One line a method, in the order of the plan, index its label. Scores in points of 100; ``delta`` and what
        follows it against source-only, on the same runs (source, target, seed), averaged by target; ``harmed`` of
        ``runs`` lose more than `HARM` points to it. ``mean`` is over runs, ``person_mean`` over people, as
        differences are; ``seeds`` says how many a method was run with, ``gain_*`` the difference in each reading.
    runs
        Runs by methods, in points, NaN where a method was not run; index sources, target, seed.
    people, seeds
        How many targets and seeds there are.
    stride_s
        Seconds between two windows.
    """

    table: Any
    runs: Any
    people: int
    seeds: int
    stride_s: float = 1.0

    @property
    def baseline(self) -> str | None:
        """Label of source-only, if it was run."""
        found = self.table.index[self.table["method"] == BASELINE]
        return str(found[0]) if len(found) else None

    def difference(self, label: str, other: str, rival: MethodSummary | None = None) -> Apart:
        """Mean difference of two methods over people, and its interval; the other maybe of a rival."""
        apart = self.apart(label, other, rival).to_numpy()
        return Apart(float(apart.mean()) if len(apart) else float("nan"), *stats.bootstrap_interval(apart))

    def apart(self, label: str, other: str, rival: MethodSummary | None = None) -> Any:
        """Difference of two methods for each target over the runs that both have, the other maybe of a rival."""
        runs = (rival or self).runs[other].reindex(self.runs.index)
        # The last bits of a difference are noise, and must not decide how it is printed.
        return (self.runs[label] - runs).dropna().groupby("target", sort=False).mean().round(9)


def grids(table: Any) -> dict[str, dict[float, str]]:
    """Return the labels of a grid such as "tau=0.05", by field and value.

    Examples
    --------
    >>> import pandas as pd
    >>> grids(pd.DataFrame(index=["SIGHT", "tau=0.05", "tau=0.1", "surprise = feature distance"]))
    {'tau': {0.05: 'tau=0.05', 0.1: 'tau=0.1'}}
    """
    found: dict[str, dict[float, str]] = {}
    for label in table.index:
        match = re.fullmatch(r"(\w+)=([-+.e\d]+)", str(label))
        if match:
            found.setdefault(match[1], {})[float(match[2])] = str(label)
    return found


def summarise(rows: Any, metric: str | None = None) -> MethodSummary:
    """Summarise rows of one experiment, setting, network and order; the metric is that of their kind unless told."""
    rows = rows.assign(points=100 * rows[metric or METRIC_OF_KIND.get(rows["kind"].iloc[0], METRIC)])
    order = rows.sort_values("place", kind="stable").drop_duplicates("label")
    labels = order["label"].tolist()
    runs = _runs(rows, "points").reindex(columns=labels)
    by_target = runs.groupby("target", sort=False).mean()
    table = order.set_index("label")[["method", "completed", "needs", "params"]].copy()
    table["trials"] = rows.groupby("label").size()
    table["seeds"] = rows.groupby("label")["seed"].nunique()
    table["mean"], table["sd"] = _over_seeds(rows, labels)
    table["person_mean"] = by_target.mean()
    averages = rows.groupby("label")[[name for name in (*READINGS, *FIGURES) if name in rows]].mean()
    for name in averages:
        table[name] = averages[name] * (100 if name in READINGS else 1)
    if "changes" in table:
        table["missed"] = table["changes_missed"] / table["changes"].where(table["changes"] > 0)
    stride_s, seeds = float(rows["stride_s"].iloc[0]), rows["seed"].nunique()
    found = MethodSummary(table=table, runs=runs, people=len(by_target), seeds=seeds, stride_s=stride_s)
    # Methods may lack runs: levels would then compare unlike runs, gains on each one's own runs do not.
    for name in (name for name in READINGS if name in rows):
        gained = _gained(_runs(rows, name).reindex(columns=labels), found.baseline)
        table[name.replace("macro_f1", "gain")] = 100 * gained.mean()
    table["rank"] = stats.average_ranks(_gained(runs, found.baseline).round(9).to_numpy())
    _against_baseline(found)
    _harm(found)
    _beside_paper(found, rows)
    return found


#: Other figures that tables show as means over trials.
FIGURES = (
    *("accuracy", "balanced_accuracy", "kappa", "nll", "ece", "delay_median_s", "changes", "changes_missed"),
    *("time_use_mae_min", "state_bytes", "frames_deletion", "frames_fragmentation", "frames_underfill"),
    *("frames_insertion", "frames_merge", "frames_overfill", "events_deleted", "events_inserted", "events_fragmented"),
    *("events_merged", "events_correct"),
)


def _over_seeds(rows: Any, labels: list[str]) -> tuple[Array, Array]:
    """Mean over pairs, and the standard deviation of that mean over seeds (NaN with one)."""
    seeds = rows.groupby(["label", "seed"])["points"].mean().unstack().loc[labels]
    return rows.groupby("label")["points"].mean().loc[labels].to_numpy(), seeds.std(axis=1, ddof=1).to_numpy()


def _against_baseline(found: MethodSummary) -> None:
    table, base = found.table, found.baseline
    columns = ["delta", "low", "high", "p", "wins", "ties", "losses"]
    lines = np.full((len(table), len(columns)), np.nan)
    for line, label in zip(lines, table.index, strict=True):
        if base is None or label == base:
            continue
        apart = found.apart(label, base).to_numpy()
        if len(apart):
            p = stats.signed_rank(apart) if len(apart) >= stats.FEWEST else np.nan
            line[:] = [apart.mean(), *stats.bootstrap_interval(apart), p, *stats.record(apart)]
    table[columns] = lines
    table["p"] = stats.holm(table["p"].to_numpy(float))


def _runs(rows: Any, column: str) -> Any:
    """One figure, runs (sources, target, seed) by methods."""
    run = ["sources", "target", "seed"]
    again = rows[rows.duplicated([*run, "label"])]
    if len(again):
        named = ", ".join(again["label"].unique())
        raise ValueError(
            f"Expected one row for each method and run, got several of {named}; they differ in code, settings or "
            "version: report them from folders of their own."
        )
    return rows.pivot_table(index=run, columns="label", values=column, sort=False)


def _gained(runs: Any, base: str | None) -> Any:
    """Targets by methods: mean difference to source-only over the runs of each; the level itself without one."""
    return (runs if base is None else runs.sub(runs[base], axis=0)).groupby("target", sort=False).mean()


def _harm(found: MethodSummary) -> None:
    """Count runs, a source model on a person, that lose more than `HARM` points to source-only."""
    runs, base = found.runs, found.baseline
    apart = runs.sub(runs[base], axis=0) if base is not None else runs * np.nan
    found.table["runs"], found.table["harmed"] = apart.notna().sum(), (apart < -HARM).sum()


def _beside_paper(found: MethodSummary, rows: Any) -> None:
    """Add the paper's mean over the same pairs, or the average of its table where it prints no pairs."""
    first = rows.iloc[0]
    cases = rows["paper_case"].unique().tolist()
    dataset, printed = first["paper_dataset"], first["paper_table"]
    case = CASES.get(first["encoder"] if printed == "backbone" else first["order"], "average")
    case = case if printed in ("backbone", "order") else "average"
    values = []
    for label in found.table.index:
        value = (
            paper_figures.mean_over(dataset, cases, label)
            if printed in ("", *paper_figures.BY_PAIR) and dataset
            else None
        )
        values.append(paper_figures.average(printed, dataset, case, label) if value is None and printed else value)
    found.table["paper"] = np.array([np.nan if value is None else value for value in values], dtype=float)
    base = found.baseline
    found.table["paper_delta"] = found.table["paper"] - (np.nan if base is None else found.table.at[base, "paper"])


def by_pair(rows: Any) -> Any:
    """Mean and standard deviation over seeds for each method (rows) and pair of people (columns), in points.

    Returns
    -------
    DataFrame
        Index label, columns (pair, "mean" | "sd" | "paper").
    """
    import pandas as pd

    rows = rows.assign(points=100 * rows[METRIC], pair=rows["sources"] + "→" + rows["target"])
    labels = rows.sort_values("place", kind="stable")["label"].drop_duplicates().tolist()
    pairs = rows["pair"].drop_duplicates().tolist()
    grouped = rows.groupby(["label", "pair"])["points"]
    parts = {"mean": grouped.mean().unstack(), "sd": grouped.std(ddof=1).unstack()}
    case = rows.drop_duplicates("pair").set_index("pair")[["paper_dataset", "paper_case"]]
    printed = {
        pair: {
            label: paper_figures.of_pair(case.at[pair, "paper_dataset"], case.at[pair, "paper_case"], label)
            for label in labels
        }
        for pair in pairs
    }
    parts["paper"] = pd.DataFrame(
        {
            pair: {label: figure.value if figure else np.nan for label, figure in own.items()}
            for pair, own in printed.items()
        }
    )
    marks = rows.groupby("label")["completed"].first()
    found = pd.concat({name: part.loc[labels, pairs] for name, part in parts.items()}, axis=1).swaplevel(axis=1)
    return found.rename(index=lambda label: f"{label}{'*' if marks[label] else ''}")
