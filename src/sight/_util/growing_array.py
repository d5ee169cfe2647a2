"""Array whose rows are appended in place."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sight._util.arrays import Array


class GrowingArray:
    """Array that grows in place, so that a day of samples is never in memory twice.

    `columns` is the shape of a row, nothing for one dimension; `expected` the number of rows, as far as it is known.
    """

    def __init__(self, dtype: Any, *columns: int, expected: int = 1 << 16) -> None:
        self._store = np.empty((expected, *columns), dtype)
        self.rows = 0

    def append(self, block: Array) -> None:
        self._extend(len(block))[:] = block

    def append_columns(self, columns: Sequence[Array]) -> None:
        rows = self._extend(len(columns[0]))
        for index, column in enumerate(columns):
            rows[:, index] = column

    def array(self) -> Array:
        """Return all rows; nothing may be appended afterwards."""
        if len(self._store) > self.rows:
            self._resize(self.rows)
        return self._store

    def _extend(self, count: int) -> Array:
        first, stop = self.rows, self.rows + count
        if stop > len(self._store):
            self._resize(max(stop, len(self._store) * 5 // 4))
        self.rows = stop
        return self._store[first:stop]

    def _resize(self, rows: int) -> None:
        self._store.resize((rows, *self._store.shape[1:]), refcheck=False)
