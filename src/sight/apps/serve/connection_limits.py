"""Deadlines and limits of connections that hold before a request reaches the application.

The only module that extends classes of uvicorn; the names it overrides are not documented and may change with a
version. uvicorn 0.54 has no setting for any of this: `timeout_keep_alive` starts after a response only and does not
bound the time for headers, `limit_concurrency` refuses new connections instead of closing the one that waits longest,
and nothing bounds the time in which a client reads, or what it sends before it has shown a token.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

#: Seconds for the headers of a request, for a client to read what waits for it, and for it to read the last message.
HEADER_S, STALLED_S, CLOSE_S = 10.0, 30.0, 2.0
#: Most bytes of a first message that may carry a token.
AUTH_BYTES = 4096


class StallDeadline:
    """Disconnects a client that does not read for `STALLED_S` while more waits for it than the transport buffers."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _stalled: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self._stalled = self._stalled or self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._clear_stalled()
        super().resume_writing()  # type: ignore[misc]

    def connection_lost(self, exc: Exception | None) -> None:
        """Clear the deadline, which would keep the closed connection in memory."""
        self._clear_stalled()
        super().connection_lost(exc)  # type: ignore[misc]

    def _clear_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


class HttpProtocol(StallDeadline, H11Protocol):
    """HTTP connection with a deadline for headers, one of at most `max_connections`.

    If there are too many, a WebSocket that is being closed is disconnected, or else the connection that has waited
    longest for its request, headers and body. Clients that send their request at once are served even while others keep
    connections open without a complete one, or open more WebSockets than are permitted.
    """

    max_connections: int
    closing: dict[SocketProtocol, None]  # WebSockets that the application has closed, oldest first
    waiting: dict[HttpProtocol, None]  # connections without a complete request, oldest first

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()
        if len(self.connections) > self.max_connections:
            candidates: dict[Any, None] = self.closing or self.waiting
            oldest = next(iter(candidates))
            del candidates[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._got_request()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Clear the deadline when the headers of a request are complete, which begins a new cycle."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._got_headers()
        if self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete:
            self._got_request()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Clear the deadline: a WebSocket begins without a cycle."""
        self._got_request()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Start the deadline for the next headers; the rest of an unread body does not extend it."""
        self._await_headers()
        super().on_response_complete()

    def _await_headers(self) -> None:
        self._got_request()
        self.waiting[self] = None
        self._deadline = self.loop.call_later(HEADER_S, self.transport.abort)

    def _got_request(self) -> None:
        self.waiting.pop(self, None)
        self._got_headers()

    def _got_headers(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class SocketProtocol(StallDeadline, WebSocketsSansIOProtocol):
    """WebSocket whose first message is short unless the application has set ``state.authenticated``.

    It ends a bounded time after the application has closed it, even if the client reads nothing.
    """

    closing: dict[SocketProtocol, None]
    _early = 0
    _has_message = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Disconnect a client whose first message is long and incomplete."""
        is_open = self.handshake_complete
        super().data_received(data)
        if is_open and not self._has_message and not self.scope["state"].get("authenticated"):
            self._early += len(data)
            if self._early > AUTH_BYTES:
                self.transport.abort()

    def send_receive_event_to_app(self) -> None:
        self._has_message = True
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        """Reply to a ping, unless the client does not read: replies would fill the memory."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # drops the reply

    async def run_asgi(self) -> None:
        """Run the application, then end the connection; uvicorn would wait until the client has read everything."""
        await super().run_asgi()
        if not self.transport.is_closing():
            self.closing[self] = None
        self.loop.call_later(CLOSE_S if self.writable.is_set() else 0, self.transport.abort)
