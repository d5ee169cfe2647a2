"""Named sets of hyper-parameters: "authors", a method's published defaults, and "sight-paper", those of the paper.

A preset is resolved before the adapter is created. Explicit values override it, and it overrides the defaults of the
class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sight._util.text import choices

#: Values that differ from the defaults of each class. These defaults are the authors', with thresholds as shares of
#: ln K; the docstrings of EATA, OFTTA and T3A name the ones that are not.
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "authors": {},
    "sight-paper": {
        "tent": {"lr": 1e-4, "batch": 32, "bn_stats": "source"},
        "note": {"lr": 1e-4, "batch": 32, "memory": 64},
        "sar": {"lr": 1e-4, "batch": 32},
        "rotta": {"lr": 1e-4, "batch": 32, "memory": 256},
        "oftta": {"batch": 32, "M": 10},
        "accup": {"lr": 1e-4, "batch": 32, "M": 3},
        "coa-har": {"lr": 1e-4, "batch": 32, "update": "norm"},
        "rem": {"lr": 1e-4, "batch": 32},
        "cotta": {"lr": 1e-4, "batch": 32, "confidence": 0.9},
        "eata": {"lr": 1e-4, "batch": 32},
        "lame": {"batch": 32},
    },
}


def resolve(method: str, preset: str, **fields: Any) -> dict[str, Any]:
    """Return the hyper-parameters of a method from a preset and explicit values.

    Examples
    --------
    >>> resolve("tent", "sight-paper", lr=0.01)
    {'lr': 0.01, 'batch': 32, 'bn_stats': 'source'}
    >>> resolve("tent", "authors")
    {}
    """
    if preset not in PRESETS:
        raise ValueError(f"There is no preset called {preset!r}; {choices(preset, PRESETS)}")
    return {**PRESETS[preset].get(method.lower(), {}), **fields}
