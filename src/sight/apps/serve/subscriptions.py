"""Subscriptions to live wearers: predictions and a downsampled signal for pages, without slowing down the service."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from sight.apps.serve.chunks import Ack
from sight.apps.serve.message_format import ack_json, dumps
from sight.types import Array

#: Samples per second sent to a page, events in the first message, and seconds between two adaptation summaries.
SIGNAL_HZ, HISTORY, ADAPTATION_S = 25.0, 600, 1.0


class Subscriber(Protocol):
    """Receiver of the messages about one wearer."""

    def push(self, text: str, window: int | None) -> None:
        """Add a message and the number of the window it belongs to, without waiting."""


class Subscriptions:
    """Subscribers of all wearers; `request_adaptation` is called with a wearer whose adaptation summary is due."""

    def __init__(self, request_adaptation: Callable[[str], None]) -> None:
        self._channels: dict[str, _Channel] = {}
        self._request_adaptation = request_adaptation

    def add(self, wearer: str, subscriber: Subscriber) -> None:
        self._channels.setdefault(wearer, _Channel()).subscribers.add(subscriber)

    def remove(self, wearer: str, subscriber: Subscriber) -> None:
        channel = self._channels.get(wearer)
        if channel is not None:
            channel.subscribers.discard(subscriber)
            if not channel.subscribers:
                del self._channels[wearer]

    def end(self, wearer: str, reason: str) -> None:
        self.send(wearer, {"type": "error", "seq": None, "error": reason})
        self._channels.pop(wearer, None)

    def send(self, wearer: str, content: dict[str, Any], window: int | None = None) -> None:
        if wearer in self._channels:
            text = dumps({"type": content["type"], "wearer": wearer, **content})
            for subscriber in self._channels[wearer].subscribers:
                subscriber.push(text, window)

    def publish(self, ack: Ack, latency_ms: float) -> None:
        """Send the signal and events of an acknowledged chunk to the subscribers of its wearer, if there are any."""
        channel = self._channels.get(ack.wearer)
        if channel is None or ack.duplicate:
            return
        chosen = channel.choose_samples(len(ack.chunk.values), ack.rate_hz)
        if len(chosen):
            times = np.round(ack.sample_times()[chosen], 4).tolist()
            rows = np.round(ack.chunk.values[chosen].astype(np.float64), 4).tolist()
            self.send(ack.wearer, {"type": "signal", "time_s": times, "values": rows})
        for event in ack_json(ack, latency_ms)["events"]:
            self.send(ack.wearer, {"type": "event", **event}, window=event["window"])
        now = time.monotonic()
        if ack.events and now - channel.summarised >= ADAPTATION_S:
            channel.summarised = now
            self._request_adaptation(ack.wearer)


@dataclass(eq=False)
class _Channel:
    """Subscribers of one wearer, the next sample to send, and when its adaptation was summarised last."""

    subscribers: set[Subscriber] = field(default_factory=set)
    next_sample: int = 0
    summarised: float = -math.inf

    def choose_samples(self, count: int, rate_hz: float) -> Array:
        """Return the indices, among the next `count` samples, of every n-th sample."""
        step = max(1, math.ceil(rate_hz / SIGNAL_HZ))
        chosen = np.arange(self.next_sample, count, step)
        self.next_sample += len(chosen) * step - count
        return chosen
