"""WebSockets: the connection that `/v1/ingest` and `/v1/watch` share, with authentication and an orderly end.

Close codes: 1003 binary message where only text is accepted, 1007 unreadable message, 1008 token missing, wrong or
removed, 1009 message too large, 1011 internal error, 1012 the service stops, 1013 the service is overloaded, or the
client does not read.
"""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import ClassVar

from pydantic import TypeAdapter
from starlette.websockets import WebSocket, WebSocketDisconnect

from sight.apps.serve.connection_limits import AUTH_BYTES, CLOSE_S
from sight.apps.serve.errors import DENIED, INTERNAL, Refused
from sight.apps.serve.message_format import parse
from sight.apps.serve.metrics_and_logs import log, token_id
from sight.apps.serve.schemas import AuthMessage
from sight.apps.serve.service import Service
from sight.apps.serve.tokens import Token

#: Seconds a client has to send its token, and to receive its last messages when the service stops.
AUTH_S, FINISH_S = 10.0, 5.0
CROWDED = "The service has too many connections or is stopping; connect again in a moment."

_AUTH = TypeAdapter(AuthMessage)


class CloseSocket(Exception):  # noqa: N818 - ends a connection, not necessarily with an error
    """Closes a socket with a code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class Connection(ABC):
    """A WebSocket, not accepted yet, with one task that reads and one that writes."""

    path: ClassVar[str]

    def __init__(self, service: Service, socket: WebSocket) -> None:
        self.service, self.socket = service, socket
        self.token: Token | None = None
        self._outgoing = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._end = 1012, "The service stops; connect again in a moment."

    async def run(self) -> None:
        code, reason = 1000, ""
        try:
            self._set_token(self.service.token_of(self.socket.headers.get("authorization")))
        except Refused as refused:  # the tokens cannot be read
            await self.socket.accept()
            await self.socket.close(*self._count_refusal(refused))
            return
        await self.socket.accept()
        with self.service.track(self, self.path):
            writer = asyncio.create_task(self._write())
            self._reader = asyncio.create_task(self._read())
            try:
                done, _ = await asyncio.wait({self._reader, writer}, return_when=asyncio.FIRST_COMPLETED)
                code, reason = self._close_reason(done)
                if code == 1012:
                    await asyncio.wait_for(self._finish(), FINISH_S)
            except TimeoutError:
                pass
            finally:
                self._reader.cancel()
                writer.cancel()
                await asyncio.wait({self._reader, writer})
                self._unsubscribe()
                with suppress(RuntimeError, WebSocketDisconnect, TimeoutError):  # closed already, or it does not read
                    reason = reason.encode()[:120].decode("utf-8", "ignore")
                    await asyncio.wait_for(self.socket.close(code, reason), CLOSE_S)

    def stop(self) -> None:
        """Stop reading; send what is pending, then close."""
        if self._reader is not None:
            self._reader.cancel()

    def reject(self) -> None:
        """Close a socket whose token is no longer valid."""
        self._end = 1008, DENIED
        self.stop()

    def turn_away(self) -> None:
        """Close a socket that has not shown a token, so that another can be accepted."""
        self._end = 1013, CROWDED
        self.stop()

    def _close_reason(self, done: set[asyncio.Task[None]]) -> tuple[int, str]:
        if any(task.cancelled() for task in done):
            return self._end
        errors = [error for task in done if (error := task.exception()) is not None]
        for error in errors:
            if not isinstance(error, CloseSocket | Refused | WebSocketDisconnect):
                log.error("socket failed", exc_info=error, extra={"path": self.path})
                return 1011, INTERNAL
        for error in errors:
            if isinstance(error, Refused):
                return self._count_refusal(error)
        return next(((error.code, error.reason) for error in errors if isinstance(error, CloseSocket)), (1000, ""))

    def _count_refusal(self, refused: Refused) -> tuple[int, str]:
        self.service.metrics.refused.labels(refused.reason).inc()
        return 1013 if refused.status == 503 else 1007, str(refused)

    async def _read(self) -> None:
        await self._authenticate()
        if not self.service.enter(self):
            raise CloseSocket(1013, CROWDED)
        while True:
            await self._until_read()
            message = await self.socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            self._check_token()
            text = message.get("text")
            await (self._on_binary(message["bytes"]) if text is None else self._on_text(text))

    async def _authenticate(self) -> None:
        """Take the token from the first message if the service requires one and the header has none."""
        if self.token is None:
            secret = ""
            with suppress(TimeoutError, Refused):
                message = await asyncio.wait_for(self.socket.receive(), AUTH_S)
                text = message.get("text") or ""
                secret = parse(_AUTH, text).token if len(text) <= AUTH_BYTES else ""
            self._set_token(self.service.token_of(f"Bearer {secret}"))
        if self.token is None:
            self.service.metrics.refused.labels("token").inc()
            client = self.socket.client.host if self.socket.client else None
            raise CloseSocket(1008, str(self.service.deny(None, self.path, DENIED, client)))

    def _set_token(self, token: Token | None) -> None:
        self.token = token
        token_id.set(None if token is None else token.id)
        self.socket.state.authenticated = token is not None  # for `SocketProtocol`

    def _check_token(self) -> Token:
        """Return the token; close the socket if it was removed."""
        if self.token is None or not self.service.is_valid(self.token):
            raise CloseSocket(1008, DENIED)
        return self.token

    async def _write(self) -> None:
        while True:
            await self._outgoing.wait()
            self._outgoing.clear()
            await self._send_pending()

    async def _until_read(self) -> None:  # noqa: B027 - optional hook
        """Wait until the client has read enough for another message to be taken."""

    async def _on_binary(self, message: bytes) -> None:  # noqa: ARG002 - a subclass may accept it
        raise CloseSocket(1003, "Expected text messages, got a binary one.")

    @abstractmethod
    async def _on_text(self, message: str) -> None:
        """Process a text message."""

    @abstractmethod
    async def _send_pending(self) -> None:
        """Send all pending messages."""

    async def _finish(self) -> None:  # noqa: B027 - optional hook
        """Wait until everything pending is sent."""

    def _unsubscribe(self) -> None:  # noqa: B027 - optional hook
        """Remove the connection from where it is registered."""
