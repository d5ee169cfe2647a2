"""Base of methods with a compiled and exportable step; numba and torch are imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sight.methods.compiled.adapter import CompiledAdapter
from sight.methods.compiled.state_layout import StateArrays, StateLayout

if TYPE_CHECKING:
    from sight.methods.compiled.fused import FusedStep
    from sight.methods.compiled.numba import contiguous, exact, sums

__all__ = ["CompiledAdapter", "FusedStep", "StateArrays", "StateLayout", "contiguous", "exact", "sums"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'fused' if name == 'FusedStep' else 'numba'}"), name)
