"""Online test-time adaptation for wearable activity recognition.

Entry points: `adapt` for a recording, `refine` for probabilities of any classifier, `wrap` for an own network, `load`
for a saved or bundled model, `method` for an adapter by name, `run` for the evaluation loop, `compare` for two methods
over subjects. Everything is imported when first used, so that ``import sight`` is fast.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0.dev0"

if TYPE_CHECKING:
    from sight.models.load import load
    from sight.models.wrap import export, source_stats, wrap
    from sight.recordings.read import read
    from sight.registry import RECOMMENDED, method
    from sight.results.adapt import Adaptation, adapt
    from sight.results.comparison import compare
    from sight.results.prediction_loop import run
    from sight.results.refine import refine
    from sight.types import Event, Recording, Result, SourceStats, Windows

# onnxruntime reads it when it is imported; otherwise it contacts its maker and writes a device id to the user's cache.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_MODULES = {
    "Adaptation": "sight.results.adapt",
    "adapt": "sight.results.adapt",
    "compare": "sight.results.comparison",
    "refine": "sight.results.refine",
    "run": "sight.results.prediction_loop",
    "read": "sight.recordings.read",
    "method": "sight.registry",
    "RECOMMENDED": "sight.registry",
    "load": "sight.models.load",
    "export": "sight.models.wrap",
    "source_stats": "sight.models.wrap",
    "wrap": "sight.models.wrap",
    "Event": "sight.types",
    "Recording": "sight.types",
    "Result": "sight.types",
    "SourceStats": "sight.types",
    "Windows": "sight.types",
}

__all__ = [
    "RECOMMENDED",
    "Adaptation",
    "Event",
    "Recording",
    "Result",
    "SourceStats",
    "Windows",
    "__version__",
    "adapt",
    "compare",
    "export",
    "load",
    "method",
    "read",
    "refine",
    "run",
    "source_stats",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'sight' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
