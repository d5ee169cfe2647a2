"""The web application: routes, sockets and pages around a service, behind one guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from sight._version import __version__
from sight.serve import routes, static_files
from sight.serve.errors import StoreFailed
from sight.serve.limits import Refused
from sight.serve.monitoring import log
from sight.serve.problems import problem
from sight.serve.service import Service
from sight.serve.sockets import Ingest, Watch

#: What a browser may call this machine when it talks to itself.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ABOUT = "Live activity recognition that adapts to its wearer. Sockets: /v1/ingest and /v1/watch, see docs/serve.md."


def create_app(service: Service) -> FastAPI:
    """Make the application of a service; starting it starts the service, stopping it drains and closes it."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(title="sight", version=__version__, description=ABOUT, docs_url=None, redoc_url=None, lifespan=life)
    app.state.service = service
    app.include_router(routes.health)
    app.include_router(routes.v1)
    app.include_router(static_files.router(static_files.manifest()))
    app.add_middleware(Guard, service=service)
    for kind in (Refused, ValueError, StoreFailed):
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)

    @app.websocket("/v1/ingest")
    async def ingest(socket: WebSocket) -> None:
        await Ingest(service, socket).run()

    @app.websocket("/v1/watch")
    async def watch(socket: WebSocket) -> None:
        await Watch(service, socket).run()

    return app


class Guard:
    """Stands before everything: no foreign page may use a visitor's browser to get in, and pages load nothing foreign.

    A request that fails in a way nobody foresaw is answered here too, like every other error.

    Parameters
    ----------
    app
        What is guarded.
    service
        Tells whether tokens are needed. Where they are not, only this machine may be asked for, by its own names, so
        that no name of somebody else's that points here opens the door.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a foreign origin; otherwise go on, add what every answer carries, and answer what fails."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif self._foreign(Headers(scope=scope)):
            await self._refuse(scope, receive, send)
        elif scope["type"] == "websocket":
            await self.app(scope, receive, send)
        else:
            answering = Answering(send)
            try:
                await self.app(scope, receive, answering)
            except Exception as error:
                answer = await _refused(Request(scope), error)
                if answering.begun:  # too late for a sentence; the connection is cut
                    raise
                await answer(scope, receive, answering)

    def _foreign(self, headers: Headers) -> bool:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.service.guarded and urlsplit(f"//{host}").hostname not in LOOPBACK:
            return True
        return origin is not None and urlsplit(origin).netloc.lower() != host.lower()

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = "This came from a foreign page or asked for another machine; use the address the service printed."
        self.service.metrics.refused.labels("origin").inc()
        if scope["type"] == "websocket":
            await WebSocketClose(1008, text[:120])(scope, receive, send)
        else:
            await JSONResponse({"error": text}, 403)(scope, receive, Answering(send))


class Answering:
    """Sends an answer with the headers that each must carry, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self.send, self.begun = send, False

    async def __call__(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            headers.update(static_files.HEADERS)
            headers.setdefault("cache-control", "no-store")
        await self.send(message)


# --- errors ---------------------------------------------------------------------------------------------------------


async def _refused(request: Request, error: Exception) -> JSONResponse:
    """Turn what went wrong into a sentence and a status; what nobody foresaw is logged under a number that is told.

    Of a store that fails the log tells what lay behind it.
    """
    reason, text, status = problem(error)
    request.app.state.service.metrics.refused.labels(reason).inc()
    headers = {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": "1"}, 503: {"retry-after": "1"}}
    content: dict[str, Any] = {"error": text}
    about = {"method": request.method, "path": request.url.path}
    if status == 500:
        number = token_hex(6)
        headers[500] = {"x-request-id": number}
        log.error("request failed", exc_info=error, extra={"request": number, **about})
    elif isinstance(error, StoreFailed):
        log.error("store failed", exc_info=error.__cause__ or error, extra=about)
    if hasattr(error, "expected"):
        content["expected"] = error.expected
    return JSONResponse(content, status, headers.get(status))


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Say where a request is wrong, without repeating it."""
    assert isinstance(error, RequestValidationError)  # registered for nothing else
    first = error.errors()[0]
    where = " ".join(str(part) for part in first["loc"])[:80]
    return await _refused(request, Refused("request", f"Expected {where} as documented: {first['msg'][:160]}."))


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # registered for nothing else
    texts = {404: "There is nothing here; GET /openapi.json lists what there is.", 405: "This cannot be done here."}
    return JSONResponse({"error": texts.get(error.status_code, str(error.detail))}, error.status_code, error.headers)
