"""Everything behind the web: the keeper in its thread, who may ask, who watches, who is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from sight.serve.chunk_format import Arrival
from sight.serve.errors import KeeperError
from sight.serve.ingest_queue import Batcher, Work
from sight.serve.limits import Limits, Pace, Refused
from sight.serve.monitoring import Metrics, log
from sight.serve.problems import DENIED
from sight.serve.session_manager import Ack, Keeper
from sight.serve.subscriptions import HISTORY, Hub
from sight.serve.tokens import ANYBODY, Token, TokenBook
from sight.stream.event_json import as_json

#: Seconds that open sockets get to take their last answers.
FAREWELL_S = 10.0


class Closable(Protocol):
    """An open socket, as the service sees it."""

    def stop(self) -> None:
        """Read no further; answer what is under way, then close."""


class Service:
    """One running service.

    Parameters
    ----------
    keeper
        Sessions and store; from now on only this service touches it.
    tokens
        Who may do what. An empty book admits everybody, as long as it stays empty and `guarded` is False.
    limits
        Bounds on what clients send.
    guarded
        Whether a token is needed even while the book is empty.

    Attributes
    ----------
    truths
        What wearers of the demo really do, for those who watch: seconds of a round and, in it, starts with classes.
    """

    def __init__(
        self, keeper: Keeper, tokens: TokenBook, limits: Limits | None = None, *, guarded: bool = False
    ) -> None:
        self.keeper, self.tokens, self.limits = keeper, tokens, limits or keeper.limits
        self.metrics = Metrics()
        self.batcher = Batcher(keeper, self.metrics, queue=self.limits.queue)
        self.batcher.listeners.append(self._publish)
        self.hub = Hub(self._send_picture)
        self.truths: dict[str, dict[str, Any]] = {}
        self.wearer_pace = Pace(self.limits.chunks_per_s)
        self.connection_pace = Pace(self.limits.connection_chunks_per_s, burst_s=1.0)
        self.ready = False
        self._guarded = guarded
        self._open: set[Closable] = set()
        self._nobody = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve, on the running loop."""
        self.batcher.start()
        self.ready = True
        log.info("ready", extra={"models": [model.id for model in self.keeper.models], **self.keeper.store.facts})

    async def drain(self) -> None:
        """Take nothing new, answer what is under way, and close the sockets."""
        if not self.ready:
            return
        self.ready = False
        log.info("draining", extra={"sockets": len(self._open)})
        for connection in tuple(self._open):
            connection.stop()
        if self._open:
            self._nobody.clear()
            await asyncio.wait({asyncio.ensure_future(self._nobody.wait())}, timeout=FAREWELL_S)
        await self.batcher.drain()

    async def close(self) -> None:
        """Drain, save everybody, release the store."""
        await self.drain()
        await self.batcher.call(self.keeper.close)
        await self.batcher.stop()
        log.info("closed")

    @contextmanager
    def opened(self, connection: Closable, path: str) -> Iterator[bool]:
        """Keep a socket in the list while it is open; tell whether there is room for it."""
        welcome = self.ready and len(self._open) < self.limits.connections
        self._open.add(connection)
        gauge = self.metrics.sockets.labels(path)
        gauge.inc()
        try:
            yield welcome
        finally:
            gauge.dec()
            self._open.discard(connection)
            if not self._open:
                self._nobody.set()

    # --- who may ask --------------------------------------------------------------------------------------------------

    @property
    def guarded(self) -> bool:
        """Whether a token is needed; once it is, it stays so."""
        self._guarded = self._guarded or bool(self.tokens)
        return self._guarded

    def token_of(self, header: str | None) -> Token | None:
        """Return who an Authorization header stands for; everybody where no tokens are needed."""
        if not self.guarded:
            return ANYBODY
        kind, _, text = (header or "").partition(" ")
        return self.tokens.find(text.strip()) if kind.lower() == "bearer" and text else None

    def valid(self, token: Token) -> bool:
        """Tell whether a token still counts."""
        return not self.guarded if token is ANYBODY else self.tokens.holds(token)

    def admit(self, token: Token, arrival: Arrival) -> None:
        """Refuse a chunk that its sender may not send, or sends too early."""
        if not token.permits("ingest", arrival.wearer):
            raise Refused("token", DENIED, 403)
        if not self.ready:
            raise Refused("busy", "The service is stopping; send the same chunk again when it is back.", 503)
        if delay_s := self.wearer_pace.wait(arrival.wearer):
            text = f"Expected at most {self.limits.chunks_per_s:g} chunks a second of one wearer; "
            raise Refused("rate", f"{text}send this one again after {delay_s:.2f} s.", 429)

    # --- what watchers see --------------------------------------------------------------------------------------------

    async def hello(self, wearer: str) -> dict[str, Any]:
        """Make the first message to a watcher: how the wearer is served, and the latest answers."""
        facts, events = await self.batcher.call(self._latest, wearer)
        self.hub.set_clock(wearer, facts.get("time_s"), facts["rate_hz"])
        shown = {key: facts[key] for key in ("classes", "channels", "units", "rate_hz", "window_s", "stride_s")}
        history = [as_json(event, facts["classes"]) for event in events]
        told = {"method": facts["method"], "history": history, "truth": self.truths.get(wearer)}
        return {"type": "hello", "wearer": wearer, **shown, **told}

    def _latest(self, wearer: str) -> tuple[dict[str, Any], list[Any]]:
        facts = self.keeper.facts(wearer)
        return facts, self.keeper.events(wearer, after=facts["count"] - HISTORY - 1, limit=HISTORY)

    def _publish(self, work: Work, ack: Ack) -> None:
        wearer = ack.wearer
        if ack.duplicate or not self.hub.watched(wearer):
            return
        self.hub.signal(wearer, work.arrival.values, work.time_s)
        latency_ms, classes = round(work.latency_ms, 2), work.facts["classes"]
        for event in ack.events:
            shown = as_json(event, classes, latency_ms)
            self.hub.tell(wearer, {"type": "event", "wearer": wearer, **shown}, window=event.window)
        if ack.events:
            self.hub.after_answers(wearer)

    def _send_picture(self, wearer: str) -> None:
        """Fetch a picture when the keeper has time, and send it."""

        async def fetch() -> None:
            try:
                picture = await self.batcher.call(self.keeper.picture, wearer)
            except KeeperError:  # deleted in between
                return
            except Exception:
                log.exception("picture failed", extra={"wearer": wearer})
                return
            self.hub.tell(wearer, {"type": "picture", "wearer": wearer, **picture})

        task = asyncio.get_running_loop().create_task(fetch())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
