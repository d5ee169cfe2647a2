"""Reading and writing of messages: chunks in binary or JSON, acknowledgements in JSON.

A binary message of ``/v1/ingest`` is ``b"SGT1"`` followed by one or more chunks, each (little-endian)::

    offset  type      meaning
    0       uint8     L, length of the wearer's name
    1       uint8     flags: 1 = `seq` is given, 2 = `t0` is given, 4 = a time for each sample follows
    2       uint16    C, channels
    4       uint32    n, samples
    8       uint64    seq, number of the chunk
    16      float64   t0, time of the first sample in seconds; the others follow at the wearer's rate
    24      L bytes   the wearer's name, ASCII
    24+L    n float64 times in seconds, only with flag 4
    ...     n*C float32 values, sample by sample
"""

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from sight.apps.serve.chunks import Ack, Chunk, check_limits
from sight.apps.serve.errors import Refused
from sight.apps.serve.limits import Limits, check_wearer
from sight.apps.serve.schemas import Samples
from sight.apps.stream.event_json import as_json

MAGIC = b"SGT1"
#: Most fields of a JSON object, and most lists beside those of samples; no request has as many.
MAX_FIELDS = 16
_HEADER = struct.Struct("<BBHIQd")
_SEQ, _START, _TIMES = 1, 2, 4


def pack(chunks: Sequence[Chunk]) -> bytes:
    parts = [MAGIC]
    for chunk in chunks:
        name = chunk.wearer.encode("ascii")
        flags = _SEQ * (chunk.seq is not None) | _START * (chunk.t0 is not None) | _TIMES * (chunk.time_s is not None)
        n, channels = chunk.values.shape
        parts += [_HEADER.pack(len(name), flags, channels, n, chunk.seq or 0, chunk.t0 or 0.0), name]
        if chunk.time_s is not None:
            parts.append(chunk.time_s.astype("<f8", copy=False).tobytes())
        parts.append(chunk.values.astype("<f4", copy=False).tobytes())
    return b"".join(parts)


def unpack(message: bytes, limits: Limits) -> list[Chunk]:
    """Return all chunks of a binary message; raise `Refused` if any of them cannot be read or exceeds the limits."""
    if message[:4] != MAGIC or len(message) == len(MAGIC):
        raise Refused("frame", "Expected a binary message that starts with SGT1 and contains a chunk.")
    offset, chunks = len(MAGIC), list[Chunk]()
    while offset < len(message):
        if len(chunks) >= limits.message_chunks:
            text = f"Expected at most {limits.message_chunks} chunks in a message, got more; send several messages."
            raise Refused("chunks", text, 413)
        if offset + _HEADER.size > len(message):
            raise Refused("frame", f"Expected a header of {_HEADER.size} bytes at byte {offset}, the message ends.")
        length, flags, channels, n, seq, t0 = _HEADER.unpack_from(message, offset)
        offset += _HEADER.size
        times = n * 8 if flags & _TIMES else 0
        end = offset + length + times + n * channels * 4
        if flags & ~7 or not n * channels or end > len(message):
            raise Refused(
                "frame", f"Expected {end - offset} bytes after the header at byte {offset}, or flags up to 7."
            )
        wearer = check_wearer(message[offset : offset + length].decode("ascii", "replace"))
        offset += length
        chunk = Chunk(
            wearer,
            seq if flags & _SEQ else None,
            np.frombuffer(message, "<f4", n * channels, offset + times).reshape(n, channels),
            np.frombuffer(message, "<f8", n, offset) if times else None,
            t0 if flags & _START else None,
        )
        chunks.append(check_limits(chunk, limits))
        offset = end
    return chunks


def chunk_from_json(wearer: str, samples: Samples, limits: Limits) -> Chunk:
    """Return the chunk of a JSON body or message; raise `Refused` if rows differ in length or exceed the limits."""
    if len({len(row) for row in samples.values}) != 1:
        raise Refused("shape", "Expected rows of values that are all as long as there are channels.")
    time_s = None if samples.time_s is None else np.array(samples.time_s)
    return check_limits(Chunk(wearer, samples.seq, np.array(samples.values), time_s), limits)


def parse(adapter: TypeAdapter[Any], text: str | bytes, limits: Limits | None = None) -> Any:
    """Validate JSON strictly; raise `Refused` with the first mistake, without repeating the input.

    Text with more lists than `limits` permits samples is refused unparsed: lists are slow, and other requests wait.
    """
    most = MAX_FIELDS + (limits.samples if limits else 0)
    if (text.count("[") if isinstance(text, str) else text.count(b"[")) > most:
        expected = f"at most {limits.samples} samples" if limits else "JSON as described in /openapi.json"
        raise Refused("samples" if limits else "json", f"Expected {expected}, got more lists; send less.", 413)
    try:
        content = from_json(text, allow_inf_nan=False)
        if isinstance(content, dict) and len(content) > MAX_FIELDS:  # each unknown field would be an error of its own
            raise Refused("json", f"Expected JSON as described in /openapi.json, got {len(content)} fields.")
        return adapter.validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        location = ".".join(str(part) for part in first["loc"][:4])[:80]
        problem = first["msg"].splitlines()[0][:160]
        if first["type"] == "extra_forbidden":
            problem = f"unknown field; expected one of {', '.join(_fields(adapter, str(first['loc'][0])))}"
        prefix = f"{location}: " if location else ""
        raise Refused("json", f"Expected JSON as described in /openapi.json; {prefix}{problem}.") from None
    except Refused:
        raise
    except ValueError as error:
        problem = str(error).splitlines()[0][:160]
        raise Refused("json", f"Expected JSON as described in /openapi.json; {problem}.") from None


def _fields(adapter: TypeAdapter[Any], message_type: str) -> list[str]:
    """Return the field names of a request; for a union of messages, those of one message type."""
    schema = adapter.json_schema()
    if "discriminator" in schema:
        schema = schema["$defs"][schema["discriminator"]["mapping"][message_type].rpartition("/")[2]]
    return list(schema["properties"])


def ack_json(ack: Ack, latency_ms: float) -> dict[str, Any]:
    events = [as_json(event, ack.classes, latency_ms) for event in ack.events]
    return {"seq": ack.seq, "duplicate": ack.duplicate, "dropped": ack.dropped, "events": events}


def dumps(content: Any) -> str:
    """Return compact JSON; raise ValueError for non-finite numbers."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False)
