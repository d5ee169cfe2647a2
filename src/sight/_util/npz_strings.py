"""Arrays of strings in npy files, read without executing pickles.

numpy stores an array of Python objects as a pickle, and loading a pickle may call any function. Here every name in
the pickle is replaced by an inert stand-in or rejected, so that only strings can be read.
"""

import io
import math
import pickle
from typing import Any

import numpy as np

from sight._util.arrays import Array


def read_array(data: bytes, where: str) -> Array:
    """Read the content of a ``.npy`` file; raise ValueError if an array of objects contains anything but strings."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(stream)
        if not dtype.hasobject and dtype.itemsize * math.prod(shape) > len(data):
            raise ValueError(f"its header promises an array of shape {shape}")
        if not dtype.hasobject:
            stream.seek(0)
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
            return array
    except Exception as error:  # a damaged header raises nearly anything
        raise ValueError(f"{where} is damaged ({' '.join(str(error).split())[:120]}); copy it again.") from None
    try:
        strings = _StringUnpickler(stream).load().strings()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(
            f"{where} contains objects other than strings ({error}); save it as an array of str."
        ) from None
    if math.prod(shape) != len(strings):
        raise ValueError(f"{where} has {len(strings)} strings, its header promises {shape}; copy it again.")
    return np.array(strings, dtype=str).reshape(shape)


class _StandIn:
    """Inert replacement of the objects in a pickled string array; keeps its arguments and state."""

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def strings(self) -> list[str]:
        """Return the strings of a pickled array, whose state is version, shape, type, order and items."""
        return [_string(item) for item in self.state[4]]


def _string(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, _StandIn):  # a numpy scalar: its type, then its bytes
        dtype, data = item.args
        if str(dtype.args[0]).startswith("U"):
            return str(bytes(data), "utf-32-le").rstrip("\0")
    raise TypeError(f"found {type(item).__name__}")


class _StringUnpickler(pickle.Unpickler):
    """Unpickler of string arrays that calls nothing the pickle names."""

    allowed = frozenset(
        f"{package}.{name}"
        for package in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
        for name in ("_reconstruct", "scalar", "ndarray", "dtype")
    )

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in self.allowed:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return _StandIn
