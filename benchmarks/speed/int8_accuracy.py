"""Accuracy of an int8 encoder on real data: HAPT, each model trained on one subject and tested on another."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.speed import timing
from benchmarks.version_and_date import version_and_date

from sight._util.confusion import confusion, macro_f1_all
from sight.datasets.hapt import HAPT
from sight.methods.sight import SIGHT
from sight.models.export.int8 import quantise
from sight.models.export.onnx import export_onnx
from sight.models.onnx import OnnxSource
from sight.models.train import train
from sight.results.prediction_loop import run
from sight.types import Windows

#: Source and target subjects.
PAIRS = (("1", "2"), ("11", "12"), ("23", "24"))
KINDS = ("float32", "int8")


def int8_scores(pairs: Sequence[tuple[str, str]] = PAIRS, epochs: int = 30) -> dict[str, Any] | None:
    """Return accuracy, macro-F1 and agreement of both encoders, file sizes and times; None if HAPT is not available.

    The int8 ranges are calibrated on windows of the source subject.
    """
    dataset = HAPT(protocol="ucihar")
    try:
        subjects = {name: dataset.windows(name) for pair in pairs for name in pair}
    except (FileNotFoundError, ValueError):
        return None
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path, small = (Path(folder) / f"{kind}.onnx" for kind in KINDS)
        for source, target in pairs:
            export_onnx(train(subjects[source], dataset.classes, epochs=epochs), path)
            quantise(path, small, subjects[source].x)
            models = dict(zip(KINDS, map(OnnxSource, (path, small)), strict=True))
            rows.append({"source": source, "target": target, **_scores(models, subjects[target])})
        sizes = {kind: model.path.stat().st_size / 1024 for kind, model in models.items()}
        x = subjects[target].x
        tasks = {kind: lambda n, model=model: model.encode(x[n % len(x)][None]) for kind, model in models.items()}
        seconds = timing.medians(tasks, rounds=200)
    return {
        **version_and_date(),
        "dataset": "hapt",
        "pairs": rows,
        "file_kb": sizes,
        "ms_per_window": {kind: 1e3 * value for kind, value in seconds.items()},
    }


def _scores(models: dict[str, OnnxSource], target: Windows) -> dict[str, Any]:
    """Return the scores of each encoder on the labelled windows of a subject."""
    labelled = target.label >= 0
    labels = target.label[labelled]
    found: dict[str, Any] = {"windows": int(labelled.sum())}
    predicted = {}
    for kind, model in models.items():
        result = run(SIGHT().bind(model), target)
        predicted[kind] = result.p.argmax(axis=1)[labelled]
        tables = [
            confusion(labels, classes, len(model.classes))
            for classes in (predicted[kind], result.q.argmax(axis=1)[labelled])
        ]
        found[f"accuracy {kind}"] = float((predicted[kind] == labels).mean())
        found[f"macro_f1 {kind}"], found[f"sight macro_f1 {kind}"] = map(macro_f1_all, tables)
    found["agreement"] = float(np.mean(predicted["float32"] == predicted["int8"]))
    return found
