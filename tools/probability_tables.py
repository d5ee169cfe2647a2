"""Generated table of docs/python.md: methods on the probabilities of scikit-learn classifiers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sight.results.score_statistics import bootstrap_interval
from tools.findings_tables import markdown
from tools.result_files import RESULTS, read_csv

DATASETS = {"hapt": "HAPT", "hugadb": "HuGaDB"}
#: Sharpness that `sight.sklearn` chooses for each classifier.
CHOSEN = {"random forest": 5, "boosted trees": 3}


def probabilities() -> str:
    """Return macro-F1 of the classifiers, and the gain of each method over subjects."""
    scores: dict[tuple[str, ...], dict[str, float]] = {}
    for row in read_csv(RESULTS / "probabilities" / "sklearn_classifiers.csv"):
        key = row["dataset"], row["sources"], row["classifier"]
        for method in list(row)[4:]:
            scores.setdefault((*key, method), {})[row["subject"]] = float(row[method])
    columns = [(data, kind, name) for data in DATASETS for kind in ("pooled", "single") for name in CHOSEN]
    methods = ("ema", "sticky", "sticky-learned", "oatta", "keel")
    rows = [["source-only, macro-F1", *(f"{np.mean(list(scores[*c, 'source-only'].values())):.1f}" for c in columns)]]
    for label, suffix in [*((method, "") for method in methods), ("keel", ", lag 5")]:
        cells = [_gain(scores, column, f"{label}, sharpness {CHOSEN[column[2]]}{suffix}") for column in columns]
        rows.append([f"{label}{suffix}", *cells])
    for sharpness in (1, 3, 5, 8):
        cells = [_gain(scores, column, f"keel, sharpness {sharpness}") for column in columns]
        rows.append([f"keel, sharpness {sharpness}", *cells])
    heads = [f"{DATASETS[data]}, {kind}, {name.split()[-1]}" for data, kind, name in columns]
    return markdown(["method", *heads], rows)


def _gain(scores: dict[tuple[str, ...], dict[str, float]], column: tuple[str, str, str], method: str) -> str:
    raw, own = scores[*column, "source-only"], scores[*column, method]
    differences = np.array([own[subject] - raw[subject] for subject in raw])
    low, high = bootstrap_interval(differences)
    return f"{differences.mean():+.1f}{'*' if low > 0 or high < 0 else ''}"


BLOCKS: dict[str, Callable[[], str]] = {"sklearn-probabilities": probabilities}
