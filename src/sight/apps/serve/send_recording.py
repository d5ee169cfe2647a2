"""Transfer of a recording to a wearer of a service; it continues where an earlier transfer ended."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC

import numpy as np

from sight.apps.serve.client import Client, RequestRefusedError
from sight.apps.serve.limits import check_wearer
from sight.apps.stream.replay import replay
from sight.types import Array, Recording

#: Most samples in a chunk, and most seconds of signal; a chunk that the service finds too large is halved.
CHUNK_SAMPLES, CHUNK_S = 10_000, 60.0


class Transfer:
    """Sends the samples that a wearer of a service does not have yet; creates the wearer if it does not exist.

    The recordings are consecutive, on one clock, in the channels and units of the wearer's model. Times are sent in
    seconds since 1970 if they have a date, else as they are. A `speed` of 0 sends as fast as the service acknowledges.
    """

    def __init__(
        self,
        client: Client,
        wearer: str,
        recordings: Sequence[Recording],
        *,
        model: str | None = None,
        speed: float = 0.0,
    ) -> None:
        first = recordings[0]
        self.client, self.wearer, self.speed = client, check_wearer(wearer), speed
        info = client.create(wearer, rate_hz=first.rate_hz, model=model)
        if (tuple(info["channels"]), tuple(info["units"])) != (first.channels, first.unit):
            raise ValueError(
                f"{wearer} has the model {info['model']} with the channels {', '.join(info['channels'])}, but the "
                f"recording was read for another model; give --model {info['model']}."
            )
        start = first.start
        offset_s = 0.0 if start is None else (start if start.tzinfo else start.replace(tzinfo=UTC)).timestamp()
        self._recordings = [replace(recording, time_s=recording.time_s + offset_s) for recording in recordings]
        self._seq: int = info["seq"]
        self.resumed_s: float | None = info["time_s"]  # of the latest sample that the service had at the start
        self.total = sum(len(recording.values) for recording in recordings)
        # Samples that the service had at the start, that have no value in a channel, and that were acknowledged.
        self.present = self.without_value = self.sent = 0
        # Chunks acknowledged, and samples of them that the service dropped because their time does not increase.
        self.chunks = self.dropped = 0
        # Windows predicted, and those whose refined class differs from the raw one.
        self.windows = self.changed = 0

    def run(self) -> Iterator[int]:
        """Send all samples; yields the number of samples that are done after each acknowledgement."""
        after_s = -np.inf if self.resumed_s is None else self.resumed_s
        chunk_s = CHUNK_S if self.speed == 0 else min(CHUNK_S, max(1.0, self.speed / 10))
        for recording in self._recordings:
            self.present += int((recording.time_s <= after_s).sum())
            longest_s = min(chunk_s, CHUNK_SAMPLES / recording.rate_hz)
            for values, time_s in replay(recording, speed=self.speed, chunk_s=longest_s, after_s=after_s):
                kept = np.isfinite(values).all(axis=1)
                self.without_value += int((~kept).sum())
                if kept.any():
                    self._send(values[kept], np.asarray(time_s)[kept])
                yield self.present + self.without_value + self.sent

    def _send(self, values: Array, time_s: Array) -> None:
        try:
            ack = self.client.send(self.wearer, self._seq + 1, values, time_s)
        except RequestRefusedError as refused:
            if refused.status != 413 or len(values) == 1:
                raise
            half = len(values) // 2
            self._send(values[:half], time_s[:half])
            self._send(values[half:], time_s[half:])
            return
        self._seq += 1
        self.chunks += 1
        self.sent += len(values)
        self.dropped += ack["dropped"] or 0
        self.windows += len(ack["events"])
        self.changed += sum(event["label"] != event["raw"] for event in ack["events"])
