"""The web server of a service: configuration of uvicorn, and an orderly stop."""

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from sight.apps.serve.app import create_app
from sight.apps.serve.connection_limits import HEADER_S, HttpProtocol, SocketProtocol
from sight.apps.serve.demo_replay import replay
from sight.apps.serve.limits import Limits
from sight.apps.serve.metrics_and_logs import log, log_config
from sight.apps.serve.service import Service
from sight.types import Recording

#: Seconds that open requests get when the server stops, after the sockets were closed.
STOP_S = 5
#: Connections that wait to be accepted, and most that are accepted at once: those beyond the limit are closed a few
#: turns of the event loop later, and need files until then.
BACKLOG, ACCEPTED = 2048, 16
#: Files beyond the permitted connections: database, models, logs, and connections that are being closed.
OWN_FILES = 128


def server_config(app: ASGIApp, limits: Limits, **options: Any) -> uvicorn.Config:
    """Return the configuration of the web server; `options` of uvicorn take precedence."""
    closing: dict[Any, None] = {}
    own = {"max_connections": limits.open_connections, "waiting": {}, "closing": closing}
    defaults: dict[str, Any] = {
        "http": type("LimitedHttpProtocol", (HttpProtocol,), own),
        "ws": type("LimitedSocketProtocol", (SocketProtocol,), {"closing": closing}),
        "log_config": log_config(),
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "ws_max_size": limits.message_bytes,
        "ws_per_message_deflate": False,
        "timeout_graceful_shutdown": STOP_S,
        "backlog": ACCEPTED,
    }
    return uvicorn.Config(app, **(defaults | options))


class Server(uvicorn.Server):
    """Web server that drains the service before it closes connections; `demo` has recordings by wearer, and a model."""

    def __init__(self, service: Service, demo: tuple[Mapping[str, Recording], str] | None, **options: Any) -> None:
        super().__init__(server_config(create_app(service), service.limits, **options))
        self._service, self._demo = service, demo
        self._replay: asyncio.Task[None] | None = None

    def permit_connections(self, most: int) -> None:
        """Permit fewer connections than configured, at most half of them WebSockets, which would shut requests out."""
        protocol: Any = self.config.http
        if most < protocol.max_connections:
            protocol.max_connections, limits = most, self._service.limits
            self._service.limits = replace(limits, connections=min(limits.connections, max(most // 2, 1)))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop: Any = asyncio.get_running_loop()
        if self.config.is_ssl:  # uvicorn does not set it, and a minute is the default
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HEADER_S)
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # uvicorn has set it to the number that is accepted at once
        if self._demo is not None and self.started:
            self._replay = asyncio.create_task(replay(self._service, *self._demo))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._replay is not None:
            self._replay.cancel()
        await self._service.drain()
        await super().shutdown(sockets)


def run(server: Server, listener: socket.socket) -> None:
    """Serve until stopped; then finish what is pending, save, close, and exit with 0."""
    protocol: Any = server.config.http
    server.permit_connections(_permitted_connections(protocol.max_connections))
    # The manager's thread must not hold the interpreter for the usual 5 ms each time the event loop needs it.
    sys.setswitchinterval(5e-4)
    # The server raises the signal that stopped it again, and supervisors would take exit code 143 as a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def _permitted_connections(wanted: int) -> int:
    """Raise the limit of open files so that so many connections fit; return how many do if that is not permitted."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    files = wanted + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= files:
        return wanted
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    possible = max(files - OWN_FILES, 1)
    if possible < wanted:
        log.warning("fewer connections", extra={"open_connections": possible, "open_files": files})
    return possible
