"""Source models of the eleven settings: which to train, on which windows, and distribution over processes."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sight._util.parallel import map_unordered

HAPT = (["1", "2", "3", "4", "5", "7", "8", "9"], [range(10), range(10, 20)])
SETTINGS = {  # dataset: single sources by name, pooled sources by position among the subjects
    "wisdm": (["1600", "1603", "1606", "1610"], [range(10), range(12, 22)]),
    "hugadb": (["1", "4", "8", "13"], [range(8), range(8, 17)]),
    "uschad": (["1", "4", "8", "12"], [range(7), range(7, 14)]),
    "extrasensory": ([], [range(7), range(7, 14)]),
    "hapt-total": HAPT,
    "hapt-body": HAPT,
}
SEEDS = (0, 1, 2)

Task = tuple[str, str, list[int], int]  # dataset, "S" or "P", positions of the source subjects, seed


def tasks(folder: Path, datasets: Sequence[str] | None = None) -> list[Task]:
    """Return all source models to train, or those of some datasets, the longest trainings first."""
    found: list[Task] = []
    for dataset in datasets or SETTINGS:
        single, pooled = SETTINGS[dataset]
        subjects = json.loads((folder / f"{dataset}.json").read_text())["subjects"]
        for seed in SEEDS:
            found += [(dataset, "P", list(group), seed) for group in pooled]
            found += [(dataset, "S", [subjects.index(name)], seed) for name in single]
    return sorted(found, key=lambda task: (task[1] == "S", not task[0].startswith(("extra", "wisdm", "hugadb"))))


@cache
def read_dataset(folder: Path, name: str) -> tuple[dict, np.ndarray, np.ndarray]:
    """Return the facts, windows (N, C, T) and labels (N,) of a packed dataset, cached per process."""
    facts = json.loads((folder / f"{name}.json").read_text())
    raw = lzma.decompress((folder / f"{name}.bin.xz").read_bytes())
    x = np.frombuffer(raw, np.float16).reshape(facts["shape"]).astype(np.float32)
    return facts, np.clip(x, -65504, 65504), np.concatenate(facts["labels"]).astype(np.int64)


def train_source(task: Task, folder: Path, **options: Any) -> tuple[Any, np.ndarray]:
    """Train the source model of a task, by default on CUDA; return it with the indices of its training windows."""
    from sight.models.train import train

    dataset, kind, subjects, seed = task
    facts, x, y = read_dataset(folder, dataset)
    edges = np.r_[0, np.cumsum(facts["counts"])]
    rows = np.concatenate([np.arange(edges[i], edges[i + 1]) for i in subjects])
    defaults: dict[str, Any] = {
        "encoder": "mlp" if dataset == "extrasensory" else "cnn",
        "epochs": 33 if kind == "P" else 100,
        "batch": 256 if len(rows) > 8000 else 64,
        "device": "cuda",
    }
    source = train(
        (x[rows], y[rows]),
        facts["classes"],
        seed=seed,
        rate_hz=facts["rate_hz"],
        dataset=dataset,
        **(defaults | options),
    )
    return source, rows


def run_parallel(function: Callable[..., Any], work: Sequence[tuple], *shared: Any, workers: int) -> Iterator[Any]:
    """Call ``function(task, *shared)`` in single-threaded processes, and yield results as they finish.

    A failed task is printed; the others continue.
    """
    calls = [(function, task, shared) for task in work]
    for index, (result, error) in map_unordered(_call, calls, jobs=workers):
        if error:
            print(f"FAILED {work[index]}: {error}", flush=True)
        else:
            yield result


def _call(function: Callable[..., Any], task: tuple, shared: tuple) -> tuple[Any, str]:
    try:
        return function(task, *shared), ""
    except Exception as error:
        return None, repr(error)
