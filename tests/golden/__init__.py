"""Golden streams: what every registered method answers on one small stream, stored, with the script that writes it.

``python -m tests.golden write`` makes all of them anew, ``python -m tests.golden write tent sar`` some;
``python -m tests.golden check`` compares. A change of a golden value is a change of a method: say why.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sight import registry
from sight.base import OutputAdapter
from sight.evaluate import stretches
from sight.testing import ToySource, toy_network, toy_stream
from sight.types import Array

FOLDER = Path(__file__).parent
#: Windows of the stream; a gap stands in the middle.
LENGTH = 200
#: Where a method has such a field: smaller than published, so that updates and full memories are part of the stream.
SHORT = {"batch": 32, "update_every": 16, "memory": 32, "views": 4}


def answers(name: str) -> Array:
    """Return what a method answers on the golden stream, (N, K)."""
    kind = registry.get("methods", name)
    fields = {key: value for key, value in SHORT.items() if key in kind.__dataclass_fields__}
    adapter = kind(**fields)
    adapter.bind(ToySource() if isinstance(adapter, OutputAdapter) else toy_network("resnet"))
    windows = toy_stream(n=LENGTH)
    gaps = np.zeros(LENGTH)
    gaps[LENGTH // 2] = 60.0
    rows = []
    for piece in stretches(gaps, adapter.chunk):
        if gaps[piece.start]:
            adapter.gap(float(gaps[piece.start]))
        rows.append(adapter.step(windows.x[piece]))
    return np.concatenate(rows)


def path(name: str) -> Path:
    """Return where the golden answers of a method lie."""
    return FOLDER / f"{name}.npz"


def write(name: str) -> None:
    """Store the answers of a method."""
    np.savez_compressed(path(name), q=answers(name))


def stored(name: str) -> Array:
    """Return the stored answers of a method."""
    with np.load(path(name)) as found:
        q: Array = found["q"]
    return q
