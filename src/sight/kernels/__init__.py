"""The arithmetic of SIGHT: one function, several implementations that answer the same.

`Rules` and `SightState` are what all of them take; `replay` advances one wearer over a stretch of windows.
"""

from __future__ import annotations

from sight.kernels.reference import Rules, SightState, replay

__all__ = ["Rules", "SightState", "replay"]
