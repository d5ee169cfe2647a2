"""Which implementation answers: compiled where numba is and works, numpy everywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from sight.kernels import keel_reference, reference
from sight.kernels.states import KEEL_NUMBERS, KEEL_VECTORS, KeelState, SightState
from sight.types import Array


class Backend(NamedTuple):
    """One implementation of a method's arithmetic."""

    name: str  # numba or numpy
    reason: str  # why this one
    replay: Callable[..., tuple[Array, Array]]
    many: Callable[..., tuple[Array, Array]]
    sound: Callable[[Array, Array], bool]

    def takes(self, z: Array, p: Array, head: Array) -> bool:
        """Tell whether windows can be answered as they are: sound, and of the head's shape and float type."""
        classes, dims = head.shape
        plain = z.dtype == p.dtype == head.dtype and z.flags.carray and p.flags.carray
        return plain and z.shape == (len(p), dims) and p.shape[1:] == (classes,) and self.sound(z, p)


def backend(dtype: Any = np.float32, method: str = "sight") -> Backend:
    """Say which implementation of a method answers for a float type; the first call compiles it.

    The environment variable ``SIGHT_KERNEL`` overrides the choice with ``numpy`` or ``numba``.

    Parameters
    ----------
    dtype
        Float type of features and answers.
    method
        "sight" or "keel".

    Examples
    --------
    >>> backend().name in ("numba", "numpy")
    True
    """
    wanted = os.environ.get("SIGHT_KERNEL", "").lower()
    if wanted not in ("", "numba", "numpy"):
        raise ValueError(f"SIGHT_KERNEL: expected 'numba' or 'numpy', got {wanted!r}; unset it to choose by itself.")
    if wanted == "numpy":
        return _numpy(method, "asked for by SIGHT_KERNEL")
    found = _compiled(np.dtype(dtype), method)
    if wanted == "numba" and found.name != "numba":
        raise RuntimeError(
            f"SIGHT_KERNEL asks for numba, but {found.reason}; install sight-har[fast] or unset the variable."
        )
    return found


def _numpy(method: str, reason: str) -> Backend:
    module = KERNELS[method].reference
    return Backend("numpy", reason, module.replay, module.many, module.sound)


@lru_cache
def _compiled(dtype: np.dtype[Any], method: str) -> Backend:
    """Import and compile, once for each float type; whatever goes wrong on this machine, numpy answers instead."""
    kernel = KERNELS[method]
    try:
        compiled = import_module(kernel.compiled)
    except ImportError as problem:
        return _numpy(method, f"numba cannot be imported ({problem})")
    try:
        _agree(kernel, compiled, dtype)
    except Exception as problem:
        return _numpy(method, f"the compiled step does not run here ({problem})")
    return Backend("numba", "numba is installed", compiled.replay, compiled.many, compiled.sound)


def _agree(kernel: Kernel, compiled: Any, dtype: np.dtype[Any]) -> None:
    """Run a few windows through both implementations, which also compiles or loads the compiled one."""
    z, p = np.resize(np.eye(2, 3, dtype=dtype), (8, 3)), np.full((8, 2), 0.5, dtype)
    answers = [kernel.trial(implementation, z, p) for implementation in (kernel.reference, compiled)]
    if not compiled.sound(z, p) or not np.allclose(*answers, atol=1e-4):
        raise RuntimeError("it does not agree with numpy")


class Kernel(NamedTuple):
    """What a method brings: its reference, the name of its compiled module, and a trial of either."""

    reference: Any
    compiled: str
    trial: Callable[[Any, Array, Array], Array]


def _try_sight(implementation: Any, z: Array, p: Array) -> Array:
    rules = reference.Rules(
        authors=False, beta=1, tau=0.5, eta_mu=0.1, eta_h=0.1, omega_mu=0.1, eps=1e-8,
        surprise="geometric", constant=0, routing=True, habit="sqrt", prototypes="soft",
    )  # fmt: skip
    anchors = z[:2].copy()
    state = SightState(anchors.copy(), p[0].copy(), p[0].copy())
    return implementation.replay(z, p, state, anchors, 0, rules)[0]


def _try_keel(implementation: Any, z: Array, p: Array) -> Array:
    rules = keel_reference.KeelRules(
        align=0.5, debias=1.0, guard=True, doubt=0.1, surprise=1.0, temper=0.5, hazard=0.1, rate=0.1, patience=5.0
    )
    source = keel_reference.KeelSource(np.full(2, 0.5), np.zeros(2), 0.5, 2.0, np.zeros(3), np.eye(2, 3))
    state = KeelState(np.zeros((len(KEEL_VECTORS), 2)), np.full(len(KEEL_NUMBERS), 0.0))
    state.numbers[keel_reference.HAZARD] = rules.hazard
    return implementation.replay(z, p, state, source, rules)[0]


KERNELS = {
    "sight": Kernel(reference, "sight.kernels.compiled", _try_sight),
    "keel": Kernel(keel_reference, "sight.kernels.keel_compiled", _try_keel),
}
