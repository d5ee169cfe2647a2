"""Tables of streams of days: gains over source-only, and how much single runs lose to it.

A run is one source model, target subject, seed and stream. One setting and several settings have the same tables.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sight.apps.bench import simulated_days
from sight.apps.bench.experiment_report import figures
from sight.apps.bench.experiment_report.page import Section
from sight.apps.bench.experiment_report.setting_tables import COMPLETED, FEW
from sight.apps.bench.experiment_report.summary import HARM, METRIC, RUN, SOURCE_ONLY, by_run, method_cells
from sight.apps.bench.experiment_report.table_format import Cell, Table, mark_best, number
from sight.apps.bench.settings import settings, short_name
from sight.results.score_statistics import MIN_SUBJECTS, Difference

#: Kinds of streams, with their names in tables.
KIND_NAMES = {
    "chronological": "natural day",
    **{name: f"{100 * share:.0f} % one class" for name, share in simulated_days.DOMINATED.items()},
    "time-use": "time use",
    "partial": "few classes",
    "week": "week",
}
ALL = "all streams"
Methods: TypeAlias = Mapping[str, Cell]
#: Share of runs below the value that is printed as the worst 1 %.
WORST = 0.01
GAINS_NOTE = (
    "Difference of {score} to source-only in {unit}, on the same runs; mean over runs, then over settings. A run is "
    f"one source model, target subject, seed and stream. {COMPLETED} {FEW}"
)
RISK_NOTE = (
    f"Share of runs that lose more than {HARM:g} points of accuracy to source-only, in percent, mean over settings; in "
    f"brackets, over the runs of all settings, the worst 1 % (quantile {WORST:g} of the differences) and the worst "
    f"run, in points. {COMPLETED} {FEW}"
)
SCORES_NOTE = (
    "Accuracy and macro-F1 in points, time use as mean error per class in minutes per day: mean over all runs, then "
    "over settings. Δ: difference to source-only on the same runs. Runs: number of runs with the method. "
    f"{COMPLETED} {FEW}"
)


class Score(NamedTuple):
    """A score in the tables: its column and name, its unit, the factor to print, and whether higher is better."""

    column: str
    name: str
    unit: str
    factor: float
    higher: bool


SCORES = {
    "Accuracy": Score("accuracy", "accuracy", "points", 100, True),
    "Macro-F1": Score(METRIC, "macro-F1", "points", 100, True),
    "Time use (min/day)": Score("time_use_mae_min", "time-use error", "minutes per class and day", 1, False),
}


def overview(rows: Any) -> Table:
    """Return one table of gains and losses: all streams of days, mean over runs, then over settings."""
    runs, base = _runs(rows), rows.loc[rows["method"] == SOURCE_ONLY, "label"].iloc[0]
    gains = {head: own.sub(own[base], axis=0).drop(columns=base) for head, own in runs.items()}
    methods, accuracy = method_cells(rows), gains["Accuracy"]
    columns = {"Method": [methods[label] for label in accuracy]}
    for head, own in gains.items():
        columns[head] = _cells(_mean(own), _full(own), higher=SCORES[head].higher, sign=True)
    columns["Harmed (%)"] = _cells(_harmed(accuracy), _full(accuracy), higher=False)
    everywhere = _mean(accuracy).notna()  # losses over the runs of some settings only are not comparable
    losses = {"Worst 1 %": accuracy.quantile(WORST), "Worst": accuracy.min()}
    for head, found in losses.items():
        columns[head] = [Cell(number(value, sign=True)) for value in found.where(everywhere)]
    return Table.of_columns("days", "Days", columns)


def has_days(rows: Any) -> bool:
    return bool(rows["order"].map(_kind).isin(simulated_days.ORDERS).any())


def fill(section: Section, rows: Any) -> None:
    """Add the tables and the figure of an experiment with streams of days, on one setting or several."""
    runs, name, title = _runs(rows), section.name, section.title
    base = rows.loc[rows["method"] == SOURCE_ONLY, "label"].iloc[:1].tolist()
    gains = {head: own.sub(own[base[0]], axis=0).drop(columns=base) for head, own in runs.items()} if base else {}
    methods = method_cells(rows.sort_values("position", kind="stable"))
    section.tables.append(_levels(methods, runs, gains, name, title))
    if not base:
        return
    for head, own in gains.items():
        score = SCORES[head]
        section.tables.append(_gains(methods, _by_kind(own), f"{name}_{score.column}", f"{title}: {score.name}", head))
    accuracy = gains["Accuracy"]
    section.tables.append(_risks(methods, _by_kind(accuracy), f"{name}_harm", f"{title}: harmed and worst runs"))
    if rows["setting"].nunique() > 1:
        found = dict(list(accuracy.groupby("setting")))
        parts = {short_name(setting): found[setting] for setting in settings() if setting in found} | {ALL: accuracy}
        section.tables += [
            _gains(methods, parts, f"{name}_settings", f"{title}: accuracy by setting", "Accuracy"),
            _risks(methods, parts, f"{name}_settings_harm", f"{title}: harmed and worst runs by setting"),
        ]
    else:
        parts = {order: own for order, own in accuracy.groupby("order") if _kind(order) in simulated_days.DOMINATED}
        dominated = f"{title}: accuracy by dominating class"
        section.tables.append(_gains(methods, parts | {ALL: accuracy}, f"{name}_dominating", dominated, "Accuracy"))
    means = _mean(accuracy).dropna()
    if len(means):
        drawn = {methods[label].text: Difference(value, np.nan, np.nan) for label, value in means.items()}
        section.figures[name] = figures.forest(drawn, "Mean gain over source-only, points of accuracy")


def _kind(order: str) -> str:
    return order.partition(" ")[0]


def _runs(rows: Any) -> dict[str, Any]:
    """Return each score as runs (setting, encoder, order, sources, target, seed) by methods."""
    labels = rows.sort_values("position", kind="stable")["label"].drop_duplicates().tolist()
    columns = [score.column for score in SCORES.values()]
    wide = by_run(rows, columns, labels, run=["setting", "encoder", "order", *RUN])
    return {head: score.factor * wide[score.column] for head, score in SCORES.items()}


def _by_kind(runs: Any) -> dict[str, Any]:
    kinds = runs.index.get_level_values("order").map(_kind)
    found = {text: runs[kinds == kind] for kind, text in KIND_NAMES.items() if (kinds == kind).any()}
    return found | {ALL: runs}


def _mean(runs: Any) -> Any:
    """Return the mean over runs, then over settings; NaN for a method that was not run on one of them."""
    return runs.groupby("setting").mean().mean(skipna=False)


def _full(runs: Any) -> Any:
    """Return which methods have every run, as means over fewer are not comparable; none with too few subjects."""
    subjects = runs.index.to_frame(index=False).groupby("setting")["target"].nunique().min()
    return runs.notna().all() & bool(subjects >= MIN_SUBJECTS)


def _levels(methods: Methods, runs: Mapping[str, Any], gains: Mapping[str, Any], name: str, title: str) -> Table:
    labels = next(iter(runs.values())).columns
    columns = {"Method": [methods[label] for label in labels]}
    for head, own in runs.items():
        columns[head] = _cells(_mean(own), _full(own), higher=SCORES[head].higher)
        if gains:
            columns[f"Δ {head}"] = [Cell(number(v, sign=True)) for v in _mean(gains[head]).reindex(labels)]
    columns["Runs"] = [Cell(f"{count:,}") for count in next(iter(runs.values())).notna().sum()]
    return Table.of_columns(name, title, columns, SCORES_NOTE)


def _gains(methods: Methods, parts: Mapping[str, Any], name: str, title: str, head: str) -> Table:
    columns = {"Method": [methods[label] for label in parts[ALL].columns]}
    for part, own in parts.items():
        columns[part] = _cells(_mean(own), _full(own), higher=SCORES[head].higher, sign=True)
    return Table.of_columns(name, title, columns, GAINS_NOTE.format(score=SCORES[head].name, unit=SCORES[head].unit))


def _risks(methods: Methods, parts: Mapping[str, Any], name: str, title: str) -> Table:
    """Methods that were not run on all settings have no values, as their runs are not comparable."""
    columns = {"Method": [methods[label] for label in parts[ALL].columns]}
    for part, found in parts.items():
        own = found.loc[:, found.groupby("setting").count().all()].reindex(columns=found.columns)
        worst = zip(own.quantile(WORST), own.min(), strict=True)
        cells = _cells(_harmed(own), _full(own), higher=False)
        columns[part] = [cell._replace(below=_losses(*pair)) for cell, pair in zip(cells, worst, strict=True)]
    return Table.of_columns(name, title, columns, RISK_NOTE)


def _harmed(gains: Any) -> Any:
    """Return the percentage of runs that lose more than the margin, mean over settings."""
    # Rounding removes floating-point noise, which must not decide whether a run is harmed.
    return 100 * _mean((gains.round(9) < -HARM).where(gains.notna()).astype(float))


def _losses(worst_share: float, worst: float) -> str:
    return f"({number(worst_share, sign=True)}, {number(worst, sign=True)})" if np.isfinite(worst) else ""


def _cells(values: Any, full: Any, *, higher: bool, sign: bool = False) -> list[Cell]:
    ranked = (values if higher else -values).where(full)
    return mark_best([number(value, sign=sign) for value in values], ranked)
