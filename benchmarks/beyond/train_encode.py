"""Train every source model of the nine settings on a GPU, encode everybody, run the rivals, and keep the projections.

Run as ``PYTHONPATH=src python benchmarks/beyond/train_encode.py WINDOWS OUT [WORKERS]`` with the folder that
`windows.py` wrote. One file a model is left in OUT/projections: what an output method that is linear in the features
can ever see of them (logits, products with the centred class means, lengths), and the labels each rival answered.
Checkpoints are left in OUT/models.
"""

from __future__ import annotations

import json
import lzma
import os
import sys
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import torch
import torch.multiprocessing as mp

HAPT = (["1", "2", "3", "4", "5", "7", "8", "9"], [range(10), range(10, 20)])
SETTINGS = {  # corpus: single sources by name, pooled sources by position among the subjects
    "wisdm": (["1600", "1603", "1606", "1610"], None),
    "hugadb": (["1", "4", "8", "13"], [range(8), range(8, 17)]),
    "extrasensory": ([], [range(7), range(7, 14)]),
    "hapt-total": HAPT,
    "hapt-body": HAPT,
}
SEEDS = (0, 1, 2)
RIVALS = {
    "sight": {},
    "sight-authors": {"method": "sight", "variant": "authors"},
    "ema": {},
    "sticky": {},
    "sticky-learned": {},
    "oatta": {},
    "lame": {},
    "t3a": {},
    **json.loads(os.environ.get("EXTRA_METHODS", "{}")),
}


def tasks(folder: Path) -> list[tuple[str, str, list[int], int]]:
    """List (corpus, "S" or "P", positions of the source's people, seed), the longest trainings first."""
    found = []
    for corpus, (single, pooled) in SETTINGS.items():
        subjects = json.loads((folder / f"{corpus}.json").read_text())["subjects"]
        if pooled is None:
            names = [[str(s) for s in range(1600, 1610)], [str(s) for s in range(1612, 1622)]]
            pooled = [[subjects.index(s) for s in group if s in subjects] for group in names]
        for seed in SEEDS:
            found += [(corpus, "P", list(group), seed) for group in pooled]
            found += [(corpus, "S", [subjects.index(name)], seed) for name in single]
    return sorted(found, key=lambda task: (task[1] == "S", not task[0].startswith(("extra", "wisdm", "hugadb"))))


def corpus_of(folder: Path, name: str) -> tuple[dict, np.ndarray, np.ndarray]:
    facts = json.loads((folder / f"{name}.json").read_text())
    raw = lzma.decompress((folder / f"{name}.bin.xz").read_bytes())
    x = np.frombuffer(raw, np.float16).reshape(facts["shape"]).astype(np.float32)
    return facts, np.clip(x, -65504, 65504), np.concatenate(facts["labels"]).astype(np.int64)


def one(task: tuple, facts: dict, x: np.ndarray, y: np.ndarray, out: Path) -> str:
    from sight.train import train

    corpus, kind, people, seed = task
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
    stats, weight, bias = source.stats, np.asarray(source.weight), np.asarray(source.bias)
    centred = stats.class_means.astype(np.float64) - stats.feature_mean
    length = np.maximum(np.linalg.norm(centred, axis=1), 1e-9)
    away = z - stats.feature_mean
    logits = z @ weight.T + bias
    answers = rivals(z, p, weight, stats, edges, people)
    spread = z[rows].std(axis=0)
    np.savez(
        out / "projections" / f"{name}.npz",
        logits=(logits - logits.mean(axis=1, keepdims=True)).astype(np.float16),
        along=(away @ (centred / length[:, None]).T).astype(np.float16),
        square=np.einsum("nd,nd->n", away, away).astype(np.float32),
        gram=(centred @ centred.T).astype(np.float32),
        class_logits=(stats.class_means @ weight.T + bias).astype(np.float32),
        mean_logits=(weight @ stats.feature_mean + bias).astype(np.float32),
        head_gram=(weight @ weight.T).astype(np.float32),
        prior=stats.prior,
        people=np.array(people),
        aligned=scaled(z, stats.feature_mean, spread, weight, bias, edges).astype(np.float16),
        **{f"answers_{key}": value for key, value in answers.items()},
    )
    return f"{name} {len(rows)} windows, trained {trained - began:.0f} s, all {time.time() - began:.0f} s"


def scaled(z, mean, spread, weight, bias, edges) -> np.ndarray:
    """Logits after the running mean and deviation of each feature are brought to the source's (100 pseudo-counts)."""
    rows = []
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        part = torch.from_numpy(z[first:last]).cuda().double()
        mu, sd = torch.from_numpy(mean).cuda().double(), torch.from_numpy(spread).cuda().double()
        n = torch.arange(1, len(part) + 1, device="cuda")[:, None] + 100
        m = (100 * mu + part.cumsum(0)) / n
        v = (100 * (sd**2 + mu**2) + part.square().cumsum(0)) / n - m**2
        new = mu + (part - m) * (sd + 1e-3) / (v.clamp_min(0).sqrt() + 1e-3)
        logits = new @ torch.from_numpy(weight).cuda().double().T
        rows.append((logits - logits.mean(1, keepdim=True)).cpu().numpy() + bias - bias.mean())
    return np.concatenate(rows)


def rivals(z, p, weight, stats, edges, people) -> dict[str, np.ndarray]:
    from sight.registry import method
    from sight.sources.features import FeatureSource

    answers = {name: np.full(len(p), -1, np.int8) for name in RIVALS}
    for name, fields in RIVALS.items():
        fields = dict(fields)
        adapter = method(fields.pop("method", name), **fields)
        adapter.bind(FeatureSource(weight, stats=stats))
        for i, (first, last) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
            if i not in people:
                adapter.reset()
                answers[name][first:last] = adapter.refine(z[first:last], p[first:last]).argmax(axis=1)
    return answers


def worker(queue: mp.SimpleQueue, done: mp.SimpleQueue, folder: Path, out: Path) -> None:
    torch.set_num_threads(1)
    cache: dict = {}
    while (task := queue.get()) is not None:
        try:
            if task[0] not in cache:
                cache[task[0]] = corpus_of(folder, task[0])
            done.put(one(task, *cache[task[0]], out))
        except Exception as error:  # noqa: BLE001 - told, and the others go on
            import traceback

            done.put(f"FAILED {task[:2]} {task[3]}: {error!r} {traceback.format_exc()[-600:]}")


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 14
    for part in ("models", "projections"):
        (out / part).mkdir(parents=True, exist_ok=True)
    todo = tasks(folder)
    if len(sys.argv) > 4:
        todo = [task for task in todo if task[0] in sys.argv[4].split(",")]
    context = mp.get_context("spawn")
    queue, done = context.SimpleQueue(), context.SimpleQueue()
    for task in [*todo, *[None] * workers]:
        queue.put(task)
    people = [context.Process(target=worker, args=(queue, done, folder, out)) for _ in range(workers)]
    for person in people:
        person.start()
    for i in range(len(todo)):
        print(i + 1, len(todo), done.get(), flush=True)
    for person in people:
        person.join()


if __name__ == "__main__":
    main()
