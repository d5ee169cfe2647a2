"""Reading of stored events without delaying predictions: small pages of the store, decoded in a thread of their own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from sight.apps.serve import serialisation
from sight.apps.serve.ingest_queue import IngestQueue
from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.wearer_archive import ArchiveWriter, StoredSession
from sight.types import Event

#: Chunks in the first page, and most bytes of the later ones, which are as long as the chunks before suggest.
FIRST_ROWS, PAGE_BYTES = 32, 1 << 20
#: Most events decoded at once.
PAGE_EVENTS = 1000
P = ParamSpec("P")
T = TypeVar("T")


class EventReader:
    """Second path to the store, one page at a time, so that chunks are processed in between."""

    def __init__(self, manager: SessionManager, queue: IngestQueue) -> None:
        self.manager, self.queue = manager, queue
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reader")

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the reader's thread; it must not use the session manager."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))

    async def events(self, wearer: str, after: int, limit: int) -> list[Event]:
        return [event async for page in self.event_pages(wearer, after, limit) for event in page]

    async def event_pages(self, wearer: str, after: int, limit: int) -> AsyncIterator[list[Event]]:
        rows_wanted = FIRST_ROWS
        while limit > 0:
            rows = await self.queue.call(self.manager.event_rows, wearer, after, min(rows_wanted, limit))
            page = await self.call(decode, wearer, rows, after, min(limit, PAGE_EVENTS))
            if not page:
                return
            yield page
            after, limit = page[-1].window, limit - len(page)
            size = sum(len(sealed) for _, sealed in rows) / len(rows)
            rows_wanted = max(1, min(int(PAGE_BYTES / size), PAGE_EVENTS * len(rows) // len(page) + 1))

    async def archive(self, session: StoredSession) -> AsyncIterator[bytes]:
        writer = ArchiveWriter(session)
        yield await self.call(writer.start)
        async for page in self.event_pages(session.info["wearer"], -1, session.info["count"]):
            yield await self.call(writer.add, page)
        yield await self.call(writer.finish)

    def close(self) -> None:
        self._thread.shutdown(wait=True)


def decode(wearer: str, rows: Sequence[tuple[int, bytes]], after: int, limit: int) -> list[Event]:
    events: list[Event] = []
    for seq, sealed in rows:
        events += [event for event in serialisation.unpack_events(wearer, seq, sealed) if event.window > after]
        if len(events) >= limit:
            break
    return events[:limit]
