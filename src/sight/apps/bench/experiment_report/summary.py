"""Aggregation of result rows: means, spread over seeds, intervals, and the paper's values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sight.apps.bench import paper_values
from sight.apps.bench.experiment_report.table_format import Cell
from sight.apps.bench.experiments import grid_label, method_label
from sight.results import paired_tests, score_statistics as stats
from sight.results.score_statistics import Difference
from sight.types import Array

#: Method whose row is highlighted, where it carries its own label and not that of a variant.
HIGHLIGHTED = "sight"
#: Registry name of the method that returns the source model's predictions unchanged.
SOURCE_ONLY = "none"
#: Variant of macro-F1 that comparisons use: the mean over classes in truth or predictions.
METRIC = "macro_f1_union"
MACRO_F1 = ("macro_f1_union", "macro_f1_truth", "macro_f1_all")
#: Other metrics by kind of experiment; in a stream of one class each wrong class would add a zero to macro-F1.
METRIC_OF_KIND = {"classes": "accuracy"}
#: Points that a run may lose to source-only before it counts as harmed.
HARM = 3.0
#: Other scores that tables show as means over trials.
SCORES = (
    *("accuracy", "balanced_accuracy", "kappa", "nll", "ece", "delay_median_s", "changes", "changes_missed"),
    *("time_use_mae_min", "state_bytes", "frames_deletion", "frames_fragmentation", "frames_underfill"),
    *("frames_insertion", "frames_merge", "frames_overfill", "events_deleted", "events_inserted", "events_fragmented"),
    *("events_merged", "events_correct"),
)
RUN = ["sources", "target", "seed"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodSummary:
    """Methods of one experiment on one setting.

    `table` has one row per method, in the order of the plan, indexed by label; scores are in points of 100. ``mean`` is
    over runs, ``subject_mean`` over subjects. ``delta`` and the columns after it are differences to source-only on the
    same runs (source, target, seed), averaged by target; ``harmed`` of ``runs`` lose more than `HARM` points to it.
    ``gain_*`` is the difference for each variant of macro-F1. `runs` has the score of each run (rows: sources, target,
    seed) and method (columns) in points; NaN where a method was not run.
    """

    table: Any
    runs: Any
    subjects: int  # number of targets
    seeds: int  # number of seeds

    @property
    def source_only(self) -> str | None:
        found = self.table.index[self.table["method"] == SOURCE_ONLY]
        return str(found[0]) if len(found) else None

    @cached_property
    def cells(self) -> dict[str, Cell]:
        return method_cells(self.table.reset_index())

    def difference(self, label: str, other: str, other_summary: MethodSummary | None = None) -> Difference:
        return stats.mean_difference(self.model_differences(label, other, other_summary).to_numpy())

    def subject_differences(self, label: str, other: str, other_summary: MethodSummary | None = None) -> Any:
        """Return the difference of two methods for each target, over the runs that both have."""
        return self.model_differences(label, other, other_summary).mean(axis=1).round(9)

    def model_differences(self, label: str, other: str, other_summary: MethodSummary | None = None) -> Any:
        """Return the difference of two methods for each target (rows) and source model (columns: sources, seed)."""
        runs = (other_summary or self).runs[other].reindex(self.runs.index)
        return by_model(self.runs[label] - runs)


def by_model(values: Any) -> Any:
    """Return one value per run as targets by source models (sources, seed); NaN where a pair was not run."""
    # Rounding removes floating-point noise, which must not decide how a difference is printed.
    return values.dropna().unstack(["sources", "seed"], sort=False).round(9)


def method_cells(rows: Any) -> dict[str, Cell]:
    """Return the first cell of each method's row by label, in their order; * marks methods completed by us."""
    methods = rows.drop_duplicates("label")[["label", "method", "completed"]]
    return {
        str(label): Cell(
            f"{label}{'*' if completed else ''}", highlighted=method == HIGHLIGHTED and label == method_label(method)
        )
        for label, method, completed in methods.itertuples(index=False)
    }


def grids(params: Mapping[str, str]) -> dict[str, dict[float, str]]:
    """Return the labels of a grid by field and value, given the parameters of each label as JSON."""
    found: dict[str, dict[float, str]] = {}
    for label, text in params.items():
        for name, value in json.loads(text).items():
            if isinstance(value, int | float) and label == grid_label(name, value):
                found.setdefault(name, {})[value] = label
    return found


def summarise(rows: Any, metric: str | None = None) -> MethodSummary:
    """Summarise rows of one experiment, setting, network and order; the default metric depends on their kind."""
    rows = rows.assign(points=100 * rows[metric or METRIC_OF_KIND.get(rows["kind"].iloc[0], METRIC)])
    variants = [name for name in MACRO_F1 if name in rows and rows[name].notna().any()]
    order = rows.sort_values("position", kind="stable").drop_duplicates("label")
    labels = order["label"].tolist()
    values = by_run(rows, ["points", *variants], labels)
    runs = values["points"]
    table = order.set_index("label")[["method", "completed", "needs", "params"]].copy()
    by_label = rows.groupby("label")
    table["trials"] = by_label.size()
    table["seeds"] = by_label["seed"].nunique()
    table["mean"], table["sd"] = _over_seeds(rows, labels)
    table["subject_mean"] = runs.groupby("target", sort=False).mean().mean()
    averages = by_label[[name for name in (*MACRO_F1, *SCORES) if name in rows]].mean()
    for name in averages:
        table[name] = averages[name] * (100 if name in MACRO_F1 else 1)
    if "changes" in table:
        table["missed"] = table["changes_missed"] / table["changes"].where(table["changes"] > 0)
        table["delay"] = table["delay_median_s"] / float(rows["stride_s"].iloc[0])
    summary = MethodSummary(table=table, runs=runs, subjects=rows["target"].nunique(), seeds=rows["seed"].nunique())
    # Methods may lack runs. Differences are therefore taken on the runs of each method, not between means.
    for name in variants:
        table[name.replace("macro_f1", "gain")] = 100 * _target_gains(values[name], summary.source_only).mean()
    gains = _target_gains(runs, summary.source_only).round(9)
    table["rank"] = stats.average_ranks(gains.to_numpy())
    _add_differences(summary)
    _add_harm(summary)
    _add_paper(summary, rows)
    return summary


def _over_seeds(rows: Any, labels: list[str]) -> tuple[Array, Array]:
    """Return the mean over runs, and the standard deviation of that mean over seeds (NaN for one seed)."""
    seeds = rows.groupby(["label", "seed"])["points"].mean().unstack().loc[labels]
    return rows.groupby("label")["points"].mean().loc[labels].to_numpy(), seeds.std(axis=1, ddof=1).to_numpy()


def _add_differences(summary: MethodSummary) -> None:
    table, base = summary.table, summary.source_only
    columns = ["delta", "low", "high", "p", "wins", "ties", "losses"]
    values = np.full((len(table), len(columns)), np.nan)
    for row, label in zip(values, table.index, strict=True):
        if base is None or label == base:
            continue
        differences = summary.subject_differences(label, base).to_numpy()
        if len(differences):
            p = paired_tests.signed_rank(differences) if len(differences) >= stats.MIN_SUBJECTS else np.nan
            row[:] = [*summary.difference(label, base), p, *stats.record(differences)]
    table[columns] = values
    table["p"] = paired_tests.holm(table["p"].to_numpy(float))


def by_run(rows: Any, columns: list[str], labels: list[str], run: Sequence[str] = RUN) -> dict[str, Any]:
    """Return each score as runs (sources, target, seed, or other columns) by methods; NaN where one was not run."""
    repeated = rows[rows.duplicated([*run, "label"])]
    if len(repeated):
        raise ValueError(
            f"Expected one row for each method and run, found several of {', '.join(repeated['label'].unique())} "
            "with different code, parameters or versions; report them from separate folders."
        )
    wide = rows.pivot_table(index=list(run), columns="label", values=columns, sort=False)
    return {name: wide[name].reindex(columns=labels) for name in columns}


def _target_gains(runs: Any, base: str | None) -> Any:
    """Return the mean difference to source-only by target and method; the score itself without source-only."""
    return (runs if base is None else runs.sub(runs[base], axis=0)).groupby("target", sort=False).mean()


def _add_harm(summary: MethodSummary) -> None:
    runs, base = summary.runs, summary.source_only
    differences = runs.sub(runs[base], axis=0) if base is not None else runs * np.nan
    summary.table["runs"], summary.table["harmed"] = differences.notna().sum(), (differences.round(9) < -HARM).sum()


def _add_paper(summary: MethodSummary, rows: Any) -> None:
    """Add the paper's mean over the same pairs, or the average of its table if it prints no pairs."""
    table, first = summary.table, rows.iloc[0]
    pairs, dataset, printed = rows["paper_pair"].unique().tolist(), first["paper_dataset"], first["paper_table"]
    varied = {"backbone": first["encoder"], "order": first["order"]}.get(printed, "")
    condition = paper_values.CONDITIONS.get(varied, "average")
    values = []
    for label in table.index:
        by_pair = printed in ("", *paper_values.BY_PAIR) and dataset
        value = paper_values.mean_over(dataset, pairs, label) if by_pair else None
        if value is None and printed:
            value = paper_values.values().get((printed, dataset, condition, label))
        values.append(np.nan if value is None else value)
    table["paper"] = np.array(values, dtype=float)
    base = summary.source_only
    table["paper_delta"] = table["paper"] - (np.nan if base is None else table.at[base, "paper"])


def by_pair(rows: Any) -> Any:
    """Return mean and standard deviation over seeds for each method and pair of subjects, in points.

    The index is the label, columns are (pair, "mean" | "sd" | "paper").
    """
    import pandas as pd

    rows = rows.assign(points=100 * rows[METRIC], pair=rows["sources"] + "→" + rows["target"])
    labels = rows.sort_values("position", kind="stable")["label"].drop_duplicates().tolist()
    grouped = rows.groupby(["label", "pair"])["points"]
    parts = {"mean": grouped.mean().unstack(), "sd": grouped.std(ddof=1).unstack()}
    printed = {}
    columns = ["pair", "paper_dataset", "paper_pair"]
    for pair, dataset, paper_pair in rows.drop_duplicates("pair")[columns].itertuples(index=False):
        values = {label: paper_values.of_pair(dataset, paper_pair, label) for label in labels}
        printed[pair] = {label: np.nan if value is None else value for label, value in values.items()}
    parts["paper"] = pd.DataFrame(printed)
    return pd.concat({name: part.loc[labels, list(printed)] for name, part in parts.items()}, axis=1).swaplevel(axis=1)
