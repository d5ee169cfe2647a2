"""The web server of a service: configuration of uvicorn, and an orderly stop."""

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from sight.apps.serve.app import create_app
from sight.apps.serve.connection_limits import HttpProtocol, SocketProtocol
from sight.apps.serve.demo_replay import replay
from sight.apps.serve.limits import Limits
from sight.apps.serve.metrics_and_logs import log_config
from sight.apps.serve.service import Service
from sight.types import Recording

#: Seconds that open requests get when the server stops, after the sockets were closed.
STOP_S = 5


def server_config(app: ASGIApp, limits: Limits, **options: Any) -> uvicorn.Config:
    """Return the configuration of the web server; `options` of uvicorn take precedence."""
    own = {"max_connections": limits.open_connections, "waiting": {}}
    defaults: dict[str, Any] = {
        "http": type("LimitedHttpProtocol", (HttpProtocol,), own),
        "ws": SocketProtocol,
        "log_config": log_config(),
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "ws_max_size": limits.message_bytes,
        "ws_per_message_deflate": False,
        "timeout_graceful_shutdown": STOP_S,
    }
    return uvicorn.Config(app, **(defaults | options))


class Server(uvicorn.Server):
    """Web server that drains the service before it closes connections; `demo` has recordings by wearer, and a model."""

    def __init__(self, service: Service, demo: tuple[Mapping[str, Recording], str] | None, **options: Any) -> None:
        super().__init__(server_config(create_app(service), service.limits, **options))
        self._service, self._demo = service, demo
        self._replay: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._demo is not None and self.started:
            self._replay = asyncio.create_task(replay(self._service, *self._demo))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._replay is not None:
            self._replay.cancel()
        await self._service.drain()
        await super().shutdown(sockets)


def run(server: Server, listener: socket.socket) -> None:
    """Serve until stopped; then finish what is pending, save, close, and exit with 0."""
    _raise_file_limit(server.config.http.max_connections)  # type: ignore[union-attr]
    # The manager's thread must not hold the interpreter for the usual 5 ms each time the event loop needs it.
    sys.setswitchinterval(5e-4)
    # The server raises the signal that stopped it again, and supervisors would take exit code 143 as a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def _raise_file_limit(connections: int) -> None:
    """Raise the limit of open files, as far as the system permits, so that every permitted connection fits."""
    with suppress(ImportError):  # not on Windows
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = connections + 512
        if soft != resource.RLIM_INFINITY and soft < wanted:
            wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
