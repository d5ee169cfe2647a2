"""Gains of many variants over the source model alone, on recordings and on days, as a table of runs.

A run is one stream of one target with one source model. Development targets are those at even positions of a dataset's
list of subjects, counted from 0; the others are held out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.keel.recursions import Model, Stream, read, streams
from benchmarks.version_and_date import version_and_date
from joblib import Parallel, delayed

from sight.apps.bench.settings import setting_group
from sight.apps.bench.simulated_days import DOMINATED
from sight.results import metrics

SETTINGS = tuple(setting_group())
HALVES = ("development", "held out")
COLUMNS = ["method", "setting", "seed", "half", "kind", "target", "accuracy", "macro_f1", "minutes"]
MARGIN = 3.0  # points that a run may lose before it counts as harmed

Labels = Callable[[Model, np.ndarray], np.ndarray]


def arguments() -> tuple[list[Path], Path]:
    """Return the files of projections and the folder of results, from PROJECTIONS RESULTS."""
    projections, results = (Path(name) for name in sys.argv[1:3])
    return sorted(projections.glob("*.npz")), results


def compare(paths: Sequence[Path], methods: dict[str, Labels], halves: Sequence[int] = (0, 1)) -> pd.DataFrame:
    """Return one row per run and method: gain in accuracy, macro-F1 and minutes of error per class and day."""
    parts = Parallel(n_jobs=-1)(delayed(_compare)(path, methods, halves) for path in paths)
    return pd.concat(parts, ignore_index=True)


def _compare(path: Path, methods: dict[str, Labels], halves: Sequence[int]) -> pd.DataFrame:
    model, rows = read(path), []
    for half in halves:
        for stream in streams(model, half):
            before = scores(model, stream, model.head[stream.rows].argmax(axis=1))
            for name, method in methods.items():
                gains = scores(model, stream, method(model, stream.rows)) - before
                rows.append((name, model.setting, model.seed, HALVES[half], stream.kind, stream.target, *gains))
    return pd.DataFrame(rows, columns=COLUMNS)


def scores(model: Model, stream: Stream, labels: np.ndarray) -> np.ndarray:
    """Return accuracy and macro-F1 in percent, and the minutes per class and day by which time use is wrong."""
    classes = len(model.prior)
    table = np.bincount(classes * stream.labels + labels, minlength=classes**2).reshape(classes, classes)
    minutes = float(np.abs(metrics.time_use_error(table)).mean())
    return np.array([100 * metrics.accuracy(table), 100 * metrics.macro_f1_union(table), minutes])


def figures(runs: pd.DataFrame) -> dict[str, float]:
    """Return the figures of one method: means over settings of gain, share harmed and worst percentile of the runs."""
    recordings, days = runs[runs.kind == "recording"], runs[runs.kind.isin(list(DOMINATED))]
    by_activity = runs[runs.kind == "by activity"]
    return {
        "recordings": _mean(recordings, "macro_f1"),
        "recordings_least": float(recordings.groupby("setting").macro_f1.mean().min()),
        "recordings_harmed": _harmed(recordings, "macro_f1"),
        "by_activity": float(by_activity.macro_f1.mean()),
        "days": _mean(days, "accuracy"),
        "days_harmed": _harmed(days, "accuracy"),
        "days_worst_percentile": float(days.groupby("setting").accuracy.quantile(0.01).mean()),
        "days_worst": float(days.accuracy.min()),
        "days_macro_f1": _mean(days, "macro_f1"),
        "days_minutes": _mean(days, "minutes"),
    }


def _mean(runs: pd.DataFrame, score: str) -> float:
    return float(runs.groupby("setting")[score].mean().mean())


def _harmed(runs: pd.DataFrame, score: str) -> float:
    return 100 * float((runs[score] < -MARGIN).groupby(runs.setting).mean().mean())


def write(rows: Sequence[dict[str, object]], path: Path) -> None:
    """Write rows as CSV with version and date, numbers with two decimals."""
    pd.DataFrame(rows).assign(**version_and_date()).to_csv(path, index=False, float_format="%.2f", lineterminator="\n")
    print(f"{len(rows)} rows in {path}", flush=True)
