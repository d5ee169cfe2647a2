"""Golden values of every registered method: its predictions on one small stream, and its default hyper-parameters.

``python -m tests.golden write tent sar`` writes the streams of the named methods, and their defaults into
``defaults.json``; ``python -m tests.golden check`` compares. A change of a golden value is a change of a method; its
commit states the reason.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from sight import registry
from sight.base import OutputAdapter
from sight.results.prediction_loop import report_gap, split_at_gaps
from sight.testing import ToySource, toy_network, toy_stream
from sight.types import Array

FOLDER = Path(__file__).parent
#: Windows of the stream, with a gap in the middle.
LENGTH = 200
#: Values of fields, if a method has them, so that the stream contains updates and full memories.
SHORT = {"batch": 32, "update_every": 16, "memory": 32, "views": 4}


def predictions(name: str) -> Array:
    """Return the predictions of a method on the golden stream, (N, K)."""
    kind = registry.get("methods", name)
    fields = {key: value for key, value in SHORT.items() if key in kind.__dataclass_fields__}
    adapter = kind(**fields)
    adapter.bind(ToySource() if isinstance(adapter, OutputAdapter) else toy_network("resnet"))
    windows = toy_stream(n=LENGTH)
    gaps = np.zeros(LENGTH)
    gaps[LENGTH // 2] = 60.0
    rows = []
    for piece in split_at_gaps(gaps, adapter.chunk):
        report_gap(adapter, gaps, piece)
        rows.append(adapter.step(windows.x[piece]))
    return np.concatenate(rows)


def defaults(name: str) -> dict[str, Any]:
    """Return the hyper-parameters of a method that are used if none is given."""
    fields = dataclasses.fields(registry.get("methods", name))
    values: dict[str, Any] = json.loads(json.dumps({field.name: field.default for field in fields}))
    return values


def stored_defaults() -> dict[str, dict[str, Any]]:
    """Return the stored default hyper-parameters, by method."""
    file = FOLDER / "defaults.json"
    table: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return table


def path(name: str) -> Path:
    """Return the path of the golden file of a method."""
    return FOLDER / f"{name}.npz"


def write(name: str) -> None:
    """Store the predictions and the defaults of a method."""
    np.savez_compressed(path(name), q=predictions(name))
    write_defaults(name)


def write_defaults(name: str) -> None:
    """Store the defaults of a method."""
    table = stored_defaults() | {name: defaults(name)}
    ordered = {method: table[method] for method in registry.TABLES["methods"] if method in table}
    (FOLDER / "defaults.json").write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")


def stored(name: str) -> Array:
    """Return the stored predictions of a method."""
    with np.load(path(name)) as file:
        q: Array = file["q"]
    return q
