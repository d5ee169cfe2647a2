"""State file of a session: safetensors with a header and a digest that detects damage."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sight import __version__
from sight._util import tensorfile
from sight._util.atomic import write_atomic
from sight._util.hashing import arrays_sha256
from sight.apps.stream.session import Session
from sight.types import Array

#: Increased whenever an older `sight` could not read the file.
FORMAT = 2
KEY = "sight.session"
#: Largest size of a file that is read; the largest state, TCA's in all dimensions, has less than a tenth of it.
MAX_BYTES = 1 << 30


def pack(session: Session) -> bytes:
    state = session.state()
    header = {"format": FORMAT, "sight_version": __version__, "digest": _digest(state), **identity(session)}
    return tensorfile.pack(state, KEY, header)


def unpack(data: bytes, session: Session) -> Session:
    """Restore a session from `pack`; raise ValueError, without changing it, if the bytes are damaged or do not fit."""
    header, state = _read(data)
    if header["format"] > FORMAT:
        raise ValueError(
            f"The saved session has format {header['format']}, newer than format {FORMAT} that sight {__version__} "
            f"reads; upgrade sight."
        )
    if header["digest"] != _digest(state):
        raise ValueError("The saved session does not match its digest, so it is damaged; use an older copy.")
    for name, own in identity(session).items():
        if (saved := header.get(name)) != own:
            if name == "sensor_rate_hz" and isinstance(saved, float):
                differing = f"at {saved:g} Hz, this run uses {own:g} Hz; set --rate {saved:g}"
            else:
                differing = f"with {name} {saved}, this run uses {own}; use the same {name}"
            raise ValueError(f"The session was saved {differing}, or use another file.")
    return session.restore(state)


def save(path: str | Path, session: Session) -> Path:
    return write_atomic(path, pack(session))


def load(path: str | Path, session: Session) -> Session:
    try:
        return unpack(_content(path), session)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def sensor_rate(path: str | Path) -> float | None:
    """Return the nominal sensor rate with which a state was saved; None if the file does not hold one."""
    try:
        header, _ = _read(_content(path))
    except ValueError:
        return None  # loading it raises the error
    rate = header.get("sensor_rate_hz")
    return rate if isinstance(rate, float) else None


def identity(session: Session) -> dict[str, Any]:
    windower, source = session.windower, session.source
    return {
        "method": session.adapter.name,
        "model": arrays_sha256([source.weight, source.bias], header=json.dumps(source.classes))[:16],
        "sensor_rate_hz": session.rate_in_hz,
        "window": [windower.window_s, windower.stride_s],
    }


def _content(path: str | Path) -> bytes:
    """Return the bytes of a file; a device or a pipe, which may have no end, and a huge file are not read."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError("Expected the state file of a session, got a folder, a device or a pipe; give another path.")
    if (size := path.stat().st_size) > MAX_BYTES:
        raise ValueError(f"Expected the state file of a session, got a file of {size} bytes; give another path.")
    return path.read_bytes()


def _read(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        header, state = tensorfile.unpack(data, KEY)
        valid = isinstance(header["format"], int) and isinstance(header["digest"], str)
    except (ValueError, KeyError):
        valid = False
    if not valid:
        raise ValueError("Expected the complete state file of a session, got something else or a part of one.")
    return header, state


def _digest(arrays: Mapping[str, Array]) -> str:
    names = sorted(arrays)
    return arrays_sha256((arrays[name] for name in names), header=json.dumps(names))
