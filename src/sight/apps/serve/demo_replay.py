"""Replay of the demo's recordings inside the service."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from sight.apps.serve.chunks import Chunk
from sight.apps.serve.errors import ServiceError
from sight.apps.serve.metrics_and_logs import log
from sight.apps.serve.service import Service
from sight.types import Recording

#: Speed of the replay, seconds of signal in each chunk, and pause between two rounds of a recording.
SPEED, CHUNK_S, PAUSE_S = 10.0, 1.0, 60.0


async def replay(
    service: Service, recordings: Mapping[str, Recording], model: str | None = None, speed: float = SPEED
) -> None:
    """Send a recording for each wearer again and again, until cancelled; continue where the service stopped."""
    async with asyncio.TaskGroup() as group:
        for wearer, recording in recordings.items():
            group.create_task(_replay(service, wearer, recording, model, speed))


async def _replay(service: Service, wearer: str, recording: Recording, model: str | None, speed: float) -> None:
    try:
        info = await service.queue.call(service.manager.create, wearer, model=model)
    except ServiceError as error:  # the data folder has a wearer of this name that cannot be used
        log.warning("demo wearer not started", extra={"wearer": wearer, "error": str(error)})
        return
    latest_s = -1.0 if info["time_s"] is None else info["time_s"]
    slices, round_s = _slices(recording), float(recording.time_s[-1]) + PAUSE_S
    if recording.labels is not None:
        starts = _activity_starts(recording, info["classes"])
        service.ground_truth[wearer] = {"round_s": round_s, "starts": starts}
    loop = asyncio.get_running_loop()
    due = loop.time()
    for number in itertools.count(max(0, int(latest_s // round_s))):
        for part in slices:
            time_s = recording.time_s[part] + number * round_s
            if time_s[-1] <= latest_s:
                continue
            due = max(due + CHUNK_S / speed, loop.time() - 1)
            await asyncio.sleep(due - loop.time())
            try:
                await service.queue.send(Chunk(wearer, None, recording.values[part], time_s))
            except ServiceError as error:  # the wearer was deleted
                log.warning("demo wearer ends", extra={"wearer": wearer, "error": str(error)})
                return


def _activity_starts(recording: Recording, classes: Sequence[str]) -> list[tuple[float, str | None]]:
    labels = np.asarray(recording.labels)
    first = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist()]
    return [(float(recording.time_s[i]), classes[labels[i]] if labels[i] >= 0 else None) for i in first]


def _slices(recording: Recording) -> Sequence[slice]:
    number = (recording.time_s // CHUNK_S).astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
    return [slice(first, last) for first, last in itertools.pairwise(edges)]
