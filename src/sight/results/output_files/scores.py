"""Files of scores: one row per recording and method, and their mean; confusion matrices."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from sight._util.atomic import write_json
from sight.results.leave_one_out_scores import SCORES, confusions
from sight.results.metrics import Scores
from sight.results.output_files.csv import write_csv
from sight.types import Result, Warning

METRICS = (
    *("windows", "hours", "accuracy", "balanced_accuracy", "macro_f1_union"),
    *("kappa", "nll", "ece", "time_use_mae_min", "delay_median_s"),
)
COLUMNS = ("recording", "subject", "in_training", "method", *METRICS)


@dataclass(frozen=True, kw_only=True)
class RecordingScores:
    """Scores of one recording."""

    recording: str
    subject: str
    in_training: bool | None = None  # whether the subject was in the training of the model; None if unknown
    warnings: Sequence[Warning] = ()
    scores: Mapping[str, Scores]  # of each method; of the model alone under "none"


def mean_scores(rows: Sequence[RecordingScores]) -> dict[str, Scores]:
    """Return the mean of each metric over recordings for each method; windows, hours and changes are sums.

    Recordings without a value are left out of a mean. Metrics with one entry per class are omitted.
    """
    means: dict[str, Scores] = {}
    for method, first in rows[0].scores.items():
        numbers = [name for name, value in first.items() if not isinstance(value, list)]
        means[method] = {name: _combined(name, [row.scores[method][name] for row in rows]) for name in numbers}
    return means


def write_score_files(folder: Path, rows: Sequence[RecordingScores]) -> dict[str, Path]:
    """Write scores.json and scores.csv of one or several recordings and return their paths by name."""
    means = mean_scores(rows)
    recordings = {
        row.recording: {
            "subject": row.subject,
            "in_training": row.in_training,
            "warnings": [asdict(warning) for warning in row.warnings],
            "scores": row.scores,
        }
        for row in rows
    }
    lines = [
        {"recording": row.recording, "subject": row.subject, "in_training": row.in_training, "method": method, **scores}
        for row in rows
        for method, scores in row.scores.items()
    ]
    lines += [{"recording": "mean", "method": method, **scores} for method, scores in means.items()]
    return {
        "scores.json": write_json(folder / "scores.json", {"recordings": recordings, "mean": means}),
        "scores.csv": write_csv(folder / "scores.csv", COLUMNS, map(_rounded, lines)),
    }


def write_subject_scores(path: Path, rows: Mapping[str, Mapping[str, Any]], method: str) -> Path:
    """Write leave-one-subject-out scores (`leave_one_out_scores.subject_scores`), one line for each subject."""
    lines = [{"subject": subject, "method": method, **row} for subject, row in rows.items()]
    return write_csv(path, ("subject", "method", "windows", *SCORES), map(_rounded, lines))


def write_confusions(path: Path, results: Sequence[Result]) -> Path:
    """Write the confusion matrices of raw and adapted predictions, summed over results; rows are true classes."""
    classes = results[0].classes
    tables = [confusions(result) for result in results]
    lines = [
        {"predictions": name, "true_class": true, **dict(zip(classes, counts, strict=True))}
        for name in tables[0]
        for true, counts in zip(classes, np.sum([table[name] for table in tables], axis=0).tolist(), strict=True)
    ]
    return write_csv(path, ("predictions", "true_class", *classes), lines)


def _combined(name: str, values: Sequence[float]) -> float:
    if name in ("windows", "hours", "changes", "changes_missed") or name.startswith("events_"):
        return sum(values)
    present = [value for value in values if not math.isnan(value)]
    return fmean(present) if present else math.nan


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}
