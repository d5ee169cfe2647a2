"""Which implementation answers: compiled where numba is and works, numpy everywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sight.kernels import reference
from sight.kernels.states import SightState
from sight.types import Array


class Backend(NamedTuple):
    """One implementation of SIGHT's arithmetic."""

    name: str  # numba or numpy
    reason: str  # why this one
    replay: Callable[..., tuple[Array, Array]]
    many: Callable[..., tuple[Array, Array]]
    sound: Callable[[Array, Array], bool]


def backend(dtype: Any = np.float32) -> Backend:
    """Say which implementation answers for a float type; the first call compiles it.

    The environment variable ``SIGHT_KERNEL`` overrides the choice with ``numpy`` or ``numba``.

    Examples
    --------
    >>> backend().name in ("numba", "numpy")
    True
    """
    wanted = os.environ.get("SIGHT_KERNEL", "").lower()
    if wanted not in ("", "numba", "numpy"):
        raise ValueError(f"SIGHT_KERNEL: expected 'numba' or 'numpy', got {wanted!r}; unset it to choose by itself.")
    if wanted == "numpy":
        return _numpy("asked for by SIGHT_KERNEL")
    found = _compiled(np.dtype(dtype))
    if wanted == "numba" and found.name != "numba":
        raise RuntimeError(
            f"SIGHT_KERNEL asks for numba, but {found.reason}; install sight-har[fast] or unset the variable."
        )
    return found


def _numpy(reason: str) -> Backend:
    return Backend("numpy", reason, reference.replay, reference.many, reference.sound)


@lru_cache
def _compiled(dtype: np.dtype[Any]) -> Backend:
    """Import and compile, once for each float type; whatever goes wrong on this machine, numpy answers instead."""
    try:
        from sight.kernels import compiled
    except ImportError as problem:
        return _numpy(f"numba cannot be imported ({problem})")
    try:
        _agree(compiled, dtype)
    except Exception as problem:
        return _numpy(f"the compiled step does not run here ({problem})")
    return Backend("numba", "numba is installed", compiled.replay, compiled.many, compiled.sound)


def _agree(compiled: Any, dtype: np.dtype[Any]) -> None:
    """Run two windows through both implementations, which also compiles or loads the compiled one."""
    rules = reference.Rules(
        authors=False, beta=1, tau=0.5, eta_mu=0.1, eta_h=0.1, omega_mu=0.1, eps=1e-8,
        surprise="geometric", constant=0, routing=True, habit="sqrt", prototypes="soft",
    )  # fmt: skip
    anchors, z, p = np.eye(2, 3, dtype=dtype), np.eye(2, 3, dtype=dtype), np.full((2, 2), 0.5, dtype)
    answers = []
    for implementation in (reference, compiled):
        state = SightState(anchors.copy(), np.full(2, 0.5, dtype), np.full(2, 0.5, dtype))
        answers.append(implementation.replay(z, p, state, anchors, 0, rules)[0])
    if not compiled.sound(z, p) or not np.allclose(*answers, atol=1e-4):
        raise RuntimeError("it does not agree with numpy")
