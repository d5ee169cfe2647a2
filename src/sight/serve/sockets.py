"""The two sockets: ``/v1/ingest`` takes chunks and acknowledges them, ``/v1/watch`` shows one wearer at a time.

Close codes: 1003 a kind of message that is not taken here, 1007 a message that cannot be read, 1008 a token that is
missing, wrong or removed, 1009 a message that is too large, 1011 something failed in the service, 1012 the service
stops, 1013 too much at once.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from pydantic import Field, TypeAdapter
from starlette.websockets import WebSocket, WebSocketDisconnect

from sight.serve.chunk_format import Arrival, arrival_of, dumps, parse, unpack
from sight.serve.errors import KeeperError, StoreFailed, WrongSequence
from sight.serve.ingest_queue import Outcome, Work
from sight.serve.limits import Refused
from sight.serve.monitoring import log
from sight.serve.problems import DENIED, problem
from sight.serve.schemas import AuthMessage, SamplesMessage, WatchMessage
from sight.serve.service import Service
from sight.serve.subscriptions import Watcher
from sight.serve.tokens import Token
from sight.stream.event_json import as_json

#: Seconds a client has to show its token, and to take its last answers when the service stops.
AUTH_S, FAREWELL_S = 10.0, 5.0
#: Chunks of one socket that may be under way; it is read on when some are answered.
UNDER_WAY = 2_000

_AUTH = TypeAdapter(AuthMessage)
_INGEST = TypeAdapter(Annotated[AuthMessage | SamplesMessage, Field(discriminator="type")])
_WATCH = TypeAdapter(Annotated[AuthMessage | WatchMessage, Field(discriminator="type")])


class CloseError(Exception):
    """Ends a socket with a code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class Connection(ABC):
    """One open socket: a task reads, a task writes, and the service can end it in good order.

    Parameters
    ----------
    service
        Everything behind the socket.
    socket
        Not yet accepted.
    """

    path: ClassVar[str]

    def __init__(self, service: Service, socket: WebSocket) -> None:
        self.service, self.socket = service, socket
        self.token: Token | None = None
        self._reader: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve the socket until either side has enough."""
        await self.socket.accept()
        code, reason = 1000, ""
        with self.service.opened(self, self.path) as welcome:
            writer = asyncio.create_task(self._write())
            self._reader = asyncio.create_task(self._read() if welcome else _full())
            try:
                ended, _ = await asyncio.wait({self._reader, writer}, return_when=asyncio.FIRST_COMPLETED)
                code, reason = self._end(ended)
                if code == 1012:
                    await asyncio.wait_for(self._finish(), FAREWELL_S)
            except TimeoutError:
                pass
            finally:
                self._reader.cancel()
                writer.cancel()
                await asyncio.wait({self._reader, writer})
                self._leave()
                await _closed(self.socket, code, reason)

    def stop(self) -> None:
        """Read no further; answer what is under way, then close."""
        if self._reader is not None:
            self._reader.cancel()

    def _end(self, ended: set[asyncio.Task[None]]) -> tuple[int, str]:
        """Code and reason to close with, from how reading or writing ended; a failure tells more than a goodbye."""
        if any(task.cancelled() for task in ended):
            return 1012, "The service stops; come back in a moment."
        errors = [error for task in ended if (error := task.exception()) is not None]
        for error in errors:
            if not isinstance(error, CloseError | WebSocketDisconnect):
                log.error("socket failed", exc_info=error, extra={"path": self.path})
                return 1011, "Something went wrong in the service; its log tells what."
        closing = [(error.code, error.reason) for error in errors if isinstance(error, CloseError)]
        return closing[0] if closing else (1000, "")

    async def _read(self) -> None:
        await self._authenticate()
        while True:
            message = await self.socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            self._check_token()
            try:
                text = message.get("text")
                await (self._binary(message["bytes"]) if text is None else self._text(text))
            except Refused as refused:
                self.service.metrics.refused.labels(refused.reason).inc()
                raise CloseError(1013 if refused.status == 503 else 1007, str(refused)) from None

    async def _authenticate(self) -> None:
        """Find out who is there: by the header, or by the first message where tokens are on."""
        self.token = self.service.token_of(self.socket.headers.get("authorization"))
        if self.token is not None:
            return
        try:
            message = await asyncio.wait_for(self.socket.receive(), AUTH_S)
            self.token = self.service.token_of(f"Bearer {parse(_AUTH, message.get('text') or '').token}")
        except (TimeoutError, Refused):
            pass
        if self.token is None:
            self.service.metrics.refused.labels("token").inc()
            raise CloseError(1008, DENIED)

    def _check_token(self) -> None:
        """End the socket of a token that was removed."""
        if self.token is None or not self.service.valid(self.token):
            raise CloseError(1008, DENIED)

    async def _binary(self, message: bytes) -> None:  # noqa: ARG002 - a subclass may take it
        raise CloseError(1003, "Expected text messages here, got a binary one.")

    @abstractmethod
    async def _text(self, message: str) -> None:
        """Take a text message."""

    @abstractmethod
    async def _write(self) -> None:
        """Send what there is to send, for ever."""

    async def _finish(self) -> None:  # noqa: B027 - optional hook
        """Send what is still under way."""

    def _leave(self) -> None:  # noqa: B027 - optional hook
        """Take leave of everybody."""


class Ingest(Connection):
    """Chunks in, acknowledgements out, in the order of their completion.

    With ``?acks=joined`` those that are ready together come as one message, which costs both sides less.
    """

    path = "/v1/ingest"

    def __init__(self, service: Service, socket: WebSocket) -> None:
        super().__init__(service, socket)
        self._outbox: deque[str] = deque()
        self._joined = socket.query_params.get("acks") == "joined"
        self._some, self._room, self._empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._under_way = 0
        self._empty.set()

    async def _text(self, message: str) -> None:
        sent = parse(_INGEST, message)
        if isinstance(sent, SamplesMessage):
            try:
                await self._take(arrival_of(sent.wearer, sent, self.service.limits))
            except Refused as refused:
                if refused.status == 503:
                    raise
                self._refuse(sent.wearer, sent.seq, refused)

    async def _binary(self, message: bytes) -> None:
        for arrival in unpack(message, self.service.limits):  # read whole before anything is taken
            await self._take(arrival)

    async def _take(self, arrival: Arrival) -> None:
        assert self.token is not None  # nothing is read before
        while self._under_way >= UNDER_WAY:
            self._room.clear()
            await self._room.wait()
        if delay_s := self.service.connection_pace.wait(str(id(self))):
            await asyncio.sleep(delay_s)
        try:
            self.service.admit(self.token, arrival)
            self.service.batcher.put(arrival, self._deliver)
        except Refused as refused:
            if refused.status == 503:
                raise
            self._refuse(arrival.wearer, arrival.seq, refused)
            return
        self._under_way += 1
        self._empty.clear()

    def _deliver(self, work: Work, outcome: Outcome) -> None:
        self._under_way -= 1
        self._room.set()
        arrival = work.arrival
        if isinstance(outcome, Exception):
            self._refuse(arrival.wearer, arrival.seq, outcome)
            return
        latency_ms = round(work.latency_ms, 2)
        events = [as_json(event, work.facts["classes"], latency_ms) for event in outcome.events]
        kind = {"type": "ack", "wearer": outcome.wearer, "seq": outcome.seq, "duplicate": outcome.duplicate}
        self._say(dumps(kind | {"events": events}))

    def _refuse(self, wearer: str, seq: int | None, error: Exception) -> None:
        reason, text, status = problem(error)
        self.service.metrics.refused.labels(reason).inc()
        if status == 500:
            log.error("chunk failed", exc_info=error, extra={"wearer": wearer, "seq": seq})
        elif isinstance(error, StoreFailed):
            log.error("store failed", exc_info=error.__cause__ or error, extra={"wearer": wearer, "seq": seq})
        answer: dict[str, Any] = {"type": "error", "wearer": wearer, "seq": seq, "error": text}
        if isinstance(error, WrongSequence):
            answer["expected"] = error.expected
        self._say(dumps(answer))

    def _say(self, text: str) -> None:
        self._outbox.append(text)
        self._empty.clear()
        self._some.set()

    async def _write(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            while self._outbox:
                await self.socket.send_text(self._next())
            if not self._under_way:
                self._empty.set()

    def _next(self) -> str:
        """Take one answer out of the box, or all of them as one message."""
        if not self._joined:
            return self._outbox.popleft()
        text = f'{{"type":"acks","acks":[{",".join(self._outbox)}]}}'
        self._outbox.clear()
        return text

    async def _finish(self) -> None:
        await self._empty.wait()


class Watch(Connection):
    """One wearer at a time, live."""

    path = "/v1/watch"

    def __init__(self, service: Service, socket: WebSocket) -> None:
        super().__init__(service, socket)
        self._some = asyncio.Event()
        self._watching: tuple[str, Watcher] | None = None

    async def _text(self, message: str) -> None:
        asked = parse(_WATCH, message)
        if not isinstance(asked, WatchMessage):
            return
        self._leave()
        if self.token is None or not self.token.permits("read", asked.wearer):
            await self._error(asked.wearer, DENIED)
            return
        self._watching = asked.wearer, Watcher(self._some)
        self.service.hub.join(*self._watching)
        self._some.set()

    async def _write(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            if self._watching is not None:
                self._check_token()
                await self._send(*self._watching)

    async def _send(self, wearer: str, watcher: Watcher) -> None:
        """Send what waits; whoever has just come, or could not keep up, is greeted with the latest answers first."""
        if watcher.lagging:
            self.service.metrics.lagging.inc(watcher.greeted)
            watcher.lagging, watcher.greeted = False, True
            watcher.outbox.clear()
            try:
                hello = await self.service.hello(wearer)
            except KeeperError as error:
                self._leave()
                await self._error(wearer, problem(error).text)
                return
            await self.socket.send_text(dumps(hello))
            known = hello["history"][-1]["window"] if hello["history"] else -1
            fresh = [pair for pair in watcher.outbox if pair[1] is None or pair[1] > known]
            watcher.outbox.clear()
            watcher.outbox.extend(fresh)
        while watcher.outbox and self._watching == (wearer, watcher):
            await self.socket.send_text(watcher.outbox.popleft()[0])

    async def _error(self, wearer: str, text: str) -> None:
        await self.socket.send_text(dumps({"type": "error", "wearer": wearer, "seq": None, "error": text}))

    def _leave(self) -> None:
        if self._watching is not None:
            self.service.hub.leave(*self._watching)
            self._watching = None


async def _full() -> None:
    raise CloseError(1013, "The service is full or stopping; come back in a moment.")


async def _closed(socket: WebSocket, code: int, reason: str) -> None:
    """Close a socket that may be gone already; a reason has room for 123 bytes."""
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close(code, reason.encode()[:120].decode("utf-8", "ignore"))
