"""Array whose rows are appended in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from sight.types import Array


class GrowingArray:
    """Array that grows in place, so that a day of samples is never in memory twice.

    Examples
    --------
    >>> rows = GrowingArray(np.float32, 2)
    >>> rows.append(np.ones((3, 2)))
    >>> rows.array().shape
    (3, 2)
    """

    def __init__(self, dtype: Any, *columns: int) -> None:
        self._store = np.empty((1 << 16, *columns), dtype)
        self.rows = 0

    def append(self, block: Array) -> None:
        """Add the rows of a block."""
        stop = self.rows + len(block)
        if stop > len(self._store):
            self._resize(max(stop, len(self._store) * 5 // 4))
        self._store[self.rows : stop] = block
        self.rows = stop

    def array(self) -> Array:
        """Return all rows; nothing may be appended afterwards."""
        self._resize(self.rows)
        return self._store

    def _resize(self, rows: int) -> None:
        self._store.resize((rows, *self._store.shape[1:]), refcheck=False)
