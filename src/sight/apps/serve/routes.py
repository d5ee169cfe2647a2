"""HTTP routes, each with its scope, request, response and errors."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter

from sight.apps.serve import schemas
from sight.apps.serve.chunks import LAST_SEQ, Chunk
from sight.apps.serve.event_reader import PAGE_EVENTS
from sight.apps.serve.message_format import ack_json, dumps
from sight.apps.serve.metrics_and_logs import log
from sight.apps.serve.request_parts import BINARY, JSON, IngestToken, ServiceOf, Wearer, permits, read_chunk, read_json
from sight.apps.serve.tokens import Token
from sight.apps.stream.event_json import as_json

PROMETHEUS = "text/plain; version=1.0.0; charset=utf-8"

_CREATE, _MOVE = TypeAdapter(schemas.Create), TypeAdapter(schemas.Move)
_ERRORS = {
    401: "Token missing or wrong.",
    403: "The token does not permit this.",
    404: "No such wearer.",
    408: "The body took too long to arrive.",
    409: "The request conflicts with what is stored.",
    413: "The body or chunk is too large.",
    415: "Unsupported content type.",
    422: "The request is invalid.",
    429: "Too many chunks or requests; see Retry-After.",
    503: "The service is busy or stopping; see Retry-After.",
}


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": schemas.ErrorOut, "description": _ERRORS[status]} for status in statuses}


def _body(kind: Any, example: Any, **others: Any) -> dict[str, Any]:
    """Return the OpenAPI description of a body that the route reads itself, after the token was checked."""
    schema = TypeAdapter(kind).json_schema(ref_template="#/components/schemas/{model}")
    content = {JSON: {"schema": schema, "example": example}} | others
    return {"requestBody": {"content": content, "required": bool(others) or kind is schemas.Move}}


operations = APIRouter(tags=["service"])


@operations.get("/healthz", summary="Check that the process runs")
async def healthz() -> schemas.Health:
    """Respond with 200; needs no token."""
    return schemas.Health()


@operations.get("/readyz", summary="Check that the service accepts chunks", responses=_errors(503))
async def readyz(service: ServiceOf) -> schemas.Health:
    """Respond with 200, or with 503 while the service stops or its store cannot write; needs no token."""
    await service.check_ready()
    return schemas.Health()


@operations.get(
    "/metrics",
    summary="Read metrics for Prometheus",
    response_class=Response,
    responses=_errors(401, 403, 429) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    dependencies=[permits("read")],
)
async def metrics(service: ServiceOf) -> Response:
    """Return counters, queue lengths, times, space and readiness of the whole service, and of its process."""
    return Response(await service.metrics_text(), media_type=PROMETHEUS)


v1 = APIRouter(prefix="/v1", tags=["wearers"], responses=_errors(401, 429))
per_wearer = APIRouter(prefix="/wearers/{wearer}", responses=_errors(403, 404, 409, 422))


@v1.get("/models", summary="List models", dependencies=[permits(None)])
async def models(service: ServiceOf) -> schemas.ModelsOut:
    """List all models and the default for new wearers."""
    catalogue = service.manager.models
    return schemas.ModelsOut(default=catalogue.get().id, models=[schemas.ModelOut(**model.info) for model in catalogue])


@v1.get("/wearers", summary="List wearers", response_model=schemas.WearersOut, responses=_errors(403, 503))
async def wearers(service: ServiceOf, token: Annotated[Token, permits("read")]) -> Response:
    """List the wearers that the token may read, with their latest prediction."""
    rows = await service.queue.call(service.manager.wearers)

    def text() -> str:
        return dumps({"wearers": [row for row in rows if token.permits("read", row["wearer"])]})

    return Response(await service.reader.call(text), media_type=JSON)


@per_wearer.put(
    "",
    summary="Create a wearer",
    responses=_errors(408, 413, 415),
    openapi_extra=_body(schemas.Create, {"method": "keel", "rate_hz": 50.0}),
)
async def create(request: Request, service: ServiceOf, wearer: Wearer, token: IngestToken) -> schemas.WearerInfoOut:
    """Create a wearer. Repeating the request changes nothing; other arguments for an existing wearer are a conflict.

    Another `method` than the default, and `params`, need the scope admin too.
    """
    options: schemas.Create = await read_json(request, _CREATE)
    if options.method and token.permits("admin", wearer):
        # Compiles the step of the method in the thread of the reader, so that no chunk waits for it.
        model = service.manager.models.get(options.model)
        await service.reader.call(model.warm_up, options.method)
    created, info = await service.queue.call(service.create, token, wearer, **options.model_dump())
    if created:
        log.info("created", extra={"wearer": wearer, "model": info["model"], "method": info["method"]})
    return schemas.WearerInfoOut(**info)


@per_wearer.get("", summary="Read a wearer", dependencies=[permits("read")])
async def read(service: ServiceOf, wearer: Wearer) -> schemas.WearerInfoOut:
    """Return model, method and progress of a wearer, and what the method has learned."""
    return schemas.WearerInfoOut(**await service.queue.call(service.manager.info, wearer, adaptation=True))


@per_wearer.post(
    "/samples",
    summary="Send samples",
    response_model=schemas.AckOut,
    responses=_errors(408, 413, 415, 503),
    openapi_extra=_body(
        schemas.Samples,
        {"seq": 1, "values": [[0.01, -0.98, 0.12], [0.02, -0.97, 0.11]]},
        **{BINARY: {"schema": {"type": "string", "format": "binary", "description": "float32, little-endian, n x C"}}},
    ),
)
async def samples(service: ServiceOf, chunk: Annotated[Chunk, Depends(read_chunk)]) -> Response:
    """Send a chunk; the response comes when it is durable, with an event for each window that it completed."""
    ack, latency_ms = await service.queue.send(chunk)
    return Response(dumps(ack_json(ack, latency_ms)), media_type=JSON)


@per_wearer.get(
    "/events", summary="Read stored predictions", response_model=schemas.EventsOut, dependencies=[permits("read")]
)
async def events(
    service: ServiceOf,
    wearer: Wearer,
    after: Annotated[int, Query(ge=-1, le=LAST_SEQ, description="Number of the last window you have.")] = -1,
    limit: Annotated[int, Query(ge=1, le=PAGE_EVENTS, description="Most events to return.")] = PAGE_EVENTS,
) -> Response:
    """Return stored predictions of windows numbered above `after`, oldest first; `next` continues on the next page."""
    info = await service.queue.call(service.manager.info, wearer)
    stored = await service.reader.events(wearer, after, limit)

    def text() -> str:
        following = stored[-1].window if len(stored) == limit else None
        return dumps({"events": [as_json(event, info["classes"]) for event in stored], "next": following})

    return Response(await service.reader.call(text), media_type=JSON)


@per_wearer.post("/sequence", summary="Start a new sequence of chunks", dependencies=[permits("ingest")])
async def sequence(service: ServiceOf, wearer: Wearer) -> schemas.WearerInfoOut:
    """Let the next chunk be number 1, for a sender that has lost its count; what was learned and stored stays."""
    info = await service.queue.call(service.manager.start_sequence, wearer)
    log.info("sequence started", extra={"wearer": wearer})
    return schemas.WearerInfoOut(**info)


@per_wearer.post("/reset", summary="Reset a wearer", dependencies=[permits("admin")])
async def reset(service: ServiceOf, wearer: Wearer) -> schemas.WearerInfoOut:
    """Delete what was learned, the logged samples and the stored predictions; chunks keep their numbering."""
    info = await service.queue.call(service.manager.reset, wearer)
    log.info("reset", extra={"wearer": wearer})
    return schemas.WearerInfoOut(**info)


@per_wearer.post(
    "/move",
    summary="Change the model of a wearer",
    responses=_errors(408, 413, 415),
    openapi_extra=_body(schemas.Move, {"model": "walk@2"}),
    dependencies=[permits("admin")],
)
async def move(request: Request, service: ServiceOf, wearer: Wearer) -> schemas.WearerInfoOut:
    """Continue with another model of the same shape; what was learned is kept."""
    options: schemas.Move = await read_json(request, _MOVE)
    info = await service.queue.call(service.manager.move, wearer, options.model)
    log.info("moved", extra={"wearer": wearer, "model": info["model"]})
    return schemas.WearerInfoOut(**info)


@per_wearer.get(
    "/export",
    summary="Export a wearer",
    response_class=Response,
    responses={200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}},
    dependencies=[permits("admin")],
)
async def export(service: ServiceOf, wearer: Wearer) -> Response:
    """Return all stored data of a wearer as a zip archive."""
    session = await service.queue.call(service.manager.export, wearer)
    log.info("exported", extra={"wearer": wearer})
    headers = {"content-disposition": f'attachment; filename="{wearer}.zip"'}
    return StreamingResponse(service.reader.archive(session), media_type="application/zip", headers=headers)


@per_wearer.delete("", summary="Delete a wearer", status_code=204, dependencies=[permits("admin")])
async def delete(service: ServiceOf, wearer: Wearer) -> Response:
    """Delete all data of a wearer."""
    await service.queue.call(service.manager.delete, wearer)
    service.subscriptions.end(wearer, f"The wearer {wearer!r} was deleted.")
    log.info("deleted", extra={"wearer": wearer})
    return Response(status_code=204)


v1.include_router(per_wearer)
