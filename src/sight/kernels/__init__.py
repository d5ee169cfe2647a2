"""The arithmetic of SIGHT and of Keel: each one function, several implementations that answer the same.

`Rules` and `SightState`, `KeelRules`, `KeelSource` and `KeelState` are what all of them take. `backend` says which one
answers on this machine; `Fleet` advances thousands of wearers together; `half` and `from_half` store SIGHT's state in
half the bytes.
"""

from __future__ import annotations

from sight.kernels.backend import Backend, backend
from sight.kernels.fleet import Fleet, KeelFleet, SightFleet
from sight.kernels.keel_reference import KeelRules, KeelSource
from sight.kernels.reference import Rules
from sight.kernels.states import KeelState, SightState, from_half, half

__all__ = [
    "Backend",
    "Fleet",
    "KeelFleet",
    "KeelRules",
    "KeelSource",
    "KeelState",
    "Rules",
    "SightFleet",
    "SightState",
    "backend",
    "from_half",
    "half",
]
