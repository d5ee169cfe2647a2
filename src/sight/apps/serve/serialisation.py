"""Bytes that a store holds: samples, events, states and configurations. Never pickle.

Every record is sealed: one byte of format version, an eight-byte digest over its place (wearer, kind, number) and its
content, then the content. A record that is truncated, altered, stored in another place or written in another format
raises `Damaged`.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isnan
from typing import Any

import numpy as np

from sight._util import tensorfile
from sight.apps.serve.errors import Damaged
from sight.types import Array, Event

#: Raised by one whenever an older `sight` could not read what a newer one writes.
FORMAT = 1
#: Metadata key of a state's header.
STATE_KEY = "sight"
_SEAL_BYTES = 9
_INPUTS = struct.Struct("<IHB")  # samples, channels, whether times follow
_EVENTS = struct.Struct("<HHHB")  # events, classes, length of the names of the diagnostics, bytes of a probability
_EVENT = struct.Struct("<Qdd")  # window, time, gap


def seal(content: bytes, *place: object) -> bytes:
    return bytes((FORMAT,)) + _digest(content, place) + content


def unseal(sealed: bytes, *place: object) -> bytes:
    """Return the content of a sealed record; raise `Damaged` if format or digest differ."""
    wearer, name = place[0], " ".join(map(str, place[1:]))
    if sealed[:1] and sealed[0] != FORMAT:
        raise Damaged(
            f"{wearer}: {name} in format {sealed[0]}, this sight reads format {FORMAT}; "
            f"run the version that wrote it, or reset or delete the wearer."
        )
    content = sealed[_SEAL_BYTES:]
    if len(sealed) < _SEAL_BYTES or sealed[1:_SEAL_BYTES] != _digest(content, place):
        raise Damaged(f"{wearer}: damaged {name} (digest differs); restore a backup, reset or delete the wearer.")
    return content


def digest_of(sealed: bytes) -> int:
    return int.from_bytes(sealed[1:_SEAL_BYTES], "little")


def _digest(content: bytes, place: tuple[object, ...]) -> bytes:
    digest = blake2b("/".join(map(str, place)).encode(), digest_size=8)
    digest.update(content)
    return digest.digest()


def pack_inputs(wearer: str, seq: int, values: Array, time_s: Array | None) -> bytes:
    """Return samples (n, C) as float32 and their times as float64, sealed."""
    header = _INPUTS.pack(*values.shape, time_s is not None)
    times = b"" if time_s is None else time_s.astype("<f8", copy=False).tobytes()
    return seal(header + values.astype("<f4", copy=False).tobytes() + times, wearer, "inputs", seq)


def unpack_inputs(wearer: str, seq: int, sealed: bytes) -> tuple[Array, Array | None]:
    content = unseal(sealed, wearer, "inputs", seq)
    samples, channels, timed = _INPUTS.unpack_from(content)
    values = np.frombuffer(content, "<f4", samples * channels, _INPUTS.size).reshape(samples, channels)
    time_s = np.frombuffer(content, "<f8", samples, _INPUTS.size + values.nbytes) if timed else None
    return values, time_s


def pack_events(wearer: str, seq: int, events: Sequence[Event]) -> bytes:
    names = sorted({name for event in events for name in event.diagnostics})
    text = ",".join(names).encode()
    dtype = np.result_type(events[0].q, events[0].p)
    parts = [_EVENTS.pack(len(events), len(events[0].q), len(text), dtype.itemsize), text]
    diagnostics = struct.Struct(f"<{len(names)}d")
    for event in events:
        parts.append(_EVENT.pack(event.window, event.time_s, event.gap_s))
        parts.append(diagnostics.pack(*(event.diagnostics.get(name, np.nan) for name in names)))
        parts.append(event.q.astype(dtype, copy=False).tobytes())
        parts.append(event.p.astype(dtype, copy=False).tobytes())
    return seal(b"".join(parts), wearer, "events", seq)


def unpack_events(wearer: str, seq: int, sealed: bytes) -> list[Event]:
    content = unseal(sealed, wearer, "events", seq)
    count, classes, length, size = _EVENTS.unpack_from(content)
    offset = _EVENTS.size + length
    text = content[_EVENTS.size : offset].decode()
    names = text.split(",") if text else []
    diagnostics = struct.Struct(f"<{len(names)}d")
    events = []
    for _ in range(count):
        window, time_s, gap_s = _EVENT.unpack_from(content, offset)
        values = diagnostics.unpack_from(content, offset + _EVENT.size)
        offset += _EVENT.size + diagnostics.size
        q, p = np.frombuffer(content, f"<f{size}", 2 * classes, offset).reshape(2, classes)
        offset += 2 * size * classes
        reported = {name: value for name, value in zip(names, values, strict=True) if not isnan(value)}
        events.append(Event(window=window, time_s=time_s, q=q, p=p, gap_s=gap_s, diagnostics=reported))
    return events


def pack_state(wearer: str, seq: int, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> bytes:
    return seal(tensorfile.pack(arrays, STATE_KEY, header), wearer, "state", seq)


def unpack_state(wearer: str, seq: int, sealed: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    return tensorfile.unpack(unseal(sealed, wearer, "state", seq), STATE_KEY)


def pack_config(wearer: str, config: Mapping[str, Any]) -> bytes:
    return seal(json.dumps(config, allow_nan=False).encode(), wearer, "config")


def unpack_config(wearer: str, sealed: bytes) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(unseal(sealed, wearer, "config"))
    return config
