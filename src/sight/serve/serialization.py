"""Bytes that a store keeps, and their meaning: samples, answers, states, facts. Never pickle.

Every piece is sealed: one byte of format, eight of a digest over its place (whose it is, what, which number) and its
content, then the content. A piece that is cut short, has a bit flipped, lies in another's place or was written in
another format is refused by one sentence that says which.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isnan
from typing import Any

import numpy as np

from sight import tensorfile
from sight.serve.errors import Damaged
from sight.types import Array, Event

#: Raised by one whenever an older `sight` could not read what a newer one writes.
FORMAT = 1
_SEAL = 9
_HEADER = "sight"
_INPUTS = struct.Struct("<IHB")  # samples, channels, whether times follow
_ANSWERS = struct.Struct("<HHHB")  # events, classes, length of the names of the diagnostics, bytes of a probability
_EVENT = struct.Struct("<Qdd")  # window, time, gap


def seal(content: bytes, *place: object) -> bytes:
    """Put format and digest before a piece.

    Examples
    --------
    >>> unseal(seal(b"abc", "anna", "facts"), "anna", "facts")
    b'abc'
    >>> unseal(seal(b"abc", "anna", "facts"), "ben", "facts")
    Traceback (most recent call last):
    ...
    sight.serve.errors.Damaged: ben: facts are damaged (digest differs); restore a backup, reset or delete the wearer.
    """
    return bytes((FORMAT,)) + _digest(content, place) + content


def unseal(sealed: bytes, *place: object) -> bytes:
    """Return the content of a piece that is whole, in its place and in our format."""
    wearer, what = place[0], " ".join(map(str, place[1:]))
    if sealed[:1] and sealed[0] != FORMAT:
        raise Damaged(
            f"{wearer}: {what} are in format {sealed[0]}, this sight reads format {FORMAT}; "
            f"run the version that wrote them, or reset or delete the wearer."
        )
    content = sealed[_SEAL:]
    if len(sealed) < _SEAL or sealed[1:_SEAL] != _digest(content, place):
        raise Damaged(f"{wearer}: {what} are damaged (digest differs); restore a backup, reset or delete the wearer.")
    return content


def _digest(content: bytes, place: tuple[object, ...]) -> bytes:
    made = blake2b("/".join(map(str, place)).encode(), digest_size=8)
    made.update(content)
    return made.digest()


# --- samples ------------------------------------------------------------------------------------------------------


def pack_inputs(values: Array, time_s: Array | None) -> bytes:
    """Write samples (n, C) as float32 and their times as float64."""
    head = _INPUTS.pack(*values.shape, time_s is not None)
    times = b"" if time_s is None else time_s.astype("<f8", copy=False).tobytes()
    return head + values.astype("<f4", copy=False).tobytes() + times


def unpack_inputs(content: bytes) -> tuple[Array, Array | None]:
    """Read what `pack_inputs` wrote.

    Examples
    --------
    >>> values, time_s = unpack_inputs(pack_inputs(np.ones((2, 3), np.float32), None))
    >>> values.shape, time_s
    ((2, 3), None)
    """
    samples, channels, timed = _INPUTS.unpack_from(content)
    values = np.frombuffer(content, "<f4", samples * channels, _INPUTS.size).reshape(samples, channels)
    time_s = np.frombuffer(content, "<f8", samples, _INPUTS.size + values.nbytes) if timed else None
    return values, time_s


# --- answers ------------------------------------------------------------------------------------------------------


def pack_answers(events: Sequence[Event]) -> bytes:
    """Write the events of one chunk, exactly as they are."""
    names = sorted({name for event in events for name in event.diagnostics})
    text = ",".join(names).encode()
    kind = np.result_type(events[0].q, events[0].p)
    parts = [_ANSWERS.pack(len(events), len(events[0].q), len(text), kind.itemsize), text]
    told = struct.Struct(f"<{len(names)}d")
    for event in events:
        parts.append(_EVENT.pack(event.window, event.time_s, event.gap_s))
        parts.append(told.pack(*(event.diagnostics.get(name, np.nan) for name in names)))
        parts.append(event.q.astype(kind, copy=False).tobytes())
        parts.append(event.p.astype(kind, copy=False).tobytes())
    return b"".join(parts)


def unpack_answers(content: bytes) -> list[Event]:
    """Read what `pack_answers` wrote."""
    count, classes, length, size = _ANSWERS.unpack_from(content)
    at = _ANSWERS.size + length
    text = content[_ANSWERS.size : at].decode()
    names = text.split(",") if text else []
    told = struct.Struct(f"<{len(names)}d")
    events = []
    for _ in range(count):
        window, time_s, gap_s = _EVENT.unpack_from(content, at)
        figures = told.unpack_from(content, at + _EVENT.size)
        at += _EVENT.size + told.size
        q, p = np.frombuffer(content, f"<f{size}", 2 * classes, at).reshape(2, classes)
        at += 2 * size * classes
        diagnostics = {name: value for name, value in zip(names, figures, strict=True) if not isnan(value)}
        events.append(Event(window=window, time_s=time_s, q=q, p=p, gap_s=gap_s, diagnostics=diagnostics))
    return events


# --- states and facts ---------------------------------------------------------------------------------------------


def pack_state(state: Mapping[str, Array], header: Mapping[str, Any]) -> bytes:
    """Write a state as safetensors, with a header that says what it belongs to."""
    return tensorfile.pack(state, _HEADER, header)


def unpack_state(content: bytes) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read what `pack_state` wrote: arrays and header."""
    header, state = tensorfile.unpack(content, _HEADER)
    return state, header


def pack_facts(facts: Mapping[str, Any]) -> bytes:
    """Write facts as JSON."""
    return json.dumps(facts, allow_nan=False).encode()


def unpack_facts(content: bytes) -> dict[str, Any]:
    """Read facts."""
    found: dict[str, Any] = json.loads(content)
    return found
