"""What travels: chunks in binary or JSON, answers in JSON.

A binary message of ``/v1/ingest`` is ``b"SGT1"`` and then one or more chunks, each (little-endian)::

    offset  type      meaning
    0       uint8     L, length of the wearer's name
    1       uint8     flags: 1 = `seq` counts, 2 = `t0` counts, 4 = a time for each sample follows
    2       uint16    C, channels
    4       uint32    n, samples
    8       uint64    seq, number of the chunk
    16      float64   t0, time of the first sample in seconds; the others follow at the wearer's rate
    24      L bytes   the wearer's name, ASCII
    24+L    n float64 times in seconds, only with flag 4
    ...     n*C float32 values, sample by sample
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from sight.serve.limits import Limits, Refused, check_samples, check_wearer
from sight.serve.schemas import Samples
from sight.types import Array

MAGIC = b"SGT1"
_HEAD = struct.Struct("<BBHIQd")
_SEQ, _START, _TIMES = 1, 2, 4


@dataclass(frozen=True, eq=False)
class Arrival:
    """A chunk as it came in, checked but not yet placed on the wearer's clock.

    Parameters
    ----------
    wearer, seq
        Whose it is, and its number; None lets the service number it.
    values
        Samples, (n, C) float32.
    time_s
        Time of each sample, or None.
    t0
        Time of the first sample where the others follow evenly, or None.
    """

    wearer: str
    seq: int | None
    values: Array
    time_s: Array | None = None
    t0: float | None = None


# --- in ---------------------------------------------------------------------------------------------------------------


def pack(arrivals: Sequence[Arrival]) -> bytes:
    """Write chunks as one binary message.

    Examples
    --------
    >>> message = pack([Arrival("w1", 7, np.zeros((2, 3), np.float32), t0=0.5)])
    >>> len(message), unpack(message, Limits())[0].seq
    (54, 7)
    """
    parts = [MAGIC]
    for one in arrivals:
        name = one.wearer.encode("ascii")
        flags = _SEQ * (one.seq is not None) | _START * (one.t0 is not None) | _TIMES * (one.time_s is not None)
        n, channels = one.values.shape
        parts += [_HEAD.pack(len(name), flags, channels, n, one.seq or 0, one.t0 or 0.0), name]
        if one.time_s is not None:
            parts.append(one.time_s.astype("<f8", copy=False).tobytes())
        parts.append(one.values.astype("<f4", copy=False).tobytes())
    return b"".join(parts)


def unpack(message: bytes, limits: Limits) -> list[Arrival]:
    """Read the chunks of a binary message, all of them or none."""
    if message[:4] != MAGIC or len(message) == len(MAGIC):
        raise Refused("frame", "Expected a binary message that starts with SGT1 and holds a chunk, got another.")
    at, found = len(MAGIC), []
    while at < len(message):
        if at + _HEAD.size > len(message):
            raise Refused("frame", f"Expected a header of {_HEAD.size} bytes at byte {at}, but the message ends.")
        length, flags, channels, n, seq, t0 = _HEAD.unpack_from(message, at)
        at += _HEAD.size
        times = n * 8 if flags & _TIMES else 0
        end = at + length + times + n * channels * 4
        if flags & ~7 or not n * channels or end > len(message):
            raise Refused("frame", f"Expected {end - at} bytes after the header at byte {at}, or flags up to 7.")
        name = check_wearer(message[at : at + length].decode("ascii", "replace"))
        at += length
        time_s = np.frombuffer(message, "<f8", n, at) if times else None
        values = np.frombuffer(message, "<f4", n * channels, at + times).reshape(n, channels)
        number = _number(seq) if flags & _SEQ else None
        found.append(arrival(name, number, values, time_s, t0 if flags & _START else None, limits=limits))
        at = end
    return found


def arrival(
    wearer: str, seq: int | None, values: Array, time_s: Array | None = None, t0: float | None = None, *, limits: Limits
) -> Arrival:
    """Check a chunk against the limits."""
    check_samples(values, time_s, limits)
    if t0 is not None and not abs(t0) <= limits.time_s:
        raise Refused("time", f"Expected times in seconds up to {limits.time_s:g}, got others; check the unit.")
    return Arrival(wearer, seq, values, time_s, t0)


def arrival_of(wearer: str, samples: Samples, limits: Limits) -> Arrival:
    """Turn a checked JSON body into a chunk."""
    if len({len(row) for row in samples.values}) != 1 or not samples.values[0]:
        raise Refused("shape", "Expected rows of values that are all as long as there are channels.")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        values = np.array(samples.values).astype(np.float32)
    time_s = None if samples.time_s is None else np.array(samples.time_s)
    return arrival(wearer, samples.seq, values, time_s, limits=limits)


def _number(seq: int) -> int:
    if not 1 <= seq <= 2**53:
        raise Refused("seq", "Expected chunks numbered 1, 2, 3, ... below 2**53, got another number.")
    return seq


def parse(adapter: TypeAdapter[Any], text: str | bytes) -> Any:
    """Read JSON strictly, or refuse it by its first mistake; input is not repeated in the message."""
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][:4])[:80]
        said = first["msg"].splitlines()[0][:160]
        if first["type"] == "extra_forbidden":
            said = f"there is no such field; known are {', '.join(_fields(adapter, str(first['loc'][0])))}"
        raise Refused(
            "json", f"Expected JSON as /openapi.json tells it; {where + ': ' if where else ''}{said}."
        ) from None


def _fields(adapter: TypeAdapter[Any], kind: str) -> list[str]:
    """Name the fields of a request; where it has several kinds, those of one kind."""
    schema = adapter.json_schema()
    if "discriminator" in schema:
        schema = schema["$defs"][schema["discriminator"]["mapping"][kind].rpartition("/")[2]]
    return list(schema["properties"])


# --- out --------------------------------------------------------------------------------------------------------------


def dumps(content: Any) -> str:
    """Write compact JSON; what is not finite is a mistake of ours and raises."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False)
