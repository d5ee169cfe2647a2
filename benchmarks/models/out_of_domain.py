"""Measure how often the out-of-domain check warns, rightly and wrongly.

Run as ``python -m benchmarks.models.out_of_domain OUT.csv``, with the datasets in ``SIGHT_DATA``. Each subject of the
model's dataset is left out in turn: the domain is computed from the others, and the check is applied to the subject's
windows as recorded (a warning is a false alarm), with a wrong unit, without gravity and with turned axes. Subjects of
the other datasets are other placements; since their recordings are short, they are repeated to an hour.
"""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.version_and_date import version_and_date

from sight.apps.stream.session import EXAMINED
from sight.datasets import load
from sight.models.card import ModelCard
from sight.models.training_domain import Domain, describe
from sight.recordings.recording_collection import windows_of

Array = np.ndarray
#: Model to dataset, orientations of training, rate, window and stride.
MODELS = {
    "wrist": ("wisdm2019", "wrist", 20.0, 10.0, 5.0),
    "waist": ("hapt", "fixed", 50.0, 2.56, 1.28),
}
#: Dataset to options, unit in g and placement.
DATASETS: dict[str, tuple[dict[str, Any], float, str]] = {
    "wisdm2019": ({}, 1 / 9.80665, "wrist (WISDM)"),
    "hapt": ({"gyro": False}, 1.0, "waist (HAPT)"),
    "hugadb": ({}, 1.0, "thigh (HuGaDB)"),
}
CHANGES: dict[str, Callable[[Array], Array]] = {
    "as recorded": lambda x: x,
    "m/s^2 read as g": lambda x: x * 9.80665,
    "g read as m/s^2": lambda x: x / 9.80665,
    "mg read as g": lambda x: x * 1000,
    "gravity removed": lambda x: x - x.mean(axis=2, keepdims=True),
    "x and y swapped": lambda x: x[:, [1, 0, 2]],
    "y and z swapped": lambda x: x[:, [0, 2, 1]],
    "x and z swapped": lambda x: x[:, [2, 1, 0]],
    "x flipped": lambda x: x * np.array([[-1], [1], [1]], np.float32),
    "y flipped": lambda x: x * np.array([[1], [-1], [1]], np.float32),
    "z flipped": lambda x: x * np.array([[1], [1], [-1]], np.float32),
}


def windows(model: str, dataset: str) -> dict[str, Array]:
    """Return the windows (N, 3, T) of each subject in g, cut as the model needs them."""
    _, _, rate_hz, window_s, stride_s = MODELS[model]
    options, unit_g, _ = DATASETS[dataset]
    data = load(dataset, **options)
    cutting = {"rate_hz": rate_hz, "window_s": window_s, "stride_s": stride_s}
    return {who: windows_of(data, who, **cutting).x[:, :3] * np.float32(unit_g) for who in data.subjects()}


def domain(model: str, subjects: list[Array]) -> Domain:
    """Return the domain of a model trained on these subjects."""
    _, mounts, rate_hz, window_s, stride_s = MODELS[model]
    card = ModelCard(
        encoder="resnet",
        encoder_args={},
        classes=("a", "b"),
        channels=("x", "y", "z"),
        units=("g",) * 3,
        rate_hz=rate_hz,
        window_s=window_s,
        stride_s=stride_s,
        mean=(0.0,) * 3,
        std=(1.0,) * 3,
        domain=describe(subjects, ("g",) * 3, rate_hz, mounts),
    )
    found = Domain.of(card)
    assert found is not None
    return found


def rows(model: str) -> Iterator[dict[str, Any]]:
    """Yield one row per subject and change: whether the check of a recording and of a stream warns."""
    own, _, _, _, stride_s = MODELS[model]
    subjects = windows(model, own)
    for who, x in subjects.items():
        check = domain(model, [other for name, other in subjects.items() if name != who])
        for change, apply in CHANGES.items():
            yield {"model": model, "input": change, "subject": who, **_outcome(check, apply(x))}
    check = domain(model, list(subjects.values()))
    for dataset in DATASETS:
        for who, x in windows(model, dataset).items() if dataset != own else ():
            repeated = x[np.arange(max(len(x), round(3600 / stride_s))) % len(x)]
            yield {"model": model, "input": DATASETS[dataset][2], "subject": who, **_outcome(check, repeated)}


def _outcome(check: Domain, x: Array) -> dict[str, Any]:
    statistics = check.statistics(x)
    found = check.warnings(statistics)
    return {
        "windows": len(x),
        "unfamiliar_share": round(check.unfamiliar(statistics), 4),
        "recording_warns": int(bool(found)),
        "stream_warns": int(bool(check.warnings(statistics[:EXAMINED]))),
    }


if __name__ == "__main__":
    facts = version_and_date()
    table = [row | facts for row in itertools.chain.from_iterable(rows(model) for model in MODELS)]
    with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
