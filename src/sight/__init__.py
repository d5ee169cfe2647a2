"""Online test-time adaptation for wearable activity recognition.

Entry points: `adapt` for a recording, `refine` for probabilities of any classifier, `wrap` for an own network, `load`
for a saved or bundled model, `method` for an adapter by name, `run` for the evaluation loop, `compare` for two methods
over subjects. Everything is imported when first used, so that ``import sight`` is fast.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"

if TYPE_CHECKING:
    from sight.models.export import export as export
    from sight.models.load import load as load
    from sight.models.source_statistics import source_stats as source_stats
    from sight.models.wrap import wrap as wrap
    from sight.recordings.read import read as read
    from sight.registry import RECOMMENDED as RECOMMENDED, method as method
    from sight.results.adapted_recording import Adaptation as Adaptation, adapt as adapt
    from sight.results.prediction_loop import run as run
    from sight.results.refined_predictions import refine as refine
    from sight.results.result_comparison import compare as compare
    from sight.types import (
        Event as Event,
        Recording as Recording,
        Result as Result,
        SourceStats as SourceStats,
        Windows as Windows,
    )

# onnxruntime reads it when it is imported; otherwise it contacts its maker and writes a device id to the user's cache.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_NAMES = {
    "sight.models.export": ("export",),
    "sight.models.load": ("load",),
    "sight.models.source_statistics": ("source_stats",),
    "sight.models.wrap": ("wrap",),
    "sight.recordings.read": ("read",),
    "sight.registry": ("RECOMMENDED", "method"),
    "sight.results.adapted_recording": ("Adaptation", "adapt"),
    "sight.results.result_comparison": ("compare",),
    "sight.results.prediction_loop": ("run",),
    "sight.results.refined_predictions": ("refine",),
    "sight.types": ("Event", "Recording", "Result", "SourceStats", "Windows"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(("__version__", *_MODULES))  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'sight' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
