"""Arrays of texts from a numpy file, read without trusting it.

numpy stores an array of Python objects as a pickle, and a pickle may call anything when it is loaded. Here it can
build texts in an array and nothing else: every name it asks for is answered with an inert stand-in or refused.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from sight.types import Array


def read_array(data: bytes, where: str) -> Array:
    """Read the content of a ``.npy`` file; an array of objects has to hold texts only."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = reader(stream)
    if not dtype.hasobject:
        stream.seek(0)
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        return array
    try:
        texts = _Texts(stream).load().texts()
    except (pickle.UnpicklingError, AttributeError, TypeError, ValueError, IndexError, EOFError) as error:
        raise ValueError(f"{where} holds objects other than texts ({error}); save it as an array of str.") from None
    return np.array(texts, dtype=str).reshape(shape)


class _Shell:
    """Stands in for whatever a pickle of a text array wants to build; keeps what it is given and does nothing."""

    def __init__(self, *given: Any) -> None:
        self.given = given

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def texts(self) -> list[str]:
        """Return the texts of a pickled array, whose state is version, shape, type, order and items."""
        return [_text(item) for item in self.state[4]]


def _text(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, _Shell):  # a scalar of numpy: its type, then its bytes
        dtype, data = item.given
        if str(dtype.given[0]).startswith("U"):
            return str(bytes(data), "utf-32-le").rstrip("\0")
    raise TypeError(f"found {type(item).__name__}")


class _Texts(pickle.Unpickler):
    """Reads a pickled array of texts without calling anything the pickle names."""

    admitted = frozenset(
        f"{package}.{name}"
        for package in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
        for name in ("_reconstruct", "scalar", "ndarray", "dtype")
    )

    def find_class(self, module: str, name: str) -> Any:
        """Give an inert stand-in for the four names in such a pickle, and refuse all others."""
        if f"{module}.{name}" not in self.admitted:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _Shell
