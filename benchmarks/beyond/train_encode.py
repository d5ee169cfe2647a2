"""Train every source model of the nine settings on a GPU, encode everybody, and run the methods on them.

Run as ``PYTHONPATH=src python benchmarks/beyond/train_encode.py WINDOWS OUT [WORKERS]`` with the folder that
`windows.py` wrote. Left behind, one file a model: OUT/models, the checkpoint; OUT/projections, what an output method
that is linear in the features can see of them, for research; OUT/answers, the label each method gave each window.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import numpy as np
from trainings import corpus_of, share, tasks

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
#: Methods that are also sent streams without order, and streams of one class.
STRESSED = ("sticky", "sight", "keel")


def one(task: tuple, folder: Path, out: Path) -> str:
    """Train one source, let every method answer everybody else, and keep what came of it."""
    from sight.train import train

    corpus, kind, people, seed = task
    facts, x, y = corpus_of(folder, corpus)
    began = time.time()
    edges = np.r_[0, np.cumsum(facts["counts"])]
    rows = np.concatenate([np.arange(edges[i], edges[i + 1]) for i in people])
    source = train(
        (x[rows], y[rows]),
        facts["classes"],
        encoder="mlp" if corpus == "extrasensory" else "cnn",
        epochs=33 if kind == "P" else 100,
        batch=256 if len(rows) > 8000 else 64,
        seed=seed,
        device="cuda",
        rate_hz=facts["rate_hz"],
        dataset=corpus,
    )
    trained = time.time()
    z, p = source.encode(x)
    source.to("cpu")
    name = f"{corpus}_{kind}_{facts['subjects'][people[0]][:8]}_{seed}"
    source.save(out / "models" / f"{name}.safetensors")
    weight = np.asarray(source.weight)
    np.savez_compressed(
        out / "answers" / f"{name}.npz",
        people=np.array(people),
        **everybody(z, p, weight, source.stats, edges, y, people),
    )
    np.savez(out / "projections" / f"{name}.npz", people=np.array(people), **projections(z, source))
    return f"{name} {len(rows)} windows, trained {trained - began:.0f} s, all {time.time() - began:.0f} s"


def projections(z: np.ndarray, source) -> dict[str, np.ndarray]:
    """All that a method which is linear in the features can see of them, and the source's own constants."""
    stats, weight, bias = source.stats, np.asarray(source.weight), np.asarray(source.bias)
    centred = stats.class_means.astype(np.float64) - stats.feature_mean
    length = np.maximum(np.linalg.norm(centred, axis=1), 1e-9)
    away, logits = z - stats.feature_mean, z @ weight.T + bias
    return {
        "logits": (logits - logits.mean(axis=1, keepdims=True)).astype(np.float16),
        "along": (away @ (centred / length[:, None]).T).astype(np.float16),
        "square": np.einsum("nd,nd->n", away, away).astype(np.float32),
        "gram": (centred @ centred.T).astype(np.float32),
        "class_logits": (stats.class_means @ weight.T + bias).astype(np.float32),
        "mean_logits": (weight @ stats.feature_mean + bias).astype(np.float32),
        "prior": stats.prior,
    }


def everybody(z, p, weight, stats, edges, y, people) -> dict[str, np.ndarray]:
    """Labels that each method answers for everybody outside the source, -1 inside it."""
    from sight.registry import method
    from sight.sources.features import FeatureSource

    answers: dict[str, np.ndarray] = {}
    for name, changes in METHODS.items():
        fields = dict(changes)
        known = stats if fields.pop("stats", True) else None
        adapter = method(fields.pop("method", name), **fields).bind(FeatureSource(weight, stats=known))
        for order in ("chronological", "shuffled", "alone") if name in STRESSED else ("chronological",):
            found = np.full(len(p), -1, np.int8)
            for i, (first, last) in enumerate(itertools.pairwise(edges)):
                for rows in streams(order, np.arange(first, last), y, i) if i not in people else ():
                    found[rows] = adapter.reset().refine(z[rows], p[rows]).argmax(axis=1)
            answers[name if order == "chronological" else f"{name}@{order}"] = found
    found = np.full(len(p), -1, np.int8)
    for i, (first, last) in enumerate(itertools.pairwise(edges)):
        if i not in people:
            found[first:last] = composite(z[first:last], p[first:last], weight, stats)
    return answers | {"composite A": found}


def composite(z, p, weight, stats) -> np.ndarray:
    """Answer as the quick composite that this work began with: half alignment, marginal, sticky 0.5 (100 windows)."""
    belief, shares, drift = None, 100 * np.maximum(stats.prior, 1e-6), np.zeros(len(weight))
    labels = np.empty(len(p), np.int8)
    for t, (feature, answer) in enumerate(zip(z, p, strict=True)):
        drift = drift + weight @ (feature - stats.feature_mean)
        logits = np.log(np.maximum(answer, 1e-30)) - 0.5 * drift / (t + 101)
        logits = logits - np.log(shares / shares.sum() / np.maximum(stats.prior, 1e-6))
        now = np.exp(logits - logits.max())
        now /= now.sum()
        shares = shares + now
        belief = now if belief is None else now * (0.5 * belief + 0.5 / len(now))
        belief = belief / belief.sum()
        labels[t] = belief.argmax()
    return labels


def streams(order: str, rows: np.ndarray, y: np.ndarray, seed: int) -> list[np.ndarray]:
    """Lay a person's windows out as they were, shuffled, or as one stream for each class."""
    if order == "shuffled":
        return [np.random.default_rng(seed).permutation(rows)]
    if order == "alone":
        return [rows[y[rows] == k] for k in np.unique(y[rows])]
    return [rows]


def main() -> None:
    """Share the tasks among processes and print each as it ends."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 14
    for part in ("models", "projections", "answers"):
        (out / part).mkdir(parents=True, exist_ok=True)
    todo = tasks(folder)
    if len(sys.argv) > 4:
        todo = [task for task in todo if task[0] in sys.argv[4].split(",")]
    for i, told in enumerate(share(one, todo, folder, out, workers=workers), start=1):
        print(i, len(todo), told, flush=True)


if __name__ == "__main__":
    main()
