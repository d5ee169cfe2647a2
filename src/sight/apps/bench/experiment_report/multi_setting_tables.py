"""Tables over several settings: the leaderboard, and every comparison on a group of settings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sight.apps.bench.experiment_report import day_tables, figures
from sight.apps.bench.experiment_report.multi_setting_summary import MultiSettingSummary, summarise_settings
from sight.apps.bench.experiment_report.page import Section
from sight.apps.bench.experiment_report.setting_tables import (
    COMPLETED,
    FEW,
    INTERVALS,
    LEVEL_COLUMNS,
    ScoreColumn,
    score_cells,
    without_ranking,
)
from sight.apps.bench.experiment_report.summary import HARM, METRIC_OF_KIND
from sight.apps.bench.experiment_report.table_format import DASH, Cell, Table, interval, mark_best, number
from sight.apps.bench.settings import MAIN_GROUP, setting_group
from sight.results.score_statistics import MIN_SUBJECTS, Difference

GAINS_NOTE = (
    "Difference of {metric} to source-only (raw predictions) in points, on the same runs, averaged by target subject, "
    f"{INTERVALS}; in the mean, a subject drawn counts in every setting that includes them. Mean by dataset: mean over "
    "datasets of the mean over their settings. Better/open/worse: number of settings by Wilcoxon's test over target "
    "subjects at 5 %, with Holm correction over settings. Harmed: share of runs (source, target, seed) that lose more "
    f"than {HARM:g} points, mean over settings. Best in: number of settings with the highest difference. Rank: mean "
    "over subjects, then settings, among the methods run there. Methods run on more settings come first; "
    f"{DASH}: not run. A column of runs is added where methods have different numbers of runs. {COMPLETED} {FEW}"
)
SCORES_NOTE = (
    "Mean over settings, for methods run on all of them. Wrong windows by kind in percent of all windows. Delay: "
    "windows until a change is predicted (median of a stream), of the changes predicted at all. Only methods with all "
    f"runs are marked. {COMPLETED}"
)


def sections(table: Any) -> Iterator[Section]:
    """Return the comparisons over the main group of settings, and a leaderboard if other settings have results."""
    group = setting_group()
    main = summarise_settings(_ranked(table), group)
    if len(main.summaries) > 1:
        title = f"The {MAIN_GROUP} settings" if len(main.summaries) == len(group) else _partial(len(main.summaries))
        section = Section(name=MAIN_GROUP, title=title, tables=[gains(main, MAIN_GROUP, title)])
        accuracy = summarise_settings(_ranked(table), group, "accuracy")
        name = f"{MAIN_GROUP}_accuracy"
        section.tables.append(gains(accuracy, name, f"{title}: accuracy", metric="accuracy"))
        section.tables.append(mean_scores(main, f"{MAIN_GROUP}_scores", f"{title}: other scores"))
        section.figures[MAIN_GROUP] = figures.forest(main.mean_gains, "Mean gain over source-only, points of macro-F1")
        yield section
    others = table[~table["ranked"] & table["kind"].isin(("compare", "classes"))]
    for experiment, own in others.groupby("experiment", sort=False):
        count = own["setting"].drop_duplicates().isin(list(group)).sum()
        title = f"{own['title'].iloc[0]}: {_partial(count)}"
        section = Section(name=f"{MAIN_GROUP}_{experiment}", title=title)
        if day_tables.has_days(own):
            if count > 1:
                day_tables.fill(section, own[own["setting"].isin(list(group))])
        else:
            section.tables += _conditions(own, section)
        if section.tables:
            yield section
    yield from _leaderboard(table, [name for name in group if len(main.summaries) > 1])


def _partial(count: int) -> str:
    total = len(setting_group())
    return f"{'' if count == total else f'{count} of '}the {MAIN_GROUP} settings"


def _leaderboard(table: Any, reported: Sequence[str]) -> Iterator[Section]:
    """Return the leaderboard over all settings, unless all of them are in a section already."""
    ranked = _ranked(table)
    settings = {str(setting): str(setting) for setting in sorted(ranked["setting"].unique())}
    if settings and not set(settings) <= set(reported):
        where = f"all {len(settings)} settings with results" if len(settings) > 1 else next(iter(settings))
        name, title = "leaderboard", f"Leaderboard: {where}"
        yield Section(name=name, title=title, tables=[gains(summarise_settings(ranked, settings), name, title)])


def _conditions(own: Any, section: Section) -> Iterator[Table]:
    """Return one table for each stream order and network that the experiment varies."""
    metric = METRIC_OF_KIND.get(own["kind"].iloc[0])
    # A dataset of feature vectors has its own network; that alone is not a condition.
    varied = [name for name in ("order", "encoder") if own.groupby("setting")[name].nunique().max() > 1]
    for condition, part in own.groupby(varied, sort=False) if varied else [((), own)]:
        summary = summarise_settings(part, setting_group(), metric)
        if len(summary.summaries) > 1:
            name, title = "_".join([section.name, *condition]), ", ".join([section.title, *condition])
            yield gains(summary, name, title, metric=metric or "macro-F1")


def _ranked(table: Any) -> Any:
    keys = ["setting", "label", "params", "sources", "target", "seed", "code"]
    ranked = table[table["ranked"] & (table["kind"] == "compare")]
    return ranked.drop_duplicates(keys)  # a pair may be in two tables of the paper


def gains(summary: MultiSettingSummary, name: str, title: str, *, metric: str = "macro-F1") -> Table:
    """Return the difference to source-only of each method on each setting, its mean, harmed runs and ranks."""
    runs, ranks, several = summary.column("runs"), summary.column("rank"), len(summary.summaries) > 1
    by = summary.gains.agg(["count", "mean"], axis=1)
    order = by.sort_values(["count", "mean"], ascending=False, kind="stable").index
    complete = ranks.notna().all(axis=1)[order]
    columns = {"Method": [summary.cells[label] for label in order]}
    for setting, own in summary.summaries.items():
        t = own.table.reindex(order)
        columns[setting] = _with_intervals([Difference(*own) for own in t[["delta", "low", "high"]].to_numpy()])
    if several:
        columns["Mean"] = _with_intervals([summary.gain(label) for label in order])
        if summary.repeats_datasets:
            columns["Mean by dataset"] = _with_intervals([summary.gain(label, by_dataset=True) for label in order])
        columns["Better/open/worse"] = [Cell(counts(summary.verdicts(label))) for label in order]
    harmed = np.array([100 * summary.harmed(label) for label in order])
    columns["Harmed (%)"] = mark_best([number(v) for v in harmed], np.where(complete, -harmed, np.nan))
    if several:
        columns["Best in"] = [Cell(str(int(summary.best_in[label]))) for label in order]
    mean_ranks = ranks.mean(axis=1)[order]
    columns["Rank"] = mark_best([number(rank) for rank in mean_ranks], -mean_ranks.where(complete))
    if several:
        columns["Settings"] = [Cell(str(int(n))) for n in by["count"][order]]
    if (runs.lt(runs.max()) & runs.notna()).any(axis=None):
        columns["Runs"] = [Cell(str(int(n))) for n in runs.sum(axis=1)[order]]
    if min(own.subjects for own in summary.summaries.values()) < MIN_SUBJECTS:
        columns = without_ranking(columns)
    return Table.of_columns(name, title, columns, GAINS_NOTE.format(metric=metric))


def counts(verdicts: Mapping[str, str]) -> str:
    """Return on how many settings a method is better, open and worse."""
    found = list(verdicts.values())
    return "/".join(str(found.count(verdict)) for verdict in ("better", "open", "worse"))


def _with_intervals(differences: Sequence[Difference]) -> list[Cell]:
    means = [own.mean for own in differences]
    cells = mark_best([number(mean, sign=True) for mean in means], means)
    return [cell._replace(below=interval(*own[1:])) for cell, own in zip(cells, differences, strict=True)]


SCORE_COLUMNS = {
    "Macro-F1": ScoreColumn("subject_mean", higher=True),
    **LEVEL_COLUMNS,
    "Fragmented (%)": ScoreColumn("frames_fragmentation", 100),
    "Deleted (%)": ScoreColumn("frames_deletion", 100),
    "Inserted (%)": ScoreColumn("frames_insertion", 100),
    "Events inserted": ScoreColumn("events_inserted"),
    "Changes missed (%)": ScoreColumn("missed", 100),
    "Delay (windows)": ScoreColumn("delay", digits=2),
    "Calibration error": ScoreColumn("ece", digits=3),
}


def mean_scores(
    summary: MultiSettingSummary,
    name: str,
    title: str,
    *,
    labels: Sequence[str] | None = None,
    heads: Sequence[str] = tuple(SCORE_COLUMNS),
) -> Table:
    """Return scores averaged over settings: all or only some methods, all or some columns of `SCORE_COLUMNS`."""
    order = [label for label in summary.complete if labels is None or label in labels]
    runs = summary.column("runs").loc[order]
    full = runs.eq(runs.max()).all(axis=1)  # means over fewer runs are not comparable
    spec = {head: SCORE_COLUMNS[head] for head in heads}
    means = {own.column: summary.column(own.column).mean(axis=1).loc[order] for own in spec.values()}
    methods = {"Method": [summary.cells[label] for label in order]}
    return Table.of_columns(name, title, methods | score_cells(means, spec, full), SCORES_NOTE)
