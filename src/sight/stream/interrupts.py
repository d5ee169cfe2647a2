"""Ctrl-C and SIGTERM between two chunks, never inside one, so that what is saved is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

Item = TypeVar("Item")


class Stop:
    """Ends a loop over arriving items at a signal: at once while it waits, after the item while it works.

    Examples
    --------
    >>> with Stop() as stop:
    ...     [item for item in stop.until(iter("ab"))]
    ['a', 'b']
    """

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def until(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield items until there are no more, or a signal came."""
        while not self.asked:
            self._waiting = True
            try:
                item = next(items)
            except (StopIteration, KeyboardInterrupt):
                return
            finally:
                self._waiting = False
            yield item

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self._waiting:
            raise KeyboardInterrupt
