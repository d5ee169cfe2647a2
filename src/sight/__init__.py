"""Online test-time adaptation for wearable activity recognition.

The doors, from the plainest: `refine` for people with features, `wrap` for people with a torch model, `load` for a
saved one. Everything is imported when first used, so ``import sight`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sight._version import __version__

if TYPE_CHECKING:
    from sight.evaluate import refine, run
    from sight.reading import read
    from sight.registry import RECOMMENDED, method
    from sight.sources import load, wrap
    from sight.types import Event, Recording, Result, SourceStats, Windows

_HOMES = {
    "refine": "sight.evaluate",
    "run": "sight.evaluate",
    "read": "sight.reading",
    "method": "sight.registry",
    "RECOMMENDED": "sight.registry",
    "load": "sight.sources",
    "wrap": "sight.sources",
    "Event": "sight.types",
    "Recording": "sight.types",
    "Result": "sight.types",
    "SourceStats": "sight.types",
    "Windows": "sight.types",
}

__all__ = [
    "RECOMMENDED",
    "Event",
    "Recording",
    "Result",
    "SourceStats",
    "Windows",
    "__version__",
    "load",
    "method",
    "read",
    "refine",
    "run",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sight' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
