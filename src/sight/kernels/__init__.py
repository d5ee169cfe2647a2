"""The arithmetic of SIGHT: one function, several implementations that answer the same.

`Rules` and `SightState` are what all of them take. `backend` says which one answers on this machine; `Fleet` advances
thousands of wearers together; `half` and `from_half` store a state in half the bytes.
"""

from __future__ import annotations

from sight.kernels.backend import Backend, backend
from sight.kernels.fleet import Fleet
from sight.kernels.reference import Rules
from sight.kernels.states import SightState, from_half, half

__all__ = ["Backend", "Fleet", "Rules", "SightState", "backend", "from_half", "half"]
