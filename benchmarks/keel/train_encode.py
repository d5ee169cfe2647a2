"""Train every source model of the nine settings on a GPU, encode all subjects, and run the methods.

Run as ``python -m benchmarks.keel.train_encode WINDOWS OUT [WORKERS]`` with the folder written by `pack_windows`.
Writes one file per model: OUT/models, the checkpoint; OUT/projections, what a method that is linear in the features can
use of them; OUT/predictions, the label that each method predicts for each window.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.keel.source_training import Task, read_dataset, run_parallel, tasks, train_source

METHODS = {
    "none": {},
    "ema": {},
    "sticky": {},
    "sticky-learned": {},
    "sight": {},
    "sight-authors": {"method": "sight", "variant": "authors"},
    "oatta": {},
    "lame": {},
    "t3a": {},
    "keel": {},
    "keel-without-prototypes": {"method": "keel", "prototypes": 0.0},
    "keel-without-align": {"method": "keel", "align": 0.0},
    "keel-without-debias": {"method": "keel", "debias": 0.0},
    "keel-without-guard": {"method": "keel", "guard": False},
    "keel-without-doubt": {"method": "keel", "doubt": 0.0},
    "keel-without-surprise": {"method": "keel", "surprise": 0.0},
    "keel-without-temper": {"method": "keel", "temper": 1.0},
    "keel-without-learned-hazard": {"method": "keel", "rate": 0.0},
    "keel-filter-only": {"method": "keel", "prototypes": 0.0, "align": 0.0, "debias": 0.0},
    "keel-without-filter": {"method": "keel", "hazard": 0.95, "rate": 0.0, "surprise": 0.0, "temper": 1.0},
    "keel-without-stats": {"method": "keel", "stats": False},
}
#: Methods that also run on shuffled streams and on streams of one class.
STRESSED = ("sticky", "sight", "keel")


def run_task(task: Task, folder: Path, out: Path) -> str:
    """Train one source model, run every method on all other subjects, and store the results."""
    dataset, kind, subjects, seed = task
    facts, x, y = read_dataset(folder, dataset)
    began = time.time()
    source, rows = train_source(task, folder)
    trained = time.time()
    z, p = source.encode(x)
    source.to("cpu")
    name = f"{dataset}_{kind}_{facts['subjects'][subjects[0]][:8]}_{seed}"
    source.save(out / "models" / f"{name}.safetensors")
    edges = np.r_[0, np.cumsum(facts["counts"])]
    predictions = predict(z, p, np.asarray(source.weight), source.stats, edges, y, subjects)
    np.savez_compressed(out / "predictions" / f"{name}.npz", subjects=np.array(subjects), **predictions)
    np.savez(out / "projections" / f"{name}.npz", subjects=np.array(subjects), **projections(z, source))
    return f"{name} {len(rows)} windows, trained {trained - began:.0f} s, all {time.time() - began:.0f} s"


def projections(z: np.ndarray, source) -> dict[str, np.ndarray]:
    """Return all that a method which is linear in the features can use, and the constants of the source model."""
    stats, weight, bias = source.stats, np.asarray(source.weight), np.asarray(source.bias)
    centred = stats.class_means.astype(np.float64) - stats.feature_mean
    length = np.maximum(np.linalg.norm(centred, axis=1), 1e-9)
    offset, logits = z - stats.feature_mean, z @ weight.T + bias
    return {
        "logits": (logits - logits.mean(axis=1, keepdims=True)).astype(np.float16),
        "along": (offset @ (centred / length[:, None]).T).astype(np.float16),
        "square": np.einsum("nd,nd->n", offset, offset).astype(np.float32),
        "gram": (centred @ centred.T).astype(np.float32),
        "class_logits": (stats.class_means @ weight.T + bias).astype(np.float32),
        "mean_logits": (weight @ stats.feature_mean + bias).astype(np.float32),
        "prior": stats.prior,
    }


def predict(z, p, weight, stats, edges, y, subjects) -> dict[str, np.ndarray]:
    """Return the labels that each method predicts for all subjects outside the source, -1 inside it."""
    from sight.models.given_features import FeatureSource
    from sight.registry import method

    predictions: dict[str, np.ndarray] = {}
    for name, changes in METHODS.items():
        fields = dict(changes)
        source_stats = stats if fields.pop("stats", True) else None
        adapter = method(fields.pop("method", name), **fields).bind(FeatureSource(weight, stats=source_stats))
        for order in ("chronological", "shuffled", "alone") if name in STRESSED else ("chronological",):
            labels = np.full(len(p), -1, np.int8)
            for i, (first, last) in enumerate(itertools.pairwise(edges)):
                for rows in streams(order, np.arange(first, last), y, i) if i not in subjects else ():
                    labels[rows] = adapter.reset().refine(z[rows], p[rows]).argmax(axis=1)
            predictions[name if order == "chronological" else f"{name}@{order}"] = labels
    labels = np.full(len(p), -1, np.int8)
    for i, (first, last) in enumerate(itertools.pairwise(edges)):
        if i not in subjects:
            labels[first:last] = composite(z[first:last], p[first:last], weight, stats)
    return predictions | {"composite A": labels}


def composite(z, p, weight, stats) -> np.ndarray:
    """Predict with a ten-line composite: half alignment, division by the running marginal, sticky filter 0.5."""
    belief, shares, drift = None, 100 * np.maximum(stats.prior, 1e-6), np.zeros(len(weight))
    labels = np.empty(len(p), np.int8)
    for t, (feature, raw) in enumerate(zip(z, p, strict=True)):
        drift = drift + weight @ (feature - stats.feature_mean)
        logits = np.log(np.maximum(raw, 1e-30)) - 0.5 * drift / (t + 101)
        logits = logits - np.log(shares / shares.sum() / np.maximum(stats.prior, 1e-6))
        corrected = np.exp(logits - logits.max())
        corrected /= corrected.sum()
        shares = shares + corrected
        belief = corrected if belief is None else corrected * (0.5 * belief + 0.5 / len(corrected))
        belief = belief / belief.sum()
        labels[t] = belief.argmax()
    return labels


def streams(order: str, rows: np.ndarray, y: np.ndarray, seed: int) -> list[np.ndarray]:
    """Return a subject's windows in their order, shuffled, or as one stream per class."""
    if order == "shuffled":
        return [np.random.default_rng(seed).permutation(rows)]
    if order == "alone":
        return [rows[y[rows] == k] for k in np.unique(y[rows])]
    return [rows]


def main() -> None:
    """Distribute the tasks over processes, and print each as it finishes."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 14
    for part in ("models", "projections", "predictions"):
        (out / part).mkdir(parents=True, exist_ok=True)
    work = tasks(folder)
    if len(sys.argv) > 4:
        work = [task for task in work if task[0] in sys.argv[4].split(",")]
    for count, message in enumerate(run_parallel(run_task, work, folder, out, workers=workers), start=1):
        print(count, len(work), message, flush=True)


if __name__ == "__main__":
    main()
