"""Tables of the feature-space analyses: changes, prototypes, persistence."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sight.apps.bench.experiment_report.setting_tables import ScoreColumn, score_cells
from sight.apps.bench.experiment_report.summary import method_cells
from sight.apps.bench.experiment_report.table_format import Cell, Table, number
from sight.apps.bench.result_rows import arrays, matrices
from sight.types import Array


def persistence(rows: Any, column: str) -> float:
    """Return the probability that a window repeats the class before it, averaged over classes."""
    counts = matrices(rows, column).sum(axis=0)
    seen = counts.sum(axis=1) > 0
    return float((np.diag(counts)[seen] / counts.sum(axis=1)[seen]).mean())


def class_means(lists: Array) -> Array:
    """Return the mean over streams (n, K) for each class, NaN where no stream has a value."""
    finite = ~np.isnan(lists)
    total = np.where(finite, lists, 0).sum(axis=0)
    return np.where(finite.any(axis=0), total / np.maximum(finite.sum(axis=0), 1), np.nan)


def geometry(rows: Any, name: str, title: str) -> Table:
    columns = {
        "Changes a stream": ScoreColumn("changes"),
        "Cosine inside": ScoreColumn("similarity_inside", digits=2),
        "Cosine at a change": ScoreColumn("similarity_change", digits=2),
        "AUC": ScoreColumn("auc", digits=2),
        "AUC, true class": ScoreColumn("auc_true", digits=2),
        "Routing (%)": ScoreColumn("routing_top1", 100, digits=0),
        "First two (%)": ScoreColumn("routing_top2", 100, digits=0),
        "Chance (%)": ScoreColumn("chance", 100, digits=0),
        "Source-only (%)": ScoreColumn("raw_top1", 100, digits=0),
    }
    note = (
        "Means over streams. Cosine of feature and expected state inside segments and right after a change, and the "
        "AUC that separates the two; true class: the expected state is the head's row of the true previous class. "
        "Routing: changes at which the deviation points best to the new class; source-only: changes at which the "
        "source model predicts it."
    )
    return _means_table(rows, columns, name, title, note)


def prototypes(rows: Any, name: str, title: str) -> Table:
    first, last = (class_means(arrays(rows, column)) for column in ("prototype_first", "prototype_last"))
    shown = [k for k in range(len(first)) if np.isfinite(first[k])]
    classes = list(rows["classes"].iloc[0])
    cells = [[Cell(classes[k]), Cell(number(first[k], 3)), Cell(number(last[k], 3))] for k in shown]
    note = "Cosine of prototype and the subject's class centroid, over streams in which the class has two segments."
    return Table(name=name, title=title, heads=["Class", "First segment", "Last segment"], rows=cells, note=note)


def motivation(rows: Any, name: str, title: str) -> Table:
    rows = rows.assign(**{f"persistence_{of}": persistence(rows, f"transitions_{of}") for of in ("true", "raw")})
    columns = {
        "Persistence, truth": ScoreColumn("persistence_true", digits=3),
        "Persistence, source-only": ScoreColumn("persistence_raw", digits=3),
        "Towards new class": ScoreColumn("towards_new", digits=2),
        "Towards old class": ScoreColumn("towards_old", digits=2),
        "Towards best other": ScoreColumn("towards_best_other", digits=2),
    }
    note = (
        "Persistence: probability that a window repeats the class before it, averaged over classes. Towards: mean "
        "cosine of the deviation right after a change with the direction to a class's prototype."
    )
    return _means_table(rows, columns, name, title, note)


def _means_table(rows: Any, columns: Mapping[str, ScoreColumn], name: str, title: str, note: str) -> Table:
    means = rows.groupby("label")[[own.column for own in columns.values()]].mean()
    cells_of = method_cells(rows)
    cells = score_cells(means, columns, np.full(len(means), True))
    return Table.of_columns(name, title, {"Method": [cells_of[label] for label in means.index]} | cells, note)
