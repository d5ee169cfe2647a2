"""Accuracy of an int8 encoder on real data: HAPT, trained on one subject, tested on another."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from sight.datasets.hapt import HAPT
from sight.evaluate import run
from sight.methods.none import SourceOnly
from sight.methods.sight import SIGHT
from sight.metrics import confusion, macro_f1_all
from sight.sources.onnx import OnnxSource
from sight.sources.onnx_export import export_onnx
from sight.sources.quantise import quantise
from sight.train import train


def int8_scores(source: str = "1", target: str = "2", epochs: int = 20) -> dict[str, Any] | None:
    """Return macro-F1 of a float32 and an int8 encoder, without and with SIGHT; None if HAPT is not available.

    The int8 ranges are calibrated on windows of the source subject.
    """
    dataset = HAPT()
    try:
        first, second = dataset.windows(source), dataset.windows(target)
    except (FileNotFoundError, ValueError):
        return None
    trained = train(first, dataset.classes, epochs=epochs)
    labelled = second.label >= 0
    found: dict[str, Any] = {"dataset": "hapt", "source": source, "target": target, "windows": int(labelled.sum())}
    with tempfile.TemporaryDirectory() as folder:
        path = export_onnx(trained, Path(folder) / "float32.onnx")
        small = quantise(path, Path(folder) / "int8.onnx", first.x[::2])
        found["file_kb"] = {kind.stem: kind.stat().st_size / 1024 for kind in (path, small)}
        for file in (path, small):
            for adapter in (SourceOnly(), SIGHT()):
                predicted = run(adapter.bind(OnnxSource(file)), second).q.argmax(axis=1)
                table = confusion(second.label[labelled], predicted[labelled], len(dataset.classes))
                found[f"{adapter.name} {file.stem} macro_f1"] = macro_f1_all(table)
    return found
