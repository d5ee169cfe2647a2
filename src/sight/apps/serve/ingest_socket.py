"""The WebSocket ``/v1/ingest``: takes chunks of any number of wearers and acknowledges them."""

import asyncio
from collections import deque
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from starlette.websockets import WebSocket

from sight.apps.serve.chunk_batch import Outcome
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.errors import Refused, WrongSequence, describe
from sight.apps.serve.message_format import ack_json, chunk_from_json, dumps, parse, unpack
from sight.apps.serve.metrics_and_logs import log_failure
from sight.apps.serve.schemas import AuthMessage, SamplesMessage
from sight.apps.serve.service import Service
from sight.apps.serve.sockets import CloseSocket, Connection

#: Most chunks of one socket in the queue, and most samples in them; beyond it the socket is not read.
MAX_PENDING, MAX_PENDING_SAMPLES = 2_000, 40_000
#: Most bytes of acknowledgements that wait for the client; beyond it the socket is not read, and closed after a while.
MAX_UNSENT, UNSENT_S = 4 << 20, 10.0
#: Most bytes of acknowledgements that are joined in one message.
MAX_JOINED = 256 << 10
UNREAD = "The acknowledgements are not read; connect again, and read them while sending."

_MESSAGE = TypeAdapter(Annotated[AuthMessage | SamplesMessage, Field(discriminator="type")])


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
        self._pending = self._pending_samples = self._unsent = 0
        self._progress = asyncio.Event()  # set when a chunk is finished or a message is sent

    async def _on_text(self, message: str) -> None:
        samples = parse(_MESSAGE, message, self.service.limits)
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
        await self._until_read()
        while self._pending >= MAX_PENDING or self._pending_samples >= MAX_PENDING_SAMPLES:
            await self._await_progress()
        while delay_s := self.service.connection_rate.delay_s(str(id(self))):
            await asyncio.sleep(delay_s)
        try:
            self.service.admit_chunk(self._check_token(), chunk.wearer)
            self.service.queue.put(chunk, lambda outcome, latency_ms: self._deliver(chunk, outcome, latency_ms))
        except Refused as refused:
            if refused.status == 503:
                raise
            self._send_error(chunk.wearer, chunk.seq, refused)
        else:
            self._pending += 1
            self._pending_samples += len(chunk.values)

    async def _until_read(self) -> None:
        if self._unsent <= MAX_UNSENT:
            return
        try:
            async with asyncio.timeout(UNSENT_S):
                while self._unsent > MAX_UNSENT:
                    await self._await_progress()
        except TimeoutError:
            raise CloseSocket(1013, UNREAD) from None

    async def _await_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _deliver(self, chunk: Chunk, outcome: Outcome, latency_ms: float) -> None:
        self._pending -= 1
        self._pending_samples -= len(chunk.values)
        self._progress.set()
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
        text = dumps(content)
        self._outbox.append(text)
        self._unsent += len(text)
        self._outgoing.set()

    async def _send_pending(self) -> None:
        while self._outbox:
            texts = self._first_texts()
            joined = f'{{"type":"acks","acks":[{",".join(texts)}]}}'
            await self.socket.send_text(joined if self._joined else texts[0])
            for text in texts:  # after sending, so that `_finish` waits for it
                self._outbox.popleft()
                self._unsent -= len(text)
            self._progress.set()

    def _first_texts(self) -> list[str]:
        texts, size = [], 0
        for text in self._outbox:
            texts.append(text)
            size += len(text)
            if not self._joined or size >= MAX_JOINED:
                break
        return texts

    async def _finish(self) -> None:
        while self._pending or self._outbox:
            await asyncio.sleep(0.01)
