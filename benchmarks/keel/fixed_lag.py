"""Gain of Keel's predictions without delay, with a fixed lag, and with the whole recording.

Run as ``python -m benchmarks.keel.fixed_lag WINDOWS PROJECTIONS RESULTS`` with the output of `train_encode`; writes
RESULTS/fixed_lag.csv. The package's own filter runs on the K numbers per window that the projections contain.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

import numpy as np
from benchmarks.keel.evaluate import SETTINGS
from benchmarks.keel.search import Model, read

from sight.methods.keel import Keel
from sight.methods.keel.state import SourceTerms
from sight.methods.ops import softmax
from sight.models.given_features import FeatureSource
from sight.results import metrics
from sight.results.smoothing import backward

LAGS = (0, 1, 2, 5, 10, 20, math.inf)


def filtered(model: Model, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return beliefs and probabilities of a change for one subject's windows."""
    keel = Keel().bind(FeatureSource(np.eye(len(model.prior))))
    share = keel.prototypes
    expected = (1 - share) * model.head_mean + share * model.cosine_mean
    # The evidence is mixed here and passed as the head's output, so the step mixes nothing.
    terms = SourceTerms(model.prior, expected, 0.0, 0.0, np.empty(0), np.empty((0, 0)))
    p = softmax((1 - share) * model.head[rows] + share * model.cosine[rows])
    params, first = keel.constants[1]._replace(**keel.correction(len(model.subjects))), np.zeros(1, np.int64)
    q, trace = keel.backend.advance(np.zeros((len(p), 0)), p, keel.states.arrays, first, terms, params)
    return q, trace[:, 0]


def main() -> None:
    """Print and write the mean gain over source-only of each lag on each setting, all targets."""
    windows, projections, results = (Path(name) for name in sys.argv[1:4])
    gains: dict[tuple[float, str], list[tuple[float, float]]] = {}
    for path in sorted(projections.glob("*.npz")):
        model = read(path, windows)
        for i, y in enumerate(model.labels):
            if i in model.subjects:
                continue
            rows = slice(model.edges[i], model.edges[i + 1])
            q, change = filtered(model, rows)
            plain = scores(y, model.head[rows])
            for lag in LAGS:
                new = scores(y, backward(q, change, lag))
                gains.setdefault((lag, model.setting), []).append((new[0] - plain[0], new[1] - plain[1]))
    with (results / "fixed_lag.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["lag", "figure", *SETTINGS, "mean"])
        for lag in LAGS:
            for k, figure in enumerate(("macro_f1_gain", "accuracy_gain")):
                means = [float(np.mean(gains[lag, setting], axis=0)[k]) for setting in SETTINGS]
                row = ["all" if math.isinf(lag) else lag, figure, *(f"{v:.2f}" for v in (*means, np.mean(means)))]
                writer.writerow(row)
                print(*row, flush=True)


def scores(truth: np.ndarray, evidence: np.ndarray) -> tuple[float, float]:
    """Return macro-F1 and accuracy in points."""
    table = metrics.confusion(truth, evidence.argmax(axis=1), evidence.shape[1])
    return 100 * metrics.macro_f1_union(table), 100 * metrics.accuracy(table)


if __name__ == "__main__":
    main()
