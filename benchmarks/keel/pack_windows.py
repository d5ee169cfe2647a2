"""Pack the windows of the eleven settings as float16 into one folder for a training machine.

Run as ``SIGHT_DATA=... python -m benchmarks.keel.pack_windows FOLDER``.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

import numpy as np

from sight.datasets import load, windows_of

DATASETS = {
    "hapt-total": ("hapt", {"protocol": "ucihar", "acc": "total_acc"}, {}),
    "hapt-body": ("hapt", {"protocol": "ucihar", "acc": "body_acc"}, {}),
    "hugadb": ("hugadb", {}, {"unlabelled": "drop"}),
    "wisdm": ("wisdm2019", {}, {"unlabelled": "drop"}),
    "uschad": ("uschad", {}, {}),
    "extrasensory": ("extrasensory", {"columns": "motion"}, {"unlabelled": "drop"}),
}


def pack(folder: Path, name: str) -> None:
    """Write `name.bin.xz` (all windows, float16) and `name.json` (subjects, counts, labels, classes)."""
    dataset_name, options, windowing = DATASETS[name]
    dataset = load(dataset_name, **options)
    subjects = {subject: windows_of(dataset, subject, **windowing) for subject in dataset.subjects()}
    x = np.concatenate([windows.x for windows in subjects.values()]).astype(np.float16)
    first = next(iter(subjects.values()))
    facts = {
        "classes": list(dataset.classes),
        "shape": list(x.shape),
        "rate_hz": float(first.x.shape[2] / first.window_s),
        "subjects": list(subjects),
        "counts": [len(windows.label) for windows in subjects.values()],
        "labels": [windows.label.tolist() for windows in subjects.values()],
        "gaps": [windows.gap_before_s.tolist() for windows in subjects.values()],
    }
    (folder / f"{name}.json").write_text(json.dumps(facts))
    (folder / f"{name}.bin.xz").write_bytes(lzma.compress(x.tobytes(), preset=1))
    print(name, x.shape, dataset.classes, f"{(folder / f'{name}.bin.xz').stat().st_size / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for selected in sys.argv[2:] or DATASETS:
        pack(target, selected)
