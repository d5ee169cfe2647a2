"""Cut the windows of the nine settings and pack them, float16, into one folder that a training machine can be given.

Run as ``SIGHT_DATA=... python benchmarks/beyond/windows.py FOLDER``.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

import numpy as np

from sight.datasets import load, windows_of

CORPORA = {
    "hapt-total": ("hapt", {"protocol": "ucihar", "acc": "total_acc"}, {}),
    "hapt-body": ("hapt", {"protocol": "ucihar", "acc": "body_acc"}, {}),
    "hugadb": ("hugadb", {}, {"unlabelled": "drop"}),
    "wisdm": ("wisdm2019", {}, {"unlabelled": "drop"}),
    "extrasensory": ("extrasensory", {"columns": "motion"}, {"unlabelled": "drop"}),
}


def pack(folder: Path, name: str) -> None:
    """Write `name.bin.xz` (all windows, float16) and `name.json` (who, how many, labels, classes)."""
    corpus, options, windowing = CORPORA[name]
    dataset = load(corpus, **options)
    people = {subject: windows_of(dataset, subject, **windowing) for subject in dataset.subjects()}
    x = np.concatenate([windows.x for windows in people.values()]).astype(np.float16)
    facts = {
        "classes": list(dataset.classes),
        "shape": list(x.shape),
        "rate_hz": float(next(iter(people.values())).x.shape[2] / next(iter(people.values())).window_s),
        "subjects": list(people),
        "counts": [len(windows.label) for windows in people.values()],
        "labels": [windows.label.tolist() for windows in people.values()],
        "gaps": [windows.gap_before_s.tolist() for windows in people.values()],
    }
    (folder / f"{name}.json").write_text(json.dumps(facts))
    (folder / f"{name}.bin.xz").write_bytes(lzma.compress(x.tobytes(), preset=1))
    print(name, x.shape, dataset.classes, f"{(folder / f'{name}.bin.xz').stat().st_size / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for corpus_name in sys.argv[2:] or CORPORA:
        pack(target, corpus_name)
