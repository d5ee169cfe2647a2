"""Accuracy of bundled models, encoded in C (float32 and int8), refined in Python, on the subjects of their datasets."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.device.host_library import Library
from benchmarks.models.pack import PACKED
from benchmarks.models.specs import MODELS

import sight
from sight.datasets import load
from sight.models.export.c import export_c
from sight.recordings.recording_collection import windows_of
from sight.registry import method
from sight.results.prediction_loop import run
from sight.types import Windows


def scores(model: str, subjects: int | None = None) -> dict[str, float]:
    """Return accuracy in percent of a model alone and with Keel, in float32 and int8, and their agreement.

    Means over subjects, all of them or the first few. The models were trained on them: differences count, not levels.
    """
    source, streams = sight.load(model), recordings(model, subjects)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folders = {kind: Path(temporary) / kind for kind in ("float32", "int8")}
        for kind, folder in folders.items():
            export_c(source, folder, name=model, int8="stored" if kind == "int8" else None)
        libraries = {kind: Library(folder) for kind, folder in folders.items()}
        for windows in streams:
            found: dict[str, Any] = {}
            for kind, library in libraries.items():
                encoded = library.encode(windows.x)
                refined = run(method("keel").bind(source), windows, encoded=encoded).q
                found |= {f"{kind}_alone": encoded[1].argmax(axis=1), f"{kind}_refined": refined.argmax(axis=1)}
            rows.append(_compare(found, windows))
    return {"subjects": len(rows)} | {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def recordings(model: str, subjects: int | None) -> Sequence[Windows]:
    """Return the windows of the subjects of a bundled model's dataset."""
    spec, card = MODELS[model], sight.load(model).card
    name, options, _, _ = PACKED[spec.packed]
    dataset = load(name, **options | ({"labels": "coarse"} if spec.groups else {}))
    sizes = {"window_s": card.window_s, "stride_s": card.stride_s}
    return [windows_of(dataset, who, **sizes) for who in dataset.subjects()[:subjects]]


def _compare(found: dict[str, Any], windows: Windows) -> dict[str, float]:
    labelled = windows.label >= 0
    result = {key: 100 * np.mean(labels[labelled] == windows.label[labelled]) for key, labels in found.items()}
    for kind in ("alone", "refined"):
        result[f"same_{kind}"] = 100 * np.mean(found[f"float32_{kind}"] == found[f"int8_{kind}"])
    return result
