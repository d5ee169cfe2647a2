"""Train source models without one class, and measure which score separates windows of that class from the others.

Run as ``python -m benchmarks.keel.unknown_classes predict WINDOWS OUT [WORKERS]`` on a machine with a GPU and the
folder written by `pack_windows`: one pooled source for each class of HAPT and WISDM without that class, and the scores
of each window of all other subjects. Then ``... unknown_classes score WINDOWS OUT RESULTS`` writes
RESULTS/unknown_classes.csv.
"""

from __future__ import annotations

import csv
import itertools
import json
import sys
from pathlib import Path

import numpy as np
from benchmarks.keel.source_training import read_dataset, run_parallel
from benchmarks.version_and_date import version_and_date

DATASETS = {"hapt-total": range(10), "wisdm": range(10)}  # positions of the source subjects
SEEDS = (0,)
SCORES = ("max p", "max q", "energy", "distance", "cosine", "agreement")
#: Factor from cosines to logits, close to the head's margin that Keel uses (16 to 20 on HAPT, 28 to 33 on WISDM).
SCALE = 20
#: Share of windows of known classes below the threshold.
COST = 0.05


def predict(task: tuple[str, int, int], folder: Path, out: Path) -> str:
    """Train a source model without one class, and store the scores of all other subjects' windows."""
    from sight.models.train import train

    dataset, left_out, seed = task
    facts, x, y = read_dataset(folder, dataset)
    edges = np.r_[0, np.cumsum(facts["counts"])]
    subject = np.repeat(np.arange(len(facts["counts"])), facts["counts"])
    classes = [name for k, name in enumerate(facts["classes"]) if k != left_out]
    own = np.isin(subject, DATASETS[dataset]) & (y != left_out)
    source = train(
        (x[own], y[own] - (y[own] > left_out)), classes, epochs=33, batch=256 if own.sum() > 8000 else 64,
        seed=seed, device="cuda", rate_hz=facts["rate_hz"], dataset=dataset,
    )  # fmt: skip
    z, p = source.encode(x)
    found = scores(z, p, source)
    q, change = filtered(z, p, source, edges)
    np.savez_compressed(
        out / f"{dataset}_{left_out}_{seed}.npz", **{k: v.astype(np.float32) for k, v in found.items()}, change=change,
        **{"max q": q.max(axis=1)}, subject=subject, known=y != left_out, source=own,
        right=(q.argmax(axis=1) == y - (y > left_out)),
    )  # fmt: skip
    return f"{dataset} without {facts['classes'][left_out]}, seed {seed}"


def scores(z: np.ndarray, p: np.ndarray, source) -> dict[str, np.ndarray]:
    """Return scores that need only the source model; higher means more likely a known class."""
    stats, weight, bias = source.stats, np.asarray(source.weight), np.asarray(source.bias)
    away, means = z - stats.feature_mean, stats.class_means - stats.feature_mean
    cosines = unit(away) @ unit(means).T
    square = (away**2).sum(axis=1)[:, None] - 2 * away @ means.T + (means**2).sum(axis=1)
    second = np.exp(SCALE * (cosines - cosines.max(axis=1, keepdims=True)))
    return {
        "max p": p.max(axis=1),
        "energy": np.logaddexp.reduce(z @ weight.T + bias, axis=1),
        "distance": -np.sqrt(np.maximum(square, 0)).min(axis=1),
        "cosine": cosines.max(axis=1),
        "agreement": np.minimum(p, second / second.sum(axis=1, keepdims=True)).sum(axis=1),
    }


def unit(rows: np.ndarray) -> np.ndarray:
    """Scale rows to length 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def filtered(z: np.ndarray, p: np.ndarray, source, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return refined probabilities and probabilities of a change, each subject as one stream."""
    from sight.methods.keel import Keel

    adapter = Keel().bind(source)
    q, change = np.empty_like(p), np.empty(len(p), np.float32)
    for first, last in itertools.pairwise(edges):
        q[first:last] = adapter.reset().refine(z[first:last], p[first:last])
        change[first:last] = adapter.trace()["surprise"]
    return q, change


def predict_all(folder: Path, out: Path, workers: int) -> None:
    """Distribute the trainings over processes, and print each as it finishes."""
    out.mkdir(parents=True, exist_ok=True)
    counts = {name: len(json.loads((folder / f"{name}.json").read_text())["classes"]) for name in DATASETS}
    work = [(name, k, seed) for seed in SEEDS for name in ("wisdm", "hapt-total") for k in range(counts[name])]
    for count, message in enumerate(run_parallel(predict, work, folder, out, workers=workers), start=1):
        print(count, len(work), message, flush=True)


def score(windows: Path, stored: Path, results: Path) -> None:
    """Write one row for each class left out and each score, then their means, which are printed."""
    from sight.apps.bench.analyses import area_under_curve

    rows = []
    for path in sorted(stored.glob("*.npz")):
        dataset, left_out, _ = path.stem.split("_")
        found = np.load(path)
        subject, known = found["subject"], found["known"]
        targets = np.setdiff1d(subject, subject[found["source"]])
        for name in SCORES:
            by_target = [found[name][subject == i] for i in targets]
            is_known = [known[subject == i] for i in targets]
            area = np.nanmean([area_under_curve(s[k], s[~k]) for s, k in zip(by_target, is_known, strict=True)])
            values, mask = np.concatenate(by_target), np.concatenate(is_known)
            detected = (values[~mask] < np.quantile(values[mask], COST)).mean()
            what = json.loads((windows / f"{dataset}.json").read_text())["classes"][int(left_out)]
            rows.append((dataset, what, name, float(area), float(detected)))
    for dataset, name in itertools.product(DATASETS, SCORES):
        own = [row[3:] for row in rows if row[0] == dataset and row[2] == name]
        rows.append((dataset, "mean", name, *(float(value) for value in np.mean(own, axis=0))))
    with (results / "unknown_classes.csv").open("w", newline="") as file:
        writer, facts = csv.writer(file, lineterminator="\n"), version_and_date()
        heads = ("dataset", "left_out", "score", "auroc", "unknown_detected_at_5_percent_false_alarms")
        writer.writerow([*heads, *facts])
        writer.writerows((*row[:3], f"{row[3]:.3f}", f"{row[4]:.3f}", *facts.values()) for row in rows)
    for row in rows[-len(DATASETS) * len(SCORES) :]:
        print(*row)


if __name__ == "__main__":
    if sys.argv[1] == "predict":
        predict_all(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 14)
    else:
        score(*(Path(name) for name in sys.argv[2:5]))
