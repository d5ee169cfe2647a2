"""Golden streams: the stored predictions of every registered method on one small stream.

``python -m tests.golden write tent sar`` writes the files of the named methods; ``python -m tests.golden check``
compares. A change of a golden value is a change of a method; its commit states the reason.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sight import registry
from sight.base import OutputAdapter
from sight.evaluate import report_gap, split_at_gaps
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


def path(name: str) -> Path:
    """Return the path of the golden file of a method."""
    return FOLDER / f"{name}.npz"


def write(name: str) -> None:
    """Store the predictions of a method."""
    np.savez_compressed(path(name), q=predictions(name))


def stored(name: str) -> Array:
    """Return the stored predictions of a method."""
    with np.load(path(name)) as file:
        q: Array = file["q"]
    return q
