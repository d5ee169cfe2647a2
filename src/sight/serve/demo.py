"""Wearers that are always there: a small model and synthetic people, replayed inside the service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sight.serve.chunk_format import Arrival
from sight.serve.errors import KeeperError
from sight.serve.limits import Refused
from sight.serve.monitoring import log
from sight.serve.service import Service
from sight.types import Recording

#: Whom the model knows and who walks in later; a pause between two rounds of a recording is a gap like any other.
KNOWN, UNSEEN = ("W01", "W02", "W03", "W04", "W05"), {"demo-anna": "W07", "demo-bela": "W08", "demo-cleo": "W09"}
PEOPLE: dict[str, Any] = {"wearers": 9, "hours": 0.3, "seed": 4}
SPEED, CHUNK_S, PAUSE_S = 10.0, 1.0, 60.0


def demo_model(folder: Path, epochs: int = 2) -> Path:
    """Return the model of the demo in a folder; trained there the first time, which takes seconds and torch."""
    path = folder / "demo.onnx"
    if path.exists():
        return path
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic
    from sight.sources.onnx_export import export_onnx
    from sight.train import train

    people = Synthetic(**PEOPLE)
    source = train(
        [windows_of(people, person) for person in KNOWN],
        people.classes,
        encoder="resnet",
        epochs=epochs,
        channels=people.channels,
        units=people.units,
        rate_hz=people.rate_hz,
        dataset=people.name,
    )
    return export_onnx(source, path)


def demo_recordings() -> dict[str, Recording]:
    """Make the days of the demo's wearers, whom the model has not met."""
    from sight.datasets.synthetic import Synthetic

    people = Synthetic(**PEOPLE)
    return {name: next(people.recordings(person)) for name, person in UNSEEN.items()}


@dataclass(frozen=True, eq=False)
class Replay:
    """Sends recordings as if their wearers were here, round after round, going on where the service stopped.

    Parameters
    ----------
    service
        Where to.
    recordings
        By name of the wearer.
    speed
        How much faster than life.
    chunk_s
        Seconds of signal in each chunk.
    """

    service: Service
    recordings: dict[str, Recording]
    speed: float = SPEED
    chunk_s: float = CHUNK_S

    async def run(self) -> None:
        """Replay all of them until cancelled."""
        async with asyncio.TaskGroup() as group:
            for wearer in self.recordings:
                group.create_task(self._one(wearer))

    async def _one(self, wearer: str) -> None:
        service, recording = self.service, self.recordings[wearer]
        facts = await service.batcher.call(service.keeper.create, wearer)
        latest_s = -1.0 if facts["time_s"] is None else facts["time_s"]
        pieces, round_s = _pieces(recording, self.chunk_s), float(recording.time_s[-1]) + PAUSE_S
        if recording.labels is not None:
            service.truths[wearer] = {"round_s": round_s, "starts": _starts(recording, facts["classes"])}
        loop = asyncio.get_running_loop()
        due, turn = loop.time(), max(0, int(latest_s // round_s))
        while True:
            for piece in pieces:
                time_s = recording.time_s[piece] + turn * round_s
                if time_s[-1] <= latest_s:
                    continue
                due = max(due + self.chunk_s / self.speed, loop.time() - 1)
                await asyncio.sleep(due - loop.time())
                try:
                    await service.batcher.send(Arrival(wearer, None, recording.values[piece], time_s))
                except (Refused, KeeperError) as error:  # somebody deleted the wearer, and delete is final
                    log.warning("demo wearer ends", extra={"wearer": wearer, "error": str(error)})
                    return
            turn += 1


def _starts(recording: Recording, classes: Sequence[str]) -> list[tuple[float, str | None]]:
    """Tell when each class begins; None where nobody knows."""
    labels = np.asarray(recording.labels)
    first = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist()]
    return [(float(recording.time_s[i]), classes[labels[i]] if labels[i] >= 0 else None) for i in first]


def _pieces(recording: Recording, chunk_s: float) -> Sequence[slice]:
    """Cut a recording into stretches of at most `chunk_s` seconds."""
    number = (recording.time_s // chunk_s).astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    return [slice(first, last) for first, last in pairwise(edges)]
