"""The web application: routes, WebSockets and pages of a service, with one guard and one form of errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from sight import __version__
from sight.apps.serve import routes, static_files
from sight.apps.serve.errors import Refused, StoreFailed, WrongSequence, describe
from sight.apps.serve.ingest_socket import IngestConnection
from sight.apps.serve.limits import WEARER_RULE
from sight.apps.serve.metrics_and_logs import log_failure
from sight.apps.serve.service import Service
from sight.apps.serve.watch_socket import WatchConnection

#: Host names of this machine that a browser may use.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
DESCRIPTION = "Live activity recognition that adapts to the wearer. WebSockets: /v1/ingest and /v1/watch."
BROKEN = "Expected headers host and origin with a valid address; use the address that the service printed."
FOREIGN = "This request came from another site or names another host; use the address that the service printed."


def create_app(service: Service) -> FastAPI:
    """Return the application of a service; its lifespan starts the service, and drains and closes it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="sight", version=__version__, description=DESCRIPTION, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.service = service
    app.include_router(routes.operations)
    app.include_router(routes.v1)
    static_files.add_pages(app)
    app.add_middleware(Guard, service=service)
    for error in (ValueError, StoreFailed):
        app.add_exception_handler(error, _error_response)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)

    @app.websocket("/v1/ingest")
    async def ingest(socket: WebSocket) -> None:
        await IngestConnection(service, socket).run()

    @app.websocket("/v1/watch")
    async def watch(socket: WebSocket) -> None:
        await WatchConnection(service, socket).run()

    return app


class Guard:
    """Middleware that rejects requests from other sites, adds security headers, and handles unexpected errors.

    Without tokens, only requests to this machine's own names are accepted, so that no foreign host name that resolves
    to this machine gives a web site access (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope))
        if refusal is not None:
            self.service.metrics.refused.labels("origin").inc()
        if scope["type"] == "websocket":
            await (self.app if refusal is None else WebSocketClose(1008, refusal[1]))(scope, receive, send)
            return
        if scope["method"] == "HEAD":  # as GET; the web server leaves out the body
            scope = {**scope, "method": "GET"}
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers.update(static_files.HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        app = self.app if refusal is None else JSONResponse({"error": refusal[1]}, refusal[0])
        try:
            await app(scope, receive, send_with_headers)
        except ClientDisconnect:  # in the middle of a body; no client waits for a response
            return
        except Exception as error:
            response = await _error_response(Request(scope), error)
            if started:  # too late for a response; the connection is closed
                raise
            await response(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        try:
            name = urlsplit(f"//{host}").hostname
            foreign = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
        except ValueError:
            return 400, BROKEN
        foreign = foreign or (not self.service.requires_token and name not in LOOPBACK)
        return (403, FOREIGN) if foreign else None


async def _error_response(request: Request, error: Exception) -> JSONResponse:
    """Return text and status of an error; an internal error is logged under the id of its x-request-id header."""
    reason, text, status = describe(error)
    request.app.state.service.metrics.refused.labels(reason).inc()
    headers = {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": "1"}, 503: {"retry-after": "1"}}
    extra = {"method": request.method, "path": request.url.path}
    if status == 500:
        extra["request"] = token_hex(6)
        headers[500] = {"x-request-id": extra["request"]}
    log_failure(error, "request failed" if status == 500 else "store failed", extra)
    content: dict[str, Any] = {"error": text}
    if isinstance(error, WrongSequence):
        content["expected"] = error.expected
    return JSONResponse(content, status, headers.get(status))


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # registered for nothing else
    first = error.errors()[0]
    location = " ".join(str(part) for part in first["loc"])[:80]
    text = WEARER_RULE if location == "path wearer" else f"Invalid {location}: {first['msg'][:160]}."
    return await _error_response(request, Refused("request", text))


async def _http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # registered for nothing else
    texts = {404: "No such path; GET /openapi.json lists all.", 405: "This path does not support the method."}
    return JSONResponse({"error": texts.get(error.status_code, str(error.detail))}, error.status_code, error.headers)
