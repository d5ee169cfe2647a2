"""The sources of the nine settings: which there are to train, on whose windows, and processes that share the work."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sight.parallel import map_unordered

HAPT = (["1", "2", "3", "4", "5", "7", "8", "9"], [range(10), range(10, 20)])
SETTINGS = {  # corpus: single sources by name, pooled sources by position among the subjects
    "wisdm": (["1600", "1603", "1606", "1610"], [range(10), range(12, 22)]),
    "hugadb": (["1", "4", "8", "13"], [range(8), range(8, 17)]),
    "extrasensory": ([], [range(7), range(7, 14)]),
    "hapt-total": HAPT,
    "hapt-body": HAPT,
}
SEEDS = (0, 1, 2)


def tasks(folder: Path) -> list[tuple[str, str, list[int], int]]:
    """List (corpus, "S" or "P", positions of the source's people, seed), the longest trainings first."""
    found = []
    for corpus, (single, pooled) in SETTINGS.items():
        subjects = json.loads((folder / f"{corpus}.json").read_text())["subjects"]
        for seed in SEEDS:
            found += [(corpus, "P", list(group), seed) for group in pooled]
            found += [(corpus, "S", [subjects.index(name)], seed) for name in single]
    return sorted(found, key=lambda task: (task[1] == "S", not task[0].startswith(("extra", "wisdm", "hugadb"))))


@cache
def corpus_of(folder: Path, name: str) -> tuple[dict, np.ndarray, np.ndarray]:
    """Unpack a corpus, once in a process: its facts, windows (N, C, T) and labels (N,)."""
    facts = json.loads((folder / f"{name}.json").read_text())
    raw = lzma.decompress((folder / f"{name}.bin.xz").read_bytes())
    x = np.frombuffer(raw, np.float16).reshape(facts["shape"]).astype(np.float32)
    return facts, np.clip(x, -65504, 65504), np.concatenate(facts["labels"]).astype(np.int64)


def share(function: Callable[..., Any], todo: Sequence[tuple], *same: Any, workers: int) -> Iterator[Any]:
    """Call ``function(task, *same)`` in processes of one thread and yield the results as they come.

    A task that fails is printed, and the others go on.
    """
    for at, (result, error) in map_unordered(_tried, [(function, task, same) for task in todo], jobs=workers):
        if error:
            print(f"FAILED {todo[at]}: {error}", flush=True)
        else:
            yield result


def _tried(function: Callable[..., Any], task: tuple, same: tuple) -> tuple[Any, str]:
    try:
        return function(task, *same), ""
    except Exception as error:
        return None, repr(error)
