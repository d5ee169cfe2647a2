"""Scores methods on a sensor at another place: a model of the waist (HAPT) on the right thigh (HuGaDB).

Run as ``python -m benchmarks.keel.moved_sensor MODEL OUT``. MODEL is a checkpoint that `sight train` made from HAPT,
three axes of total acceleration in g. The axis of gravity while standing, which a user can find, becomes the vertical
axis of the model; the other two stay in their order. Running is left out, as the model has no such class. Writes
OUT/moved_sensor.csv, one row per method and subject.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sight import registry
from sight.datasets import windows_of
from sight.models.load import load
from sight.results import metrics

NAMES = {
    "walk": "walking",
    "up": "walking_upstairs",
    "down": "walking_downstairs",
    "sit": "sitting",
    "stand": "standing",
}
METHODS: dict[str, dict[str, Any]] = {
    "none": {},
    "sticky": {},
    "rotta": {},
    "keel": {},
    "keel-norm": {},
    "keel-norm, no tolerance": {"tolerance": 0.0},
}


def upright(x: np.ndarray, standing: np.ndarray) -> np.ndarray:
    """Return windows (N, 3, T) whose first axis points up while standing."""
    gravity = x[standing].mean((0, 2))
    vertical = int(abs(gravity).argmax())
    order = [vertical, *(axis for axis in range(3) if axis != vertical)]
    return x[:, order] * np.array([np.sign(gravity[vertical]), 1, 1], np.float32)[:, None]


def main(model: str, out: str) -> None:
    """Write the scores of all methods and subjects."""
    source, dataset = load(model), registry.get("datasets", "hugadb")()
    card = source.card
    classes = np.array([card.classes.index(NAMES[name]) if name in NAMES else -1 for name in dataset.classes])
    rows = []
    for subject in dataset.subjects():
        windows = windows_of(dataset, subject, rate_hz=card.rate_hz, window_s=card.window_s, stride_s=card.stride_s)
        x = upright(windows.x[:, :3], windows.label == dataset.classes.index("stand"))
        truth = np.where(windows.label >= 0, classes[windows.label], -1)
        for label, params in METHODS.items():
            adapter = registry.method(label.partition(",")[0], **params).bind(source)
            chunks = [adapter.step(x[start : start + 32]) for start in range(0, len(x), 32)]
            predicted = np.concatenate(chunks).argmax(1)[truth >= 0]
            known = truth[truth >= 0]
            table = metrics.confusion(known, predicted, len(card.classes))
            scores = metrics.accuracy(table), metrics.macro_f1_union(table)
            rows.append((label, subject, len(known), *(f"{100 * score:.2f}" for score in scores)))
        print(subject, len(x), flush=True)
    with (Path(out) / "moved_sensor.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("method", "subject", "windows", "accuracy", "macro_f1"))
        writer.writerows(sorted(rows, key=lambda row: list(METHODS).index(row[0])))


if __name__ == "__main__":
    main(*sys.argv[1:])
