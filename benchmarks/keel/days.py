"""Compare Keel with its version 0.1 and a sticky filter, on recordings and on days that one class fills.

Run as ``python -m benchmarks.keel.days WINDOWS PROJECTIONS RESULTS``. All methods process the same evidence.
"True bouts" is given the boundaries of all bouts and labels each by the sum of its evidence: no method without the
boundaries can be expected to do better with this evidence.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.keel.evaluate import HALVES
from benchmarks.keel.search import DEFAULTS, VERSION_0_1, Model, gains, predict, read, summarise, write
from numba import njit


@njit(cache=True)
def sticky(evidence, stay):
    """Return the labels (N,) of a filter that keeps its belief with probability `stay`."""
    n, size = evidence.shape
    labels, belief = np.empty(n, np.int64), np.full(size, 1 / size)
    for t in range(n):
        likelihood = np.exp(evidence[t] - evidence[t].max())
        belief = likelihood * (stay * belief + (1 - stay) / size)
        belief /= belief.sum()
        labels[t] = belief.argmax()
    return labels


def true_bouts(model: Model, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Label each bout of the truth by the sum of the evidence of its windows."""
    share = DEFAULTS["prototypes"]
    evidence = (1 - share) * model.head[rows] + share * model.cosine[rows]
    evidence -= np.log(np.exp(evidence).sum(axis=1, keepdims=True))
    bounds = np.r_[0, np.flatnonzero(np.diff(y)) + 1]
    return np.repeat(np.add.reduceat(evidence, bounds).argmax(axis=1), np.diff(np.r_[bounds, len(y)]))


METHODS = {
    "sticky": lambda model, rows, _: sticky(model.head[rows], 0.9),
    "Keel, filter only": partial(predict, fields=DEFAULTS | {"align": 0.0, "debias": 0.0}),
    "Keel 0.1": partial(predict, fields=VERSION_0_1),
    "Keel": partial(predict, fields=DEFAULTS),
    "Keel, corrected in full": partial(predict, fields=DEFAULTS | {"pooled": 1.0}),
    "true bouts": true_bouts,
}


def main() -> None:
    """Write figures of each method for development and held-out subjects."""
    windows, projections, results = (Path(name) for name in sys.argv[1:4])
    models: list[Model] = [read(path, windows) for path in sorted(projections.glob("*.npz"))]
    written: list[dict[str, Any]] = []
    for half, name in enumerate(HALVES):
        rows = gains(models, METHODS, half)
        for sources, kept in {"all": rows, "pooled": [row for row in rows if row["setting"].endswith("_P")]}.items():
            labels = {"half": name, "sources": sources}
            written += [labels | {"method": method} | summarise(kept, method) for method in METHODS]
    write(results / "days.csv", written)


if __name__ == "__main__":
    main()
