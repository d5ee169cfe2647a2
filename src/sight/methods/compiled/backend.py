"""Choice between the numba and the numpy implementation of a compiled method's step."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sight._util.array_checks import MAX_LENGTH, are_probabilities
from sight.methods.compiled.state_layout import StateArrays
from sight.registry import resolve
from sight.types import Array, SourceStats

if TYPE_CHECKING:
    from sight.methods.compiled.adapter import CompiledAdapter

#: Row of the only wearer.
FIRST = np.zeros(1, np.int64)


class Backend(NamedTuple):
    """An implementation of a method's step.

    ``advance(z, p, arrays, rows, *constants)`` advances each wearer of `rows` over its windows in time order and
    returns refined probabilities and trace. `z` and `p` hold one wearer's windows after the other's, equally many for
    each. ``is_valid(z, p)`` returns whether features have a usual length and probabilities are valid and sum to 1.
    """

    name: str  # numba or numpy
    reason: str  # why it was chosen
    advance: Callable[..., tuple[Array, Array]]
    is_valid: Callable[[Array, Array], bool]


def choose(method: type[CompiledAdapter], dtype: Any) -> Backend:
    """Return the implementation to use for a float type; the first call compiles it.

    The environment variable ``SIGHT_KERNEL`` overrides the choice with ``numpy`` or ``numba``.
    """
    wanted = os.environ.get("SIGHT_KERNEL", "").lower()
    if wanted not in ("", "numba", "numpy"):
        raise ValueError(f"SIGHT_KERNEL: expected 'numba' or 'numpy', got {wanted!r}; unset it for the default.")
    if wanted == "numpy":
        return numpy_backend(method, "requested by SIGHT_KERNEL")
    chosen = _numba_or_numpy(method, np.dtype(dtype))
    if wanted == "numba" and chosen.name != "numba":
        raise RuntimeError(
            f"SIGHT_KERNEL requests numba, but {chosen.reason}; install sight-har[fast] or unset the variable."
        )
    return chosen


def numpy_backend(method: type[CompiledAdapter], reason: str = "requested") -> Backend:
    step = resolve(method.numpy_step)
    return Backend("numpy", reason, partial(_advance, step, len(method.trace_names)), _is_valid)


def numba_backend(method: type[CompiledAdapter]) -> Backend:
    """Raise ImportError without numba."""
    advance = resolve(method.numba_step)
    return Backend("numba", "numba is installed", advance, resolve("sight.methods.compiled.numba:is_valid"))


@lru_cache
def _numba_or_numpy(method: type[CompiledAdapter], dtype: np.dtype[Any]) -> Backend:
    """Compile and try the numba implementation; fall back to numpy, with the reason, if anything fails."""
    try:
        compiled = numba_backend(method)
    except ImportError as error:
        return numpy_backend(method, f"numba cannot be imported ({error})")
    try:
        _compare(method, compiled, dtype)
    except Exception as error:
        return numpy_backend(method, f"the compiled step does not run here ({error})")
    return compiled


def _compare(method: type[CompiledAdapter], compiled: Backend, dtype: np.dtype[Any]) -> None:
    z = np.sin(np.arange(24, dtype=np.float64)).reshape(8, 3).astype(dtype)
    p = np.tile([0.7, 0.3], (8, 1)).astype(dtype)
    p[5:] = p[5:, ::-1]
    means = np.eye(2, 3, dtype=dtype)
    stats = SourceStats(prior=np.full(2, 0.5, dtype), feature_mean=np.full(3, 0.1, dtype), class_means=means)
    source: Any = SimpleNamespace(weight=means, bias=np.zeros(2, dtype), classes=("a", "b"), stats=stats, card=None)
    results = []
    for backend in (numpy_backend(method), compiled):
        adapter = method().bind(source)
        results.append(backend.advance(z, p, adapter.states.arrays, FIRST, *adapter.constants)[0])
    if not compiled.is_valid(z, p) or not np.allclose(results[0], results[1], atol=1e-4):
        raise RuntimeError("it does not agree with numpy")


def _advance(
    step: Callable[..., tuple[Array, tuple[float, ...]]],
    traced: int,
    z: Array,
    p: Array,
    arrays: StateArrays,
    rows: Array,
    *constants: Any,
) -> tuple[Array, Array]:
    q, trace = np.empty_like(p), np.empty((len(p), traced), arrays.vectors.dtype)
    span = len(p) // max(len(rows), 1)
    for t in range(len(p)):
        row = rows[t // span]
        wearer = StateArrays(*(array[row] for array in arrays))
        q[t], trace[t] = step(z[t], p[t], wearer, *constants)
    return q, trace


def _is_valid(z: Array, p: Array) -> bool:
    usual = np.linalg.norm(z.astype(np.float64), axis=1) < MAX_LENGTH
    return bool(usual.all() and are_probabilities(p).all())
