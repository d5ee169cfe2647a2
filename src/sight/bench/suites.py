"""Sections over several settings: the leaderboard, and every comparison on the settings of the suite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sight.bench import leaderboard as tables_over
from sight.bench import multi_setting_figures
from sight.bench.aggregate import METRIC_OF_KIND
from sight.bench.coverage import listed
from sight.bench.multi_setting import Across, over
from sight.bench.report_section import Section
from sight.bench.settings import SUITE, suite
from sight.bench.table_format import points


def leaderboard(table: Any) -> Iterator[Section]:
    """Rank all methods over all settings with results, unless the suite has shown just those."""
    ranked = _ranked(table)
    settings = {str(setting): str(setting) for setting in sorted(ranked["setting"].unique())}
    inside = [setting for setting in settings if setting in suite()]
    outside = [setting for setting in settings if setting not in inside]
    if not settings or (len(inside) > 1 and not outside):
        return
    alone = len(settings) == 1
    where = f"on {next(iter(settings))}" if alone else f"over all {len(settings)} settings with results"
    section = _board(over(ranked, settings), "leaderboard", f"Leaderboard {where}")
    if alone:
        section.said.append("There is but one setting here: nothing is averaged over several.")
    elif len(inside) > 1:
        section.said.append(
            f"It counts {listed(outside)} beside the {SUITE} settings, so that its means are not theirs; those of the "
            f"{SUITE} settings stand above."
        )
    yield section


def suites(table: Any) -> Iterator[Section]:
    """Lay every comparison out over the suite, if results on several of its settings are there."""
    main = over(_ranked(table), suite())
    if len(main.summaries) > 1:
        section = _board(main, SUITE, f"The {SUITE} settings")
        accuracy = over(_ranked(table), suite(), "accuracy")
        name, title = f"{SUITE}_accuracy", f"The {SUITE} settings: accuracy"
        section.tables.append(tables_over.gains(accuracy, name, title, metric="accuracy", folded=True))
        section.tables.append(tables_over.beside(main, f"{SUITE}_beside", f"The {SUITE} settings: other figures"))
        section.said += tables_over.absent(main, suite().values())
        section.figures[SUITE] = multi_setting_figures.forest(
            main.mean_gains, "Mean gain over source-only, points of macro-F1"
        )
        yield section
    others = table[~table["ranked"] & table["kind"].isin(("compare", "classes"))]
    for experiment, own in others.groupby("experiment", sort=False):
        there = own["setting"].drop_duplicates().isin(list(suite())).sum()
        part = "" if there == len(suite()) else f"{there} of "
        title = f"{own['title'].iloc[0]} over {part}the {SUITE} settings"
        section = Section(name=f"{SUITE}_{experiment}", title=title)
        section.tables += _conditions(own, section)
        if section.tables:
            yield section


def _conditions(own: Any, section: Section) -> Iterator[Any]:
    """One table for each order of the stream and network, of those that differ."""
    metric = METRIC_OF_KIND.get(own["kind"].iloc[0])
    # A corpus of feature vectors has a network of its own; that alone is no condition.
    differ = [name for name in ("order", "encoder") if own.groupby("setting")[name].nunique().max() > 1]
    for case, part in own.groupby(differ, sort=False) if differ else [((), own)]:
        found = over(part, suite(), metric)
        if len(found.summaries) > 1:
            name, title = "_".join([section.name, *case]), ", ".join([section.title, *case])
            yield tables_over.gains(found, name, title, metric=metric or "macro-F1")


def _ranked(table: Any) -> Any:
    keys = ["setting", "label", "params", "sources", "target", "seed", "code"]
    ranked = table[table["ranked"] & (table["kind"] == "compare")]
    return ranked.drop_duplicates(keys)  # a pair may stand in two tables of the paper


def _board(found: Across, name: str, title: str) -> Section:
    board = tables_over.gains(found, name, title)
    section = Section(name=name, title=title, tables=[board])
    gains, shown = found.mean_gains, list(found.summaries)
    if gains:
        best = max(gains, key=lambda label: gains[label].mean)
        where, average = (f"On {shown[0]}", "") if found.alone else (f"Over {len(shown)} settings", " on average")
        gained = round(gains[best].mean, 1) > 0
        what = f"{best} gains most{average}" if gained else f"no method gains{average}; {best} loses least"
        section.said = [f"{where}, {what}: {points(gains[best])} points."]
    return section
