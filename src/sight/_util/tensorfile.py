"""Safetensors files with a JSON header: named arrays and metadata, as bytes or as a file.

Checkpoints, saved sessions, stored wearers and shards of a fleet use this format. Each kind of file stores its header
under its own metadata key, so that one kind is never read as another.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from sight._util.arrays import Array

#: Entry of the header with the digest. Safetensors writes several metadata keys in random order, so there is only one.
DIGEST = "content_digest"


def pack(arrays: Mapping[str, Array], key: str, header: Mapping[str, Any], *, digest: bool = False) -> bytes:
    """Return arrays and header as bytes; with `digest`, `unpack` detects if any of them was altered."""
    # Safetensors stores no strides: a non-contiguous array would be read back in the wrong order.
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    header = dict(header) | ({DIGEST: _digest(contiguous, header)} if digest else {})
    return bytes(safetensors.numpy.save(contiguous, metadata={key: json.dumps(header, allow_nan=False)}))


def unpack(data: bytes, key: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header and arrays of `pack`; raise ValueError for any other or altered content."""
    try:
        arrays = safetensors.numpy.load(data)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][key])
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"Expected safetensors with a {key!r} header, got {len(data)} bytes of something else.")
    digest = header.pop(DIGEST, None)
    if digest is not None and digest != _digest(arrays, header):
        raise ValueError("The content differs from its digest: it was damaged or altered; copy or write it again.")
    return header, arrays


def _digest(arrays: Mapping[str, Array], header: Mapping[str, Any]) -> str:
    digest = blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def read_header(path: str | Path, key: str) -> tuple[dict[str, Any] | None, dict[str, tuple[int, ...]]]:
    """Return the header of a file, None without `key`, and the shape of each array, without reading the arrays.

    Raises FileNotFoundError, and ValueError if the file is truncated or not a safetensors file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}; check the path.")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping
        header = json.loads(metadata[key]) if key in metadata else None
        if header is not None:
            header.pop(DIGEST, None)
    except (safetensors.SafetensorError, ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f"{path} is cut short at {path.stat().st_size} bytes, or is not a safetensors file of sight; copy or "
            f"download it again."
        ) from None
    return header, shapes
