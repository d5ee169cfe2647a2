"""Hashes of files and arrays."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sight._util.arrays import Array


def file_sha256(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def arrays_sha256(arrays: Iterable[Array], *, header: str = "") -> str:
    """Return the SHA-256 of a text and of the types, shapes and values of arrays, as hexadecimal text."""
    digest = hashlib.sha256(header.encode())
    for array in map(np.asarray, arrays):
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()
