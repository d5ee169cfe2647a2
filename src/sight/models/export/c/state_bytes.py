"""State of a wearer as the bytes of the C source (source/state_bytes.c), to move it between a device and Python."""

import zlib
from typing import Any

import numpy as np

from sight.models.export.c.methods import from_words, state_id, state_words

MAGIC = b"SGT1"


def pack_state(adapter: Any) -> bytes:
    """Return the state of a bound adapter as `sight_load` of its C source takes it.

    Examples
    --------
    >>> from sight.registry import method
    >>> from sight.testing import ToySource, toy_stream
    >>> adapter = method("keel").bind(ToySource())
    >>> q = adapter.step(toy_stream(n=10).x)
    >>> data = pack_state(adapter)
    >>> other = unpack_state(method("keel").bind(ToySource()), data)
    >>> len(data), int(other.state()["count"])
    (120, 10)
    """
    words = b"".join(value.astype(value.dtype.newbyteorder("<")).tobytes() for value in state_words(adapter).values())
    data = MAGIC + state_id(adapter).to_bytes(4, "little") + words
    return data + zlib.crc32(data).to_bytes(4, "little")


def unpack_state(adapter: Any, data: bytes) -> Any:
    """Continue a bound adapter from bytes of `sight_save` or `pack_state`, and return it.

    Raises
    ------
    ValueError
        If the bytes are damaged, or of another model or method; nothing is changed then.
    """
    own = state_words(adapter)
    size = len(MAGIC) + 8 + sum(value.nbytes for value in own.values())
    if len(data) != size:
        raise ValueError(
            f"Expected {size} bytes of a saved state of {adapter.name}, got {len(data)}; use the model and method that "
            f"it was saved with, or an older copy."
        )
    if data[:4] != MAGIC:
        raise ValueError(f"Expected bytes that start with {MAGIC!r}, got {data[:4]!r}; they are damaged, or no state.")
    if zlib.crc32(data[:-4]).to_bytes(4, "little") != data[-4:]:
        raise ValueError("The saved state is damaged: its checksum differs; use an older copy, or save it again.")
    if int.from_bytes(data[4:8], "little") != state_id(adapter):
        raise ValueError(
            f"The state was saved with another model or method than this {adapter.name}; bind the one that it was "
            f"exported with."
        )
    words, at = {}, 8
    for name, value in own.items():
        words[name] = np.frombuffer(data, value.dtype.newbyteorder("<"), value.size, at).reshape(value.shape)
        at += value.nbytes
    return adapter.restore(from_words(adapter, words))
