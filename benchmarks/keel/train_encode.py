"""Train every source model of the eleven settings on a GPU, and encode all subjects.

Run as ``python -m benchmarks.keel.train_encode WINDOWS OUT [WORKERS]`` with the folder written by `pack_windows`.
Writes one file per model: OUT/models, the checkpoint; OUT/projections, what a method that is linear in the features can
use of them.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.keel.source_training import Task, read_dataset, run_parallel, tasks, train_source


def run_task(task: Task, folder: Path, out: Path) -> str:
    """Train one source model, encode all subjects, and store both."""
    dataset, kind, subjects, seed = task
    facts, x, _ = read_dataset(folder, dataset)
    began = time.time()
    source, rows = train_source(task, folder)
    trained = time.time()
    z, _ = source.encode(x)
    source.to("cpu")
    name = f"{dataset}_{kind}_{facts['subjects'][subjects[0]][:8]}_{seed}"
    source.save(out / "models" / f"{name}.safetensors")
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


def main() -> None:
    """Distribute the tasks over processes, and print each as it finishes."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 14
    for part in ("models", "projections"):
        (out / part).mkdir(parents=True, exist_ok=True)
    work = tasks(folder)
    if len(sys.argv) > 4:
        work = [task for task in work if task[0] in sys.argv[4].split(",")]
    for count, message in enumerate(run_parallel(run_task, work, folder, out, workers=workers), start=1):
        print(count, len(work), message, flush=True)


if __name__ == "__main__":
    main()
