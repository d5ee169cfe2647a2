"""A running service: session manager, queue, tokens, subscriptions and open sockets, without the web framework."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sight.apps.serve.errors import METHOD_DENIED, Refused, ServiceError, StoreFailed
from sight.apps.serve.event_reader import EventReader
from sight.apps.serve.ingest_queue import IngestQueue
from sight.apps.serve.limits import RateLimiter
from sight.apps.serve.message_format import dumps
from sight.apps.serve.metrics_and_logs import Metrics, log, log_failure
from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.subscriptions import HISTORY, Subscriptions
from sight.apps.serve.tokens import LOCAL, Token, TokenFile
from sight.apps.serve.wearer_creation import WearerOptions
from sight.apps.stream.event_json import as_json
from sight.types import Event

if TYPE_CHECKING:
    from sight.apps.serve.sockets import Connection

#: Seconds between two checks of the store, and for which the result of one is used by ``/readyz``.
CHECK_S, CHECK_VALID_S = 10.0, 1.0
#: Seconds between two checks of the tokens of open sockets.
TOKENS_S = 1.0
#: Seconds that open sockets get to send their last messages when the service stops.
DRAIN_S = 10.0


class Service:
    """A service that processes chunks, checks tokens and publishes predictions; the only user of its session manager.

    While there are no tokens and `require_token` is False, every request is permitted.
    """

    def __init__(self, manager: SessionManager, tokens: TokenFile, *, require_token: bool = False) -> None:
        self.manager, self.tokens, self.limits = manager, tokens, manager.limits
        self.metrics = Metrics()
        self.subscriptions = Subscriptions(self._send_adaptation)
        self.queue = IngestQueue(manager, self.metrics, self.limits.queue, self.subscriptions.publish)
        self.reader = EventReader(manager, self.queue)
        # True activities of the wearers of the demo: length of a round in seconds, and starts with classes.
        self.ground_truth: dict[str, dict[str, Any]] = {}
        self.wearer_rate = RateLimiter(self.limits.chunks_per_s)
        self.connection_rate = RateLimiter(self.limits.connection_chunks_per_s, burst_s=1.0)
        self.request_rate = RateLimiter(self.limits.requests_per_s)
        self.ready = False
        self._require_token = require_token
        self._sockets: set[Connection] = set()
        self._strangers: dict[Connection, None] = {}  # sockets that have not shown a token, oldest first
        self._tasks: set[asyncio.Task[None]] = set()
        self._store_checked, self._store_error = -math.inf, ""

    async def start(self) -> None:
        """Start on the running event loop; ready once the kernels are compiled and the list of wearers is read."""
        await self.queue.call(self.manager.warm_up)
        self.ready = True
        self._start_task(self._check_store_regularly())
        self._start_task(self._check_tokens_regularly())
        log.info("ready", extra={"models": [model.id for model in self.manager.models], **self.manager.store.info})

    async def drain(self) -> None:
        if not self.ready:
            return
        self.ready = False
        log.info("draining", extra={"sockets": len(self._sockets)})
        for connection in (*self._sockets, *self._strangers):
            connection.stop()
        end = time.monotonic() + DRAIN_S
        while (self._sockets or self._strangers) and time.monotonic() < end:
            await asyncio.sleep(0.01)
        await self.queue.drain()

    async def close(self) -> None:
        await self.drain()
        for task in tuple(self._tasks):
            task.cancel()
        await self.queue.call(self.manager.close)
        await self.queue.stop()
        self.reader.close()
        log.info("closed")

    async def check_ready(self) -> None:
        """Raise an error with status 503 unless the service accepts chunks and its store can write them."""
        if not self.ready:
            raise Refused("busy", "The service is stopping.", 503)
        if time.monotonic() - self._store_checked > CHECK_VALID_S:
            self._store_checked = time.monotonic()
            self._store_error = await self.queue.call(self._check_store)
        if self._store_error:
            raise Refused("store", self._store_error, 503)

    async def metrics_text(self) -> bytes:
        """Return all metrics for Prometheus, those of the moment included."""
        metrics, manager = self.metrics, self.manager
        with suppress(Refused):
            await self.check_ready()
        metrics.ready.set(self.ready and not self._store_error)
        metrics.resident.set(await self.queue.call(lambda: manager.in_memory))
        metrics.wearers.set(len(manager.names))
        with suppress(StoreFailed):
            for kind, size in (await self.queue.call(manager.store.space)).items():
                metrics.space.labels(kind).set(size)
        return metrics.text()

    def _check_store(self) -> str:
        try:
            self.manager.store.check()
        except StoreFailed as error:
            if not self._store_error:
                log_failure(error, "store unusable", {})
            return "The store cannot write; see the log of the service."
        if self._store_error:
            log.info("store usable")
        return ""

    async def _check_store_regularly(self) -> None:
        while self.ready:
            await asyncio.sleep(CHECK_S)
            with suppress(Refused):
                await self.check_ready()

    async def _check_tokens_regularly(self) -> None:
        """Close sockets whose token was removed; one that sends or receives is closed at its next message already."""
        while self.ready:
            await asyncio.sleep(TOKENS_S)
            with suppress(Refused):  # the tokens cannot be read
                for connection in [each for each in self._sockets if each.token and not self.is_valid(each.token)]:
                    connection.reject()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @contextmanager
    def track(self, connection: Connection, path: str) -> Iterator[None]:
        """Count a socket while it is open; if too many have not shown a token, the oldest of those is closed."""
        if connection.token is None:
            self._strangers[connection] = None
        if len(self._strangers) > self.limits.unauthenticated:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.turn_away()
        gauge = self.metrics.sockets.labels(path)
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()
            self._sockets.discard(connection)
            self._strangers.pop(connection, None)

    def enter(self, connection: Connection) -> bool:
        """Count a socket that has shown a token; return whether it is within the limit."""
        self._strangers.pop(connection, None)
        if not self.ready or len(self._sockets) >= self.limits.connections:
            return False
        self._sockets.add(connection)
        return True

    @property
    def requires_token(self) -> bool:
        """Whether a token is needed; once one was added, this stays True. Also True while tokens cannot be read."""
        if not self._require_token:
            try:
                self._require_token = bool(self.tokens)
            except ValueError:
                return True
        return self._require_token

    def token_of(self, header: str | None) -> Token | None:
        """Return the token of an Authorization header, or None; `LOCAL` if no token is needed.

        Raises `Refused` with status 503 while the tokens cannot be read.
        """
        if not self.requires_token:
            return LOCAL
        scheme, _, text = (header or "").partition(" ")
        with self._readable_tokens():
            return self.tokens.find(text.strip()) if scheme.lower() == "bearer" and text else None

    def is_valid(self, token: Token) -> bool:
        """Return whether a token found earlier is still valid; raise as `token_of` does."""
        with self._readable_tokens():
            return not self.requires_token if token is LOCAL else token in self.tokens

    @contextmanager
    def _readable_tokens(self) -> Iterator[None]:
        """Raise `Refused` without the path of the file while the tokens cannot be read."""
        try:
            yield
        except ValueError:
            log.error("tokens unreadable", exc_info=True)
            raise Refused("tokens", "The service cannot read its tokens; see its log.", 503) from None

    def deny(self, token: Token | None, action: str, text: str, client: str | None = None) -> Refused:
        address = None if client is None else client[:100]  # a proxy may forward what the client claims
        log.warning("refused", extra={"token": token and token.id, "action": action[:200], "client": address})
        return Refused("token", text, 401 if token is None else 403)

    def create(self, token: Token, wearer: str, **options: Any) -> tuple[bool, dict[str, Any]]:
        """Create a wearer if the token permits that, else raise `Refused`; return whether it is new, and its info."""
        names, most = self.manager.names, token.max_wearers
        is_new = wearer not in names
        if is_new and not token.permits("admin", wearer) and not WearerOptions(**options).is_default_method:
            raise self.deny(token, f"create {wearer}", METHOD_DENIED)
        if is_new and most is not None and sum(token.permits(None, name) for name in names) >= most:
            text = f"Expected at most {most} wearers of this token; delete one, or use another token."
            raise Refused("wearers", text, 409)
        return is_new, self.manager.create(wearer, **options)

    def admit_request(self, token: Token) -> None:
        """Raise `Refused` if the requests of a token, which may load wearers into memory, come too fast."""
        _take(self.request_rate, token.id, "requests per second of one token")

    def admit_chunk(self, token: Token, wearer: str) -> None:
        """Raise `Refused` if the token does not permit chunks of a wearer, or they come too fast."""
        if not token.permits("ingest", wearer):
            raise self.deny(token, f"samples {wearer}", token.denial("ingest"))
        if not self.ready:
            raise Refused("busy", "The service is stopping; send the same chunk again later.", 503)
        _take(self.wearer_rate, wearer, "chunks per second of one wearer")

    async def hello(self, wearer: str) -> tuple[str, int]:
        """Return the first message to a subscriber, and the number of its last window, -1 if there is none."""
        info = await self.queue.call(self.manager.info, wearer, adaptation=True)
        events = await self.reader.events(wearer, info["count"] - HISTORY - 1, HISTORY)
        text = await self.reader.call(self._hello_text, info, events)
        return text, events[-1].window if events else -1

    def _hello_text(self, info: dict[str, Any], events: list[Event]) -> str:
        history = [as_json(event, info["classes"]) for event in events]
        return dumps({"type": "hello", **info, "history": history, "truth": self.ground_truth.get(info["wearer"])})

    def _send_adaptation(self, wearer: str) -> None:

        async def send() -> None:
            try:
                summary = await self.queue.call(self.manager.adaptation, wearer)
            except ServiceError:  # deleted in the meantime
                return
            except Exception:
                log.exception("adaptation summary failed", extra={"wearer": wearer})
                return
            self.subscriptions.send(wearer, {"type": "adaptation", **summary})

        self._start_task(send())


def _take(rate: RateLimiter, caller: str, what: str) -> None:
    """Take one unit of a caller's rate; raise `Refused` with status 429 if there is none."""
    if delay_s := rate.delay_s(caller):
        text = f"Expected at most {rate.per_s:g} {what}; send this one again after {delay_s:.2f} s."
        raise Refused("rate", text, 429)
