"""The WebSocket ``/v1/watch``: sends the predictions of one wearer as they are made."""

import asyncio
from collections import deque
from typing import Annotated

from pydantic import Field, TypeAdapter
from starlette.websockets import WebSocket

from sight.apps.serve.errors import ServiceError, describe
from sight.apps.serve.message_format import dumps, parse
from sight.apps.serve.schemas import AuthMessage, WatchMessage
from sight.apps.serve.service import Service
from sight.apps.serve.sockets import Connection

_MESSAGE = TypeAdapter(Annotated[AuthMessage | WatchMessage, Field(discriminator="type")])


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
        request = parse(_MESSAGE, message)
        if not isinstance(request, WatchMessage):
            return
        self._unsubscribe()
        token = self._check_token()
        while delay_s := self.service.request_rate.delay_s(token.id):
            await asyncio.sleep(delay_s)
        if not token.permits("read", request.wearer):
            denial = self.service.deny(token, f"watch {request.wearer}", token.denial("read"))
            await self._send_error(request.wearer, str(denial))
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
            text, last = await self.service.hello(wearer)
        except ServiceError as error:
            if wearer == self._wearer:
                self._unsubscribe()
                await self._send_error(wearer, describe(error)[1])
            return
        if wearer == self._wearer:
            self._outbox = deque(entry for entry in self._outbox if entry[1] is None or entry[1] > last)
            await self.socket.send_text(text)

    async def _send_error(self, wearer: str, text: str) -> None:
        await self.socket.send_text(dumps({"type": "error", "wearer": wearer, "seq": None, "error": text}))

    def _unsubscribe(self) -> None:
        if self._wearer is not None:
            self.service.subscriptions.remove(self._wearer, self)
            self._wearer = None
