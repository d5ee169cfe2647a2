"""Handling of Ctrl-C and SIGTERM between two chunks, so that a saved state is always complete."""

import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self, TypeVar

Item = TypeVar("Item")


class StopOnSignal:
    """Context manager that ends a loop at a signal: at once while it waits, after the current item while it works."""

    def __init__(self) -> None:
        self.requested = False
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # other threads may not set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def iterate(self, items: Iterator[Item]) -> Iterator[Item]:
        while not self.requested:
            self._waiting = True
            try:
                item = next(items)
            except (StopIteration, KeyboardInterrupt):
                return
            finally:
                self._waiting = False
            yield item

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        if self._waiting:
            raise KeyboardInterrupt
