"""Leave one class out of the source, and ask which score tells its windows, once a wearer does it, from the others.

Run as ``PYTHONPATH=src python benchmarks/beyond/abstain.py answers WINDOWS OUT [WORKERS]`` on a machine with a GPU and
the folder that `windows.py` wrote: one pooled source for each class of HAPT and WISDM without that class, and for
everybody outside the source the scores of each window. Then ``abstain.py score WINDOWS OUT RESULTS`` writes
RESULTS/abstain.csv.
"""

from __future__ import annotations

import csv
import itertools
import json
import sys
from pathlib import Path

import numpy as np
from trainings import corpus_of, share

CORPORA = {"hapt-total": range(10), "wisdm": range(10)}  # positions of the source's people
SEEDS = (0,)
SCORES = ("max p", "max q", "energy", "distance", "cosine", "agreement")
#: From cosines to logits, about as Keel scales them to the head's margin (16 to 20 on HAPT, 28 to 33 on WISDM).
SCALE = 20
#: Share of known windows that a threshold may cost.
COST = 0.05


def answer(task: tuple[str, int, int], folder: Path, out: Path) -> str:
    """Train a source without one class and store what each score says of everybody else's windows."""
    from sight.train import train

    corpus, left_out, seed = task
    facts, x, y = corpus_of(folder, corpus)
    edges = np.r_[0, np.cumsum(facts["counts"])]
    person = np.repeat(np.arange(len(facts["counts"])), facts["counts"])
    classes = [name for k, name in enumerate(facts["classes"]) if k != left_out]
    own = np.isin(person, CORPORA[corpus]) & (y != left_out)
    source = train(
        (x[own], y[own] - (y[own] > left_out)), classes, epochs=33, batch=256 if own.sum() > 8000 else 64,
        seed=seed, device="cuda", rate_hz=facts["rate_hz"], dataset=corpus,
    )  # fmt: skip
    z, p = source.encode(x)
    found = scores(z, p, source)
    q, change = filtered(z, p, source, edges)
    np.savez_compressed(
        out / f"{corpus}_{left_out}_{seed}.npz", **{k: v.astype(np.float32) for k, v in found.items()}, change=change,
        **{"max q": q.max(axis=1)}, person=person, known=y != left_out, source=own,
        right=(q.argmax(axis=1) == y - (y > left_out)),
    )  # fmt: skip
    return f"{corpus} without {facts['classes'][left_out]}, seed {seed}"


def scores(z: np.ndarray, p: np.ndarray, source) -> dict[str, np.ndarray]:
    """Scores that need nothing but the source; higher is better known."""
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
    """Refined answers and probabilities of a change, each person a stream of their own."""
    from sight.methods.keel import Keel

    adapter = Keel().bind(source)
    q, change = np.empty_like(p), np.empty(len(p), np.float32)
    for first, last in itertools.pairwise(edges):
        q[first:last] = adapter.reset().refine(z[first:last], p[first:last])
        change[first:last] = adapter.trace()["surprise"]
    return q, change


def answers(folder: Path, out: Path, workers: int) -> None:
    """Share the trainings among processes and print each as it ends."""
    out.mkdir(parents=True, exist_ok=True)
    counts = {corpus: len(json.loads((folder / f"{corpus}.json").read_text())["classes"]) for corpus in CORPORA}
    todo = [(corpus, k, seed) for seed in SEEDS for corpus in ("wisdm", "hapt-total") for k in range(counts[corpus])]
    for i, told in enumerate(share(answer, todo, folder, out, workers=workers), start=1):
        print(i, len(todo), told, flush=True)


def score(windows: Path, stored: Path, results: Path) -> None:
    """Write and print a row for each class left out and each score, then their means."""
    from sight.bench.analyses import area_under_curve

    rows = []
    for path in sorted(stored.glob("*.npz")):
        corpus, left_out, _ = path.stem.split("_")
        found = np.load(path)
        person, known = found["person"], found["known"]
        targets = np.setdiff1d(person, person[found["source"]])
        for name in SCORES:
            each = [found[name][person == i] for i in targets]
            mine = [known[person == i] for i in targets]
            area = np.nanmean([area_under_curve(s[k], s[~k]) for s, k in zip(each, mine, strict=True)])
            values, of_known = np.concatenate(each), np.concatenate(mine)
            caught = (values[~of_known] < np.quantile(values[of_known], COST)).mean()
            what = json.loads((windows / f"{corpus}.json").read_text())["classes"][int(left_out)]
            rows.append((corpus, what, name, float(area), float(caught)))
    for corpus, name in itertools.product(CORPORA, SCORES):
        own = [row[3:] for row in rows if row[0] == corpus and row[2] == name]
        rows.append((corpus, "mean", name, *(float(value) for value in np.mean(own, axis=0))))
    with (results / "abstain.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["corpus", "left_out", "score", "auroc", "unknown_found_at_5_percent_known_lost"])
        writer.writerows((*row[:3], f"{row[3]:.3f}", f"{row[4]:.3f}") for row in rows)
    for row in rows[-len(CORPORA) * len(SCORES) :]:
        print(*row)


if __name__ == "__main__":
    if sys.argv[1] == "answers":
        answers(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 14)
    else:
        score(*(Path(name) for name in sys.argv[2:5]))
