"""What SIGHT and Keel remember of a wearer, and SIGHT's state half-sized for storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sight.ops import unit
from sight.types import Array


class SightState(NamedTuple):
    """What SIGHT remembers of one wearer; arrays are updated in place."""

    prototypes: Array  # (K, D)
    habit: Array  # (K,)
    belief: Array  # (K,)


class KeelState(NamedTuple):
    """What Keel remembers of one wearer, all float64; arrays are updated in place."""

    vectors: Array  # (4, K), rows as `KEEL_VECTORS` names them
    numbers: Array  # (8,), as `KEEL_NUMBERS` names them


KEEL_VECTORS = ("belief", "life", "total", "previous")
KEEL_NUMBERS = ("doubts", "hazard", "near", "spread", "far", "pairs", "count", "linked")


def half(state: Mapping[str, Array]) -> dict[str, Array]:
    """Store a state's prototypes in float16, half the bytes; the few other numbers stay as they are.

    Examples
    --------
    >>> stored = half({"prototypes": np.eye(2, 3, dtype=np.float32), "belief": np.array([0.9, 0.1], np.float32)})
    >>> stored["prototypes"].dtype, stored["belief"].dtype
    (dtype('float16'), dtype('float32'))
    """
    stored = {name: np.array(value) for name, value in state.items()}
    stored["prototypes"] = stored["prototypes"].astype(np.float16)
    return stored


def from_half(state: Mapping[str, Array]) -> dict[str, Array]:
    """Bring a state stored by `half` back; prototypes are scaled to length 1 again, as the step relies on it.

    Examples
    --------
    >>> stored = half({"prototypes": np.eye(2, 3, dtype=np.float32), "belief": np.array([0.9, 0.1], np.float32)})
    >>> from_half(stored)["prototypes"].dtype
    dtype('float32')
    """
    restored = {name: np.array(value) for name, value in state.items()}
    restored["prototypes"] = unit(restored["prototypes"].astype(restored["belief"].dtype))
    return restored
