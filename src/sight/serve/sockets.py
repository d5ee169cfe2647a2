"""The two WebSockets: ``/v1/ingest`` takes chunks and acknowledges them, ``/v1/watch`` sends one wearer's predictions.

Close codes: 1003 binary message where only text is accepted, 1007 unreadable message, 1008 token missing, wrong or
removed, 1009 message too large, 1011 internal error, 1012 the service stops, 1013 the service is overloaded.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from pydantic import Field, TypeAdapter
from starlette.websockets import WebSocket, WebSocketDisconnect

from sight.serve.chunk_batch import Outcome
from sight.serve.chunks import Chunk
from sight.serve.errors import DENIED, INTERNAL, Refused, ServiceError, WrongSequence, describe
from sight.serve.message_format import ack_json, chunk_from_json, dumps, parse, unpack
from sight.serve.metrics_and_logs import log, log_failure, token_id
from sight.serve.schemas import AuthMessage, SamplesMessage, WatchMessage
from sight.serve.service import Service
from sight.serve.tokens import Token

#: Seconds a client has to send its token, and to receive its last messages when the service stops.
AUTH_S, FINISH_S = 10.0, 5.0
#: Most chunks of one socket in the queue; beyond it the socket is not read.
MAX_PENDING = 2_000

_AUTH = TypeAdapter(AuthMessage)
_INGEST = TypeAdapter(Annotated[AuthMessage | SamplesMessage, Field(discriminator="type")])
_WATCH = TypeAdapter(Annotated[AuthMessage | WatchMessage, Field(discriminator="type")])


class CloseSocket(Exception):  # noqa: N818 - ends a connection, not necessarily with an error
    """Closes a socket with a code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class Connection(ABC):
    """An open WebSocket with one task that reads and one that writes.

    Parameters
    ----------
    service
        The service behind the socket.
    socket
        A socket that is not accepted yet.
    """

    path: ClassVar[str]

    def __init__(self, service: Service, socket: WebSocket) -> None:
        self.service, self.socket = service, socket
        self.token: Token | None = None
        self._outgoing = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve the socket until one side closes it."""
        await self.socket.accept()
        code, reason = 1000, ""
        with self.service.track(self, self.path) as accepted:
            writer = asyncio.create_task(self._write())
            self._reader = asyncio.create_task(self._read() if accepted else _reject())
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
                with suppress(RuntimeError, WebSocketDisconnect):  # it may be closed already
                    await self.socket.close(code, reason.encode()[:120].decode("utf-8", "ignore"))

    def stop(self) -> None:
        """Stop reading; send what is pending, then close."""
        if self._reader is not None:
            self._reader.cancel()

    def _close_reason(self, done: set[asyncio.Task[None]]) -> tuple[int, str]:
        """Return code and reason to close with; an internal error takes precedence over a normal end."""
        if any(task.cancelled() for task in done):
            return 1012, "The service stops; connect again in a moment."
        errors = [error for task in done if (error := task.exception()) is not None]
        for error in errors:
            if isinstance(error, Refused):
                return 1013 if error.status == 503 else 1007, str(error)
            if not isinstance(error, CloseSocket | WebSocketDisconnect):
                log.error("socket failed", exc_info=error, extra={"path": self.path})
                return 1011, INTERNAL
        return next(((error.code, error.reason) for error in errors if isinstance(error, CloseSocket)), (1000, ""))

    async def _read(self) -> None:
        await self._authenticate()
        while True:
            message = await self.socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            self._check_token()
            try:
                text = message.get("text")
                await (self._on_binary(message["bytes"]) if text is None else self._on_text(text))
            except Refused as refused:
                self.service.metrics.refused.labels(refused.reason).inc()
                raise CloseSocket(1013 if refused.status == 503 else 1007, str(refused)) from None

    async def _authenticate(self) -> None:
        """Take the token from the header, or from the first message if the service requires tokens."""
        self.token = self.service.token_of(self.socket.headers.get("authorization"))
        if self.token is None:
            text = None
            with suppress(TimeoutError, Refused):
                message = await asyncio.wait_for(self.socket.receive(), AUTH_S)
                text = parse(_AUTH, message.get("text") or "").token
            self.token = self.service.token_of(f"Bearer {text}") if text else None
        if self.token is None:
            self.service.metrics.refused.labels("token").inc()
            client = self.socket.client.host if self.socket.client else None
            raise CloseSocket(1008, str(self.service.deny(None, self.path, client)))
        token_id.set(self.token.id)

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


class IngestConnection(Connection):
    """Takes chunks and sends acknowledgements in the order of completion.

    With ``?acks=joined`` the acknowledgements that are ready together are sent as one message, which is cheaper for
    both sides.
    """

    path = "/v1/ingest"

    def __init__(self, service: Service, socket: WebSocket) -> None:
        super().__init__(service, socket)
        self._outbox: deque[str] = deque()
        self._joined = socket.query_params.get("acks") == "joined"
        self._pending = 0
        self._delivered = asyncio.Event()

    async def _on_text(self, message: str) -> None:
        samples = parse(_INGEST, message)
        if isinstance(samples, SamplesMessage):
            try:
                chunk = chunk_from_json(samples.wearer, samples, self.service.limits)
            except Refused as refused:
                self._send_error(samples.wearer, samples.seq, refused)
            else:
                await self._enqueue(chunk)

    async def _on_binary(self, message: bytes) -> None:
        for chunk in unpack(message, self.service.limits):  # all are read before the first is queued
            await self._enqueue(chunk)

    async def _enqueue(self, chunk: Chunk) -> None:
        while self._pending >= MAX_PENDING:
            self._delivered.clear()
            await self._delivered.wait()
        if delay_s := self.service.connection_rate.delay_s(str(id(self))):
            await asyncio.sleep(delay_s)
        try:
            self.service.admit(self._check_token(), chunk)
            self.service.queue.put(chunk, lambda outcome, latency_ms: self._deliver(chunk, outcome, latency_ms))
        except Refused as refused:
            if refused.status == 503:
                raise
            self._send_error(chunk.wearer, chunk.seq, refused)
        else:
            self._pending += 1

    def _deliver(self, chunk: Chunk, outcome: Outcome, latency_ms: float) -> None:
        self._pending -= 1
        self._delivered.set()
        if isinstance(outcome, Exception):
            self._send_error(chunk.wearer, chunk.seq, outcome)
        else:
            self._send({"type": "ack", "wearer": outcome.wearer, **ack_json(outcome, latency_ms)})

    def _send_error(self, wearer: str, seq: int | None, error: Exception) -> None:
        reason, text, status = describe(error)
        self.service.metrics.refused.labels(reason).inc()
        log_failure(error, "chunk failed" if status == 500 else "store failed", {"wearer": wearer, "seq": seq})
        content = {"type": "error", "wearer": wearer, "seq": seq, "error": text}
        self._send(content | ({"expected": error.expected} if isinstance(error, WrongSequence) else {}))

    def _send(self, content: dict[str, Any]) -> None:
        self._outbox.append(dumps(content))
        self._outgoing.set()

    async def _send_pending(self) -> None:
        while self._outbox:
            texts = list(self._outbox) if self._joined else [self._outbox[0]]
            joined = f'{{"type":"acks","acks":[{",".join(texts)}]}}'
            await self.socket.send_text(joined if self._joined else texts[0])
            for _ in texts:  # after sending, so that `_finish` waits for it
                self._outbox.popleft()

    async def _finish(self) -> None:
        while self._pending or self._outbox:
            await asyncio.sleep(0.01)


class WatchConnection(Connection):
    """Sends the live predictions of one wearer at a time.

    A client that is new or too slow first gets the latest events (`hello`), so that no other client waits for it.
    """

    path = "/v1/watch"
    capacity = 256  # most messages waiting; beyond it all are dropped

    def __init__(self, service: Service, socket: WebSocket) -> None:
        super().__init__(service, socket)
        self._wearer: str | None = None
        self._outbox: deque[tuple[str, int | None]] = deque()
        self._lagging = False

    def push(self, text: str, window: int | None) -> None:
        """Add a message and the number of the window it belongs to; if there are too many, drop all."""
        self._outbox.append((text, window))
        if len(self._outbox) > self.capacity:
            self._outbox.clear()
            self.service.metrics.lagging.inc(not self._lagging)
            self._lagging = True
        self._outgoing.set()

    async def _on_text(self, message: str) -> None:
        request = parse(_WATCH, message)
        if not isinstance(request, WatchMessage):
            return
        self._unsubscribe()
        if not self._check_token().permits("read", request.wearer):
            await self._send_error(request.wearer, str(self.service.deny(self.token, f"watch {request.wearer}")))
            return
        self._wearer, self._lagging = request.wearer, True
        self._outbox.clear()
        self.service.subscriptions.add(request.wearer, self)
        self._outgoing.set()

    async def _send_pending(self) -> None:
        while self._wearer is not None and (self._lagging or self._outbox):
            self._check_token()
            if self._lagging:
                await self._send_hello(self._wearer)
            else:
                await self.socket.send_text(self._outbox.popleft()[0])

    async def _send_hello(self, wearer: str) -> None:
        self._lagging = False
        self._outbox.clear()
        try:
            hello = await self.service.hello(wearer)
        except ServiceError as error:
            if wearer == self._wearer:
                self._unsubscribe()
                await self._send_error(wearer, describe(error)[1])
            return
        if wearer == self._wearer:
            last = hello["history"][-1]["window"] if hello["history"] else -1
            new = [(text, window) for text, window in self._outbox if window is None or window > last]
            self._outbox = deque(new)
            await self.socket.send_text(dumps(hello))

    async def _send_error(self, wearer: str, text: str) -> None:
        await self.socket.send_text(dumps({"type": "error", "wearer": wearer, "seq": None, "error": text}))

    def _unsubscribe(self) -> None:
        if self._wearer is not None:
            self.service.subscriptions.remove(self._wearer, self)
            self._wearer = None


async def _reject() -> None:
    raise CloseSocket(1013, "The service has too many connections or is stopping; connect again in a moment.")
