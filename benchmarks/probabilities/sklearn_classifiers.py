"""Gain of methods on the probabilities of scikit-learn classifiers with classic features.

Run as ``python -m benchmarks.probabilities.sklearn_classifiers``; needs scikit-learn and the datasets of SIGHT_DATA.
Writes ``benchmarks/results/probabilities/sklearn_classifiers.csv``: macro-F1 in points, one row per dataset,
classifier, kind of source and subject, one column per method.

Recordings are continuous streams, unlabelled stretches and gaps included. "pooled" trains on four fifths of the
subjects, five times, so that every subject is a target once; "single" trains on one subject and tests on the others,
for `SINGLE` subjects, and averages over these sources.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.version_and_date import version_and_date
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import sight
from sight.datasets import load, windows_of
from sight.results import metrics
from sight.types import Array

OUT = Path(__file__).parents[1] / "results" / "probabilities" / "sklearn_classifiers.csv"
DATASETS: dict[str, dict[str, Any]] = {"hapt": {}, "hugadb": {}}
FOLDS, SINGLE = 5, 6
CLASSIFIERS = {
    "random forest": lambda: RandomForestClassifier(100, random_state=0),
    "boosted trees": lambda: HistGradientBoostingClassifier(max_iter=50, random_state=0),
}
SHARPNESS = (1, 3, 5, 8)
#: Label to arguments of `sight.refine`.
METHODS: dict[str, dict[str, Any]] = {
    "source-only": {"method": "none"},
    **{
        f"{method}, sharpness {sharpness}": {"method": method, "sharpness": sharpness}
        for method in ("ema", "sticky", "sticky-learned", "oatta", "keel")
        for sharpness in SHARPNESS
    },
    **{f"keel, sharpness {sharpness}, lag 5": {"sharpness": sharpness, "lag": 5} for sharpness in SHARPNESS},
}
COLUMNS = ("dataset", "classifier", "sources", "subject", *METHODS)
BANDS_HZ = ((0.3, 1.5), (1.5, 3), (3, 6), (6, 12), (12, 20))


def classic_features(x: Array, rate_hz: float) -> Array:
    """Return moments, quantiles and spectral features of windows (N, C, T) and of the norm of the first three."""
    x = np.concatenate([x, np.linalg.norm(x[:, :3], axis=1, keepdims=True)], axis=1).astype(np.float64)
    power = np.abs(np.fft.rfft(x - x.mean(axis=2, keepdims=True), axis=2)) ** 2
    hertz = np.fft.rfftfreq(x.shape[2], 1 / rate_hz)
    share = power / (power.sum(axis=2, keepdims=True) + 1e-12)
    parts = [x.mean(axis=2), x.std(axis=2), np.abs(np.diff(x, axis=2)).mean(axis=2)]
    parts += list(np.quantile(x, [0, 0.25, 0.5, 0.75, 1], axis=2))
    parts += [np.log(power[:, :, (hertz >= low) & (hertz < high)].sum(axis=2) + 1e-6) for low, high in BANDS_HZ]
    parts += [hertz[power.argmax(axis=2)], -(share * np.log(share + 1e-12)).sum(axis=2)]
    return np.concatenate(parts, axis=1)


def splits(subjects: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the kind of source, its subjects and the targets."""
    for fold in range(FOLDS):
        targets = subjects[fold::FOLDS]
        yield "pooled", [subject for subject in subjects if subject not in targets], targets
    for source in subjects[:: max(1, len(subjects) // SINGLE)][:SINGLE]:
        yield "single", [source], [subject for subject in subjects if subject != source]


def macro_f1(label: Array, q: Array) -> float:
    """Return macro-F1 in points."""
    return 100 * metrics.macro_f1_union(metrics.confusion(label, q.argmax(axis=1), q.shape[1]))


def evaluate(dataset: str, options: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a dataset."""
    data = load(dataset, **options)
    windows = {subject: windows_of(data, subject) for subject in data.subjects()}
    x = {s: classic_features(w.x, w.x.shape[2] / w.window_s) for s, w in windows.items()}
    found: dict[tuple[str, ...], list[list[float]]] = {}
    for kind, sources, targets in splits(list(windows)):
        train, label = np.concatenate([x[s] for s in sources]), np.concatenate([windows[s].label for s in sources])
        for name, make in CLASSIFIERS.items():
            classifier = make().fit(train[label >= 0], label[label >= 0])
            for target in targets:
                p = np.zeros((len(x[target]), len(data.classes)))
                p[:, classifier.classes_] = classifier.predict_proba(x[target])
                refined = (
                    sight.refine(p, gap_before_s=windows[target].gap_before_s, **arguments)
                    for arguments in METHODS.values()
                )
                own = [macro_f1(windows[target].label, q) for q in refined]
                found.setdefault((name, kind, target), []).append(own)
            print(dataset, name, kind, sources, flush=True)
    for key, values in found.items():
        yield dataset, *key, *(f"{value:.2f}" for value in np.mean(values, axis=0))


def main() -> None:
    """Write the CSV."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("w", newline="") as file:
        writer, facts = csv.writer(file, lineterminator="\n"), version_and_date()
        writer.writerow([*COLUMNS, *facts])
        for dataset, options in DATASETS.items():
            writer.writerows((*row, *facts.values()) for row in evaluate(dataset, options))


if __name__ == "__main__":
    main()
