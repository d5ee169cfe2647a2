"""State and step parameters of SIGHT, and its state in half the bytes for storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sight.methods.compiled import StateLayout
from sight.methods.ops import unit
from sight.types import Array

LAYOUT = StateLayout(
    entries={"prototypes": "KD", "habit": "K", "belief": "K", "count": "int"},
    frequencies="habit",
    prototypes="prototypes",
)
#: Places of the entries in the arrays of the state.
PROTOTYPES, HABIT, BELIEF, COUNT = 0, 0, 1, 0

#: Floors of the authors' code, where the paper has a single epsilon.
NORM_FLOOR, COSINE_FLOOR, SUM_FLOOR, PRIOR_FLOOR = 1e-12, 1e-8, 1e-8, 1e-8


class SightParams(NamedTuple):
    """The hyper-parameters of `SIGHT` as the steps take them; the compiled step has codes in place of words."""

    authors: bool  # variant
    beta: float
    tau: float
    eta_mu: float
    eta_h: float
    omega_mu: float
    eps: float
    surprise: str  # geometric, distance or constant
    constant: float  # the surprise, if it is constant
    routing: bool
    habit: str  # sqrt, raw or off
    prototypes: str  # soft, hard or off
    cosine_floor: float  # of norms in a cosine
    norm_floor: float  # of norms of prototypes


def to_half(state: Mapping[str, Array]) -> dict[str, Array]:
    """Return a state of SIGHT with prototypes in float16, about half the bytes.

    Examples
    --------
    >>> stored = to_half({"prototypes": np.eye(2, 3, dtype=np.float32), "belief": np.array([0.9, 0.1], np.float32)})
    >>> stored["prototypes"].dtype, stored["belief"].dtype
    (dtype('float16'), dtype('float32'))
    """
    stored = {name: np.array(value) for name, value in state.items()}
    stored["prototypes"] = stored["prototypes"].astype(np.float16)
    return stored


def from_half(state: Mapping[str, Array]) -> dict[str, Array]:
    """Return a state stored by `to_half` in full precision; prototypes are scaled to length 1, as the step expects.

    Examples
    --------
    >>> stored = to_half({"prototypes": np.eye(2, 3, dtype=np.float32), "belief": np.array([0.9, 0.1], np.float32)})
    >>> from_half(stored)["prototypes"].dtype
    dtype('float32')
    """
    restored = {name: np.array(value) for name, value in state.items()}
    restored["prototypes"] = unit(restored["prototypes"].astype(restored["belief"].dtype))
    return restored
