"""Plain HTTP: every route says who may call it, what it takes and what it answers, errors included."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Path, Query, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import TypeAdapter

from sight.serve import schemas
from sight.serve.chunk_format import arrival, arrival_of, dumps, parse
from sight.serve.limits import WEARER, Refused
from sight.serve.monitoring import log
from sight.serve.problems import DENIED
from sight.serve.service import Service
from sight.serve.tokens import Token
from sight.stream.event_json import as_json

#: Seconds a body may take to arrive.
BODY_S = 30.0
JSON, BINARY, PROMETHEUS = "application/json", "application/octet-stream", "text/plain; version=1.0.0; charset=utf-8"

_SAMPLES, _CREATE, _MOVE = (TypeAdapter(kind) for kind in (schemas.Samples, schemas.Create, schemas.Move))
_TOLD = {
    401: "No token, or a wrong one.",
    403: "A token that does not permit this.",
    404: "No such wearer.",
    408: "The body took too long.",
    409: "Does not fit what is stored.",
    413: "Too large.",
    415: "A type of body that is not taken here.",
    422: "Not what was expected.",
    429: "Too many chunks; see Retry-After.",
    503: "Busy or stopping; see Retry-After.",
}
bearer = HTTPBearer(auto_error=False, description="A token of `sight serve token add`.")
Wearer = Annotated[str, Path(pattern=f"^{WEARER}$", description="Name of the wearer.", examples=["lab-07"])]


def service_of(request: Request) -> Service:
    """Find the service behind a request."""
    service: Service = request.app.state.service
    return service


def permits(scope: str | None) -> Callable[..., Awaitable[Token]]:
    """Make a dependency that lets a request pass if its token permits a scope on the wearer of its path."""

    async def check(
        request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)] = None
    ) -> Token:
        service = service_of(request)
        token = service.token_of(request.headers.get("authorization"))
        if token is None:
            raise Refused("token", DENIED, 401)
        if not token.permits(scope, request.path_params.get("wearer")):
            raise Refused("token", DENIED, 403)
        return token

    return check


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": schemas.Problem, "description": _TOLD[status]} for status in statuses}


def _body(kind: Any, example: Any = None, **others: Any) -> dict[str, Any]:
    """Describe a body that is read by hand, after the token was checked."""
    schema = TypeAdapter(kind).json_schema(ref_template="#/components/schemas/{model}")
    content = {JSON: {"schema": schema} | ({"example": example} if example else {})} | others
    return {"requestBody": {"content": content, "required": bool(others) or kind is schemas.Move}}


async def _read(request: Request) -> bytes:
    """Read a body up to the limit, in time."""
    most = service_of(request).limits.message_bytes
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise Refused("size", f"Expected at most {most} bytes, got more; cut the body.", 413)
                parts.append(part)
    except TimeoutError:
        raise Refused("slow", f"Expected the body within {BODY_S:g} s; send it faster or in pieces.", 408) from None
    return b"".join(parts)


def _kind(request: Request) -> str:
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower()


async def _json(request: Request, adapter: TypeAdapter[Any]) -> Any:
    body = await _read(request)
    if _kind(request) != JSON:
        raise Refused("type", f"Expected a body of type {JSON}, got another.", 415)
    return parse(adapter, body or b"{}")


# --- the service itself ---------------------------------------------------------------------------------------------

health = APIRouter(tags=["service"])


@health.get("/healthz", summary="Is the process alive?")
async def healthz() -> schemas.Health:
    """Answer; needs no token."""
    return schemas.Health()


@health.get("/readyz", summary="Does the service take chunks?", responses=_errors(503))
async def readyz(request: Request) -> schemas.Health:
    """Answer with 503 while the service stops; needs no token."""
    if not service_of(request).ready:
        raise Refused("busy", "The service is stopping.", 503)
    return schemas.Health()


@health.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses=_errors(401, 403) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    dependencies=[Depends(permits("read"))],
)
async def metrics(request: Request) -> Response:
    """Tell counts, queues and times; nothing about any wearer."""
    service = service_of(request)
    service.metrics.resident.set(await service.batcher.call(lambda: service.keeper.in_memory))
    return Response(service.metrics.text(), media_type=PROMETHEUS)


# --- wearers --------------------------------------------------------------------------------------------------------

v1 = APIRouter(prefix="/v1", tags=["wearers"])


@v1.get("/models", summary="List models", responses=_errors(401), dependencies=[Depends(permits(None))])
async def models(request: Request) -> schemas.ModelsOut:
    """List all models; a new wearer gets the default unless it names another."""
    known = service_of(request).keeper.models
    return schemas.ModelsOut(default=known.get().id, models=[schemas.ModelOut(**model.facts) for model in known])


@v1.get("/wearers", summary="List wearers", response_model=schemas.WearersOut, responses=_errors(401, 403, 503))
async def wearers(request: Request, token: Annotated[Token, Depends(permits("read"))]) -> Response:
    """List the wearers that the token may see, with what each did last."""
    service = service_of(request)
    found = await service.batcher.call(service.keeper.wearers)
    shown = [one for one in found if token.permits("read", one["wearer"])]
    return Response(dumps({"wearers": shown}), media_type=JSON)


@v1.put(
    "/wearers/{wearer}",
    summary="Create a wearer",
    responses=_errors(401, 403, 408, 409, 413, 415, 422),
    openapi_extra=_body(schemas.Create, {"method": "keel", "rate_hz": 50.0}),
    dependencies=[Depends(permits("ingest"))],
)
async def create(request: Request, wearer: Wearer) -> schemas.FactsOut:
    """Create a wearer; once more with the same facts changes nothing, with others is a conflict."""
    service = service_of(request)
    asked: schemas.Create = await _json(request, _CREATE)
    facts = await service.batcher.call(service.keeper.create, wearer, **asked.model_dump())
    service.batcher.forget(wearer)
    log.info("created", extra={"wearer": wearer, "model": facts["model"], "method": facts["method"]})
    return schemas.FactsOut(**facts)


@v1.get(
    "/wearers/{wearer}",
    summary="Read a wearer",
    responses=_errors(401, 403, 404, 409, 422),
    dependencies=[Depends(permits("read"))],
)
async def read(request: Request, wearer: Wearer) -> schemas.FactsOut:
    """Tell how a wearer is served, how far, and what adaptation has learned."""
    service = service_of(request)

    def look() -> dict[str, Any]:
        return service.keeper.facts(wearer) | {"picture": service.keeper.picture(wearer)}

    return schemas.FactsOut(**await service.batcher.call(look))


@v1.post(
    "/wearers/{wearer}/samples",
    summary="Send samples",
    response_model=schemas.AckOut,
    responses=_errors(401, 403, 404, 408, 409, 413, 415, 422, 429, 503),
    openapi_extra=_body(
        schemas.Samples,
        {"seq": 1, "values": [[0.01, -0.98, 0.12], [0.02, -0.97, 0.11]]},
        **{BINARY: {"schema": {"type": "string", "format": "binary", "description": "float32, little-endian, n x C"}}},
    ),
)
async def samples(
    request: Request,
    wearer: Wearer,
    token: Annotated[Token, Depends(permits("ingest"))],
    seq: Annotated[int | None, Query(ge=1, le=2**53, description="Number of a binary chunk.")] = None,
    t0: Annotated[
        float | None, Query(allow_inf_nan=False, description="Time of the first sample of a binary chunk, seconds.")
    ] = None,
) -> Response:
    """Send a chunk; the answer comes when it is durable, and holds an event for each window it completed."""
    service, kind, body = service_of(request), _kind(request), await _read(request)
    if kind == JSON:
        chunk = arrival_of(wearer, parse(_SAMPLES, body), service.limits)
    elif kind == BINARY:
        chunk = arrival(wearer, seq, await _rows(service, wearer, body), None, t0, limits=service.limits)
    else:
        raise Refused("type", f"Expected a body of type {JSON} or {BINARY}, got another.", 415)
    service.admit(token, chunk)
    work, ack = await service.batcher.send(chunk)
    latency_ms = round(work.latency_ms, 2)
    events = [as_json(event, work.facts["classes"], latency_ms) for event in ack.events]
    return Response(dumps({"seq": ack.seq, "duplicate": ack.duplicate, "events": events}), media_type=JSON)


async def _rows(service: Service, wearer: str, body: bytes) -> np.ndarray[Any, Any]:
    """Cut a binary body into rows as wide as the wearer's model has channels."""
    width = len((await service.batcher.call(service.keeper.facts, wearer))["channels"])
    if not body or len(body) % (4 * width):
        raise Refused("shape", f"Expected float32 rows of {width} channels, got {len(body)} bytes.")
    return np.frombuffer(body, "<f4").reshape(-1, width)


@v1.get(
    "/wearers/{wearer}/events",
    summary="Read answers",
    response_model=schemas.EventsOut,
    responses=_errors(401, 403, 404, 409, 422),
    dependencies=[Depends(permits("read"))],
)
async def events(
    request: Request,
    wearer: Wearer,
    after: Annotated[int, Query(ge=-1, le=2**53, description="Number of the last window you have.")] = -1,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Most answers to give.")] = 1000,
) -> Response:
    """Give stored answers to windows numbered above `after`, oldest first."""
    service = service_of(request)

    def look() -> tuple[Any, Any]:
        return service.keeper.facts(wearer), service.keeper.events(wearer, after, limit)

    facts, found = await service.batcher.call(look)
    return Response(dumps({"events": [as_json(event, facts["classes"]) for event in found]}), media_type=JSON)


@v1.post(
    "/wearers/{wearer}/reset",
    summary="Forget what was learned",
    responses=_errors(401, 403, 404, 409, 422),
    dependencies=[Depends(permits("admin"))],
)
async def reset(request: Request, wearer: Wearer) -> schemas.FactsOut:
    """Start the wearer anew: state, log and answers go; chunks keep their numbering."""
    service = service_of(request)
    facts = await service.batcher.call(service.keeper.reset, wearer)
    log.info("reset", extra={"wearer": wearer})
    return schemas.FactsOut(**facts)


@v1.post(
    "/wearers/{wearer}/move",
    summary="Serve with another model",
    responses=_errors(401, 403, 404, 408, 409, 413, 415, 422),
    openapi_extra=_body(schemas.Move, {"model": "walk@2"}),
    dependencies=[Depends(permits("admin"))],
)
async def move(request: Request, wearer: Wearer) -> schemas.FactsOut:
    """Serve the wearer with another model from now on; what was learned is carried where the shapes agree."""
    service = service_of(request)
    asked: schemas.Move = await _json(request, _MOVE)
    facts = await service.batcher.call(service.keeper.move, wearer, asked.model)
    service.batcher.forget(wearer)
    log.info("moved", extra={"wearer": wearer, "model": facts["model"]})
    return schemas.FactsOut(**facts)


@v1.get(
    "/wearers/{wearer}/export",
    summary="Export everything",
    response_class=Response,
    responses=_errors(401, 403, 404, 409, 422)
    | {200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}},
    dependencies=[Depends(permits("admin"))],
)
async def export(request: Request, wearer: Wearer) -> Response:
    """Give all that is stored of a wearer as one zip archive."""
    service = service_of(request)
    content = await service.batcher.call(service.keeper.export, wearer)
    log.info("exported", extra={"wearer": wearer, "bytes": len(content)})
    headers = {"content-disposition": f'attachment; filename="{wearer}.zip"'}
    return Response(content, media_type="application/zip", headers=headers)


@v1.delete(
    "/wearers/{wearer}",
    summary="Delete a wearer",
    status_code=204,
    responses=_errors(401, 403, 404, 422),
    dependencies=[Depends(permits("admin"))],
)
async def delete(request: Request, wearer: Wearer) -> Response:
    """Remove a wearer for good: facts, state, log and answers."""
    service = service_of(request)
    await service.batcher.call(service.keeper.delete, wearer)
    service.batcher.forget(wearer)
    log.info("deleted", extra={"wearer": wearer})
    return Response(status_code=204)
