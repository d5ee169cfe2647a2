"""Committed benchmark rows, read once, and their summaries over settings."""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeAlias

from sight.apps.bench import result_rows
from sight.apps.bench.experiment_report.multi_setting_summary import MultiSettingSummary, summarise_settings
from sight.apps.bench.experiment_report.summary import RUN, by_model
from sight.apps.bench.settings import setting_group, settings, short_name
from sight.results import paired_tests, score_statistics as stats
from sight.results.score_statistics import Difference
from tools.result_files import RESULTS, read_json
from tools.row_versions import record

SOURCE_ONLY, SIGHT, AUTHORS = "Source-only", "SIGHT", "SIGHT, authors' code"
KEEL, KEEL_NORM = "Keel", "Keel, norm"
STICKY, LEARNED, EMA = "Sticky", "Sticky, learned", "EMA"
#: Settings with the pairs of the paper, on the paper's datasets or on what replaces them.
PAPER_SETTINGS = ("harth", "capture24", "uschad", "ucihar", "hapt")
Scope: TypeAlias = Literal["main", "paper", "all"]
#: Simple filters of a few lines.
FILTERS = (STICKY, LEARNED, EMA)


def all_rows() -> Any:
    """Return the committed rows of the findings, without columns that no table needs."""
    return record(_all_rows())


@functools.cache
def _all_rows() -> Any:
    rows = result_rows.read([RESULTS / name for name in settings() if (RESULTS / name).is_dir()])
    rows = rows[rows["protocol"] == ""]  # protocols have a page of their own
    unused = {*result_rows.NESTED, "machine", "python", "numpy", "torch", "numba", "scipy", "title"}
    return rows.drop(columns=list(unused - {"needs", "params"}))


@functools.cache
def _by_experiment() -> dict[str, Any]:
    return dict(iter(_all_rows().groupby("experiment")))


def speed() -> dict[str, Any]:
    """Return the committed figures of ``python -m benchmarks.speed methods``."""
    return read_json(RESULTS / "speed.json")


def names(scope: Scope = "all") -> dict[str, str]:
    """Return the settings with results and their short names: the pairs of the paper, the main settings, or both."""
    present, main = set(_all_rows()["setting"]), setting_group()
    chosen = {name: short_name(name) for name in PAPER_SETTINGS} if scope != "main" else {}
    chosen |= main if scope != "paper" else {}
    return {name: short for name, short in chosen.items() if name in present}


def rows_of(experiment: str, scope: Scope = "main", **where: str) -> Any:
    """Return the rows of an experiment on some settings, filtered by other columns."""
    return record(_rows_of(experiment, scope, **where))


@functools.cache
def _rows_of(experiment: str, scope: Scope, **where: str) -> Any:
    rows = _by_experiment()[experiment]
    kept = rows["setting"].isin(list(names(scope)))
    for column, value in where.items():
        kept &= rows[column] == value
    return rows[kept]


def summary(
    experiment: str,
    scope: Scope = "main",
    *,
    metric: str | None = None,
    labels: tuple[str, ...] = (),
    **where: str,
) -> MultiSettingSummary:
    """Return the summary of an experiment over some settings, of all methods or some."""
    record(_labelled(_rows_of(experiment, scope, **where), labels))
    return _summary(experiment, scope, metric, labels, **where)


@functools.cache
def _summary(
    experiment: str, scope: Scope, metric: str | None, labels: tuple[str, ...], **where: str
) -> MultiSettingSummary:
    rows = _labelled(_rows_of(experiment, scope, **where), labels)
    return summarise_settings(rows, names(scope), metric)


def _labelled(rows: Any, labels: tuple[str, ...]) -> Any:
    return rows[rows["label"].isin(labels)] if labels else rows


def by_subject(rows: Any, values: Any) -> dict[str, Difference]:
    """Return the mean and interval over target subjects and source models of one value per row, by setting."""
    return {short: stats.mean_difference(own.to_numpy()) for short, own in _by_model(rows, values).items()}


def subject_verdicts(rows: Any, values: Any) -> dict[str, str]:
    """Return the result of the test over target subjects of one value per row, by setting."""
    found = _by_model(rows, values)
    return dict(zip(found, paired_tests.verdicts([own.mean(axis=1) for own in found.values()]), strict=True))


def _by_model(rows: Any, values: Any) -> dict[str, Any]:
    found = {}
    for setting, short in names().items():
        own = rows["setting"] == setting
        runs = values[own].set_axis(rows[own].set_index(RUN).index)
        if runs.notna().any():
            found[short] = by_model(runs)
    return found
