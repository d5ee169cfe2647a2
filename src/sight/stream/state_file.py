"""A session in a file: safetensors with a digest, so that a damaged copy is refused instead of believed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sight import tensorfile
from sight._version import __version__
from sight.atomic import write_atomic
from sight.base import Source
from sight.stream.session import Session
from sight.types import Array

#: Raised by one whenever an older `sight` could not go on from what a newer one saved.
FORMAT = 1
KEY = "sight.session"


def pack(session: Session) -> bytes:
    """Turn a session's state into bytes that know method, model and their own digest."""
    state = session.state()
    header = {"format": FORMAT, "sight_version": __version__, "digest": _digest(state), **identity(session)}
    return tensorfile.pack(state, KEY, header)


def unpack(data: bytes, session: Session) -> Session:
    """Let a session go on from packed bytes; what is damaged, newer or of another model is refused, nothing changed."""
    header, state = _content(data)
    if header["format"] > FORMAT:
        raise ValueError(
            f"The saved session is of format {header['format']}, newer than format {FORMAT} that sight {__version__} "
            f"reads; upgrade sight."
        )
    if header["digest"] != _digest(state):
        raise ValueError("The saved session does not match its digest, so the copy is damaged; take an older one.")
    for name, own in identity(session).items():
        if header.get(name) != own:
            raise ValueError(
                f"The saved session belongs to another {name} ({header.get(name)}, not {own}); "
                f"use that, or begin a new file."
            )
    return session.restore(state)


def save(path: str | Path, session: Session) -> Path:
    """Write a session; the file appears whole or not at all."""
    return write_atomic(path, pack(session))


def load(path: str | Path, session: Session) -> Session:
    """Let a session go on from a file of `save`."""
    try:
        return unpack(Path(path).read_bytes(), session)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def identity(session: Session) -> dict[str, Any]:
    """Tell what a state belongs to: method, model, rate of the sensor, windows."""
    windower = session.windower
    return {
        "method": session.adapter.name,
        "model": fingerprint(session.source),
        "rate of the sensor": session.rate_in_hz,
        "window": [windower.window_s, windower.stride_s],
    }


def fingerprint(source: Source) -> str:
    """Return a short name for a model that no other model has: of its classes and its head."""
    head = {"weight": np.asarray(source.weight), "bias": np.asarray(source.bias)}
    return hashlib.sha256((json.dumps(source.classes) + _digest(head)).encode()).hexdigest()[:16]


def _content(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        header, state = tensorfile.unpack(data, KEY)
        known = isinstance(header["format"], int) and isinstance(header["digest"], str)
    except (ValueError, KeyError):
        known = False
    if not known:
        raise ValueError("Expected a session saved by sight, got something else or a part of one.")
    return header, state


def _digest(arrays: Mapping[str, Array]) -> str:
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        whole.update(f"{name} {array.dtype.str} {array.shape}".encode())
        whole.update(array.tobytes())
    return whole.hexdigest()
