"""What the routes take from a request: the service, the token, the wearer and the body."""

import asyncio
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Path, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import TypeAdapter

from sight.apps.serve import schemas
from sight.apps.serve.chunks import LAST_SEQ, Chunk, check_limits
from sight.apps.serve.errors import DENIED, Refused
from sight.apps.serve.limits import WEARER, WEARER_LENGTH
from sight.apps.serve.message_format import chunk_from_json, parse
from sight.apps.serve.metrics_and_logs import token_id
from sight.apps.serve.service import Service
from sight.apps.serve.tokens import Token

#: Seconds a request body may take to arrive.
BODY_S = 30.0
JSON, BINARY = "application/json", "application/octet-stream"

_SAMPLES = TypeAdapter(schemas.Samples)
_BEARER = HTTPBearer(auto_error=False, description="A token of `sight serve token add`.")


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceOf = Annotated[Service, Depends(service_of)]
Wearer = Annotated[
    str, Path(pattern=f"^{WEARER}$", max_length=WEARER_LENGTH, description="Name of the wearer.", examples=["lab-07"])
]


def permits(scope: str | None, *, limited: bool = True) -> Any:
    """Return a dependency that requires a token with this scope for the wearer in the path; it may limit the rate."""

    async def check(
        request: Request,
        service: ServiceOf,
        _: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None,
    ) -> Token:
        token = service.token_of(request.headers.get("authorization"))
        if token is None or not token.permits(scope, request.path_params.get("wearer")):
            client = request.client.host if request.client else None
            text = DENIED if token is None else token.denial(scope)
            raise service.deny(token, f"{request.method} {request.url.path}", text, client)
        token_id.set(token.id)
        if limited:
            service.admit_request(token)
        return token

    return Depends(check)


IngestToken = Annotated[Token, permits("ingest")]


async def read_json(request: Request, adapter: TypeAdapter[Any]) -> Any:
    """Return a validated body; an empty one counts as an object without fields."""
    body = await _read(request)
    if _content_type(request) != JSON:
        raise Refused("type", f"Expected a body of type {JSON}.", 415)
    return parse(adapter, body or b"{}")


async def read_chunk(
    request: Request,
    service: ServiceOf,
    wearer: Wearer,
    token: Annotated[Token, permits("ingest", limited=False)],
    seq: Annotated[int | None, Query(ge=1, le=LAST_SEQ, description="Number of a binary chunk.")] = None,
    t0: Annotated[
        float | None, Query(allow_inf_nan=False, description="Time of the first sample of a binary chunk, seconds.")
    ] = None,
    times: Annotated[
        bool, Query(description="Whether a binary chunk starts with the time of each sample, float64, little-endian.")
    ] = False,
) -> Chunk:
    """Return the chunk of a body in JSON or binary; raise `Refused` if it cannot be read or exceeds the limits."""
    content_type, body = _content_type(request), await _read(request)
    service.admit_chunk(token, wearer)
    if content_type == JSON:
        return chunk_from_json(wearer, parse(_SAMPLES, body, service.limits), service.limits)
    if content_type != BINARY:
        raise Refused("type", f"Expected a body of type {JSON} or {BINARY}.", 415)
    width = len((await service.queue.call(service.manager.info, wearer))["channels"])
    size = 4 * width + (8 if times else 0)
    if not body or len(body) % size:
        expected = f"{'float64 times and ' if times else ''}float32 rows of {width} channels"
        raise Refused("shape", f"Expected {expected}, {size} bytes for each sample, got {len(body)} bytes.")
    start = 8 * (len(body) // size) if times else 0
    time_s = np.frombuffer(body[:start], "<f8") if times else None
    values = np.frombuffer(body[start:], "<f4").reshape(-1, width)
    return check_limits(Chunk(wearer, seq, values, time_s, None if times else t0), service.limits)


async def _read(request: Request) -> bytes:
    limit = service_of(request).limits.message_bytes
    if (encoding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        raise Refused("type", f"Expected a body without content-encoding, got {encoding[:40]!r}; leave it out.", 415)
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise Refused("size", f"Expected at most {limit} bytes, got more; send smaller bodies.", 413)
                parts.append(part)
    except TimeoutError:
        raise Refused("slow", f"Expected the body within {BODY_S:g} s; send it faster or in parts.", 408) from None
    return b"".join(parts)


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
