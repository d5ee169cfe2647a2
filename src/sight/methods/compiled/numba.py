"""Shared parts of compiled steps: decorators, the check of the input, and contiguous copies.

Only sums may be reordered (``reassoc``, ``contract``), so that zeros, infinities and differences keep their meaning. A
loop adds up or writes, never both: in a loop that does both, the machine chooses an order by where arrays happen to lie
in memory, and a restored state would lead to other last bits.
"""

from typing import Any

import numpy as np
from numba import njit

from sight._util.array_checks import MAX_LENGTH, SUM_TOLERANCE
from sight.types import Array

MAX_SQUARE = MAX_LENGTH**2


def compile_with(**options: Any) -> Any:
    """Return a decorator that compiles a function, with a cache on disk if a folder for it can be written."""

    def decorate(function: Any) -> Any:
        try:
            return njit(cache=True, nogil=True, error_model="numpy", **options)(function)
        except RuntimeError:
            return njit(nogil=True, error_model="numpy", **options)(function)

    return decorate


#: Compile without any change of the arithmetic.
exact = compile_with()
#: Compile with sums in any order, for loops that only add up.
sums = compile_with(fastmath={"reassoc", "contract"})


@sums
def squared_length(vector):
    total = 0.0
    for i in range(len(vector)):
        value = np.float64(vector[i])
        total += value * value
    return total


@exact
def is_valid(z, p):
    """Return whether features (B, D) have a usual length and probabilities (B, K) are valid and sum to 1."""
    for t in range(len(p)):
        total = 0.0
        for k in range(p.shape[1]):
            if not p[t, k] >= 0:
                return False
            total += p[t, k]
        if not (abs(total - 1) <= SUM_TOLERANCE and squared_length(z[t]) < MAX_SQUARE):
            return False
    return True


def contiguous(array: Array) -> Array:
    """Return the array, copied if it is strided or read-only; numba would compile everything again for those."""
    return array if array.flags.carray else np.array(array, order="C")
