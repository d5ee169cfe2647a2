"""Summary of what a method has learned about a wearer: class frequencies and similarity of prototypes.

The only module of the service that reads state of particular methods.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sight.base import Adapter
from sight.ops import cosine
from sight.types import Array


def summarise(adapter: Adapter, time_use_s: Array) -> dict[str, Any]:
    """Return class frequencies and prototype similarity as plain JSON values.

    Parameters
    ----------
    adapter
        Bound adapter of the wearer.
    time_use_s
        Seconds of each class on the current day, (K,); the class frequencies of methods that estimate none.
    """
    frequencies: Array | None = getattr(adapter, "habit_", getattr(adapter, "life_", None))
    prototypes: Array | None = getattr(adapter, "prototypes_", None)
    source = adapter.source
    of_model = source.weight if source.stats is None else source.stats.class_means
    weights = time_use_s if frequencies is None else frequencies
    vectors = of_model if prototypes is None else prototypes
    total = float(np.sum(weights))
    return {
        "class_frequencies": (np.asarray(weights, float) / total if total else np.zeros(len(weights))).tolist(),
        "frequencies_from": "day" if frequencies is None else "method",
        "similarity": cosine(vectors[:, None], vectors[None]).astype(float).tolist(),
        "prototypes_from": "model" if prototypes is None else "wearer",
    }
