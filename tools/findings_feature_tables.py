"""Tables of docs/findings.md about the features that SIGHT uses, from the committed benchmark rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sight.apps.bench.analyses import EDGES
from sight.apps.bench.experiment_report.analysis_tables import persistence
from sight.apps.bench.experiment_report.table_format import DASH, number
from sight.apps.bench.result_rows import arrays
from tools.findings_data import SIGHT, by_subject, names, rows_of, subject_verdicts
from tools.findings_tables import markdown, percent, tested


def geometry() -> str:
    """Return the separability of changes and the accuracy of routing, by setting."""
    rows = rows_of("geometry", "all", label=SIGHT)
    columns = ["auc", "auc_true", "routing_top1", "chance", "raw_top1"]
    means = rows.groupby("setting")[columns].mean()
    means = means.assign(**{f"gate_{kind}": _gates(rows, kind) for kind in ("inside", "change")})
    routing = 100 * (rows["routing_top1"] - rows["raw_top1"])
    against, verdicts = by_subject(rows, routing), subject_verdicts(rows, routing)
    lines = [
        [short, *_geometry_cells(means.loc[setting]), tested(against[short], verdicts[short])]
        for setting, short in names().items()
        if setting in means.index
    ]
    lines.append(["**Mean**", *_geometry_cells(means.mean()), ""])
    by_dataset = means.groupby(rows.groupby("setting")["dataset"].first()).mean().mean()
    lines.append(["**Mean by dataset**", *_geometry_cells(by_dataset), ""])
    heads = ["Setting", "AUC", "AUC, true class", "gate inside", "gate at a change", "routing, %", "chance, %"]
    return markdown([*heads, "source-only, %", "routing less source-only"], lines)


def _geometry_cells(means: Any) -> list[str]:
    """Return areas, gates and shares of a setting, or of their mean."""
    figures = [number(means[name], 2) for name in ("auc", "auc_true", "gate_inside", "gate_change")]
    return figures + [percent(means[name], 0) for name in ("routing_top1", "chance", "raw_top1")]


def _gates(rows: Any, kind: str) -> Any:
    """Return SIGHT's mean gate at beta = 1 from the histograms of similarity, by setting."""
    import pandas as pd

    middle = (EDGES[1:] + EDGES[:-1]) / 2
    surprise, found = 1 - np.exp(-((1 - middle) ** 2)), {}
    for setting, own in rows.groupby("setting"):
        histogram = arrays(own, f"histogram_{kind}").sum(axis=0)
        found[str(setting)] = float((histogram * surprise).sum() / max(histogram.sum(), 1))
    return pd.Series(found)


def prototypes() -> str:
    """Return persistence, and the cosine of prototypes and class centroids, by setting."""
    rows, repeats = rows_of("prototypes", "all"), rows_of("motivation", "all")
    ends = {name: rows[f"prototype_{name}"].map(_finite_mean) for name in ("first", "last")}
    moved = by_subject(rows, ends["last"] - ends["first"])
    lines = []
    for setting, short in names().items():
        own = repeats[repeats["setting"] == setting]
        if len(own):
            stays = [number(persistence(own, f"transitions_{kind}"), 2) for kind in ("true", "raw")]
            here = rows["setting"] == setting
            cosines = [number(ends[name][here].mean(), 2) for name in ends]
            change = moved.get(short)
            text = DASH if change is None else f"{change.mean:+.2f} [{change.low:+.2f}, {change.high:+.2f}]"
            lines.append([short, *stays, *cosines, text])
    heads = ["Setting", "persistence, truth", "persistence, source-only", "cosine, first segment", "last segment"]
    return markdown([*heads, "change"], lines)


def _finite_mean(values: Any) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


BLOCKS: dict[str, Callable[[], str]] = {
    "findings-geometry": geometry,
    "findings-prototypes": prototypes,
}
