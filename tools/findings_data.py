"""Committed benchmark rows, read once, and their summaries over settings."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from sight.apps.bench import result_rows
from sight.apps.bench.experiment_report.multi_setting_summary import MultiSettingSummary, summarise_settings
from sight.apps.bench.settings import setting_group, settings, short_name
from sight.results import score_statistics as stats
from sight.results.score_statistics import Difference

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
SOURCE_ONLY, SIGHT, AUTHORS = "Source-only", "SIGHT", "SIGHT, authors' code"
KEEL, KEEL_NORM = "Keel", "Keel, norm"
STICKY, LEARNED, EMA = "Sticky", "Sticky, learned", "EMA"
#: Simple filters of a few lines.
FILTERS = (STICKY, LEARNED, EMA)


@functools.cache
def all_rows() -> Any:
    """Return all committed rows, without columns that no table needs."""
    rows = result_rows.read([RESULTS / name for name in settings() if (RESULTS / name).is_dir()])
    unused = {*result_rows.NESTED, "machine", "python", "numpy", "torch", "numba", "scipy", "title"}
    return rows.drop(columns=list(unused - {"needs", "params"}))


@functools.cache
def _by_experiment() -> dict[str, Any]:
    return dict(iter(all_rows().groupby("experiment")))


@functools.cache
def speed() -> dict[str, Any]:
    """Return the committed figures of ``python -m benchmarks.speed methods``."""
    return json.loads((RESULTS / "speed.json").read_text("utf-8"))


def names() -> dict[str, str]:
    """Return the settings with results and their short names, the nine settings last."""
    present, group = set(all_rows()["setting"]), setting_group()
    others = {name: short_name(name) for name in sorted(present - set(group))}
    return others | {name: short for name, short in group.items() if name in present}


def rows_of(experiment: str, **where: str) -> Any:
    """Return the rows of an experiment on the nine settings, filtered by other columns."""
    rows = _by_experiment()[experiment]
    kept = rows["setting"].isin(list(setting_group()))
    for column, value in where.items():
        kept &= rows[column] == value
    return rows[kept]


@functools.cache
def summary(
    experiment: str, metric: str | None = None, labels: tuple[str, ...] = (), **where: str
) -> MultiSettingSummary:
    """Return the summary of an experiment over the nine settings, of all methods or some."""
    rows = rows_of(experiment, **where)
    return summarise_settings(rows[rows["label"].isin(labels)] if labels else rows, setting_group(), metric)


@functools.cache
def paper_pairs() -> MultiSettingSummary:
    """Return the summary of the main comparison on the settings outside the nine: the pairs of the paper."""
    outside = {name: short for name, short in names().items() if name not in setting_group()}
    return summarise_settings(_by_experiment()["table-main"], outside)


def by_subject(rows: Any, values: Any) -> dict[str, Difference]:
    """Return the mean and interval over target subjects of one value per row, by setting."""
    found = {}
    for setting, short in setting_group().items():
        own = rows["setting"] == setting
        means = values[own].groupby(rows.loc[own, "target"]).mean().dropna().to_numpy()
        if len(means):
            found[short] = stats.mean_difference(means)
    return found
