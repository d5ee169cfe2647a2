"""Export of all stored data of one wearer as a zip archive of plain files, written in parts."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, cast

import safetensors.numpy

from sight._util import tensorfile
from sight.apps.serve import serialisation
from sight.apps.stream.event_json import as_json
from sight.types import Array, Event

README = """wearer.json         model, method, hyper-parameters, progress, and a summary of the adaptation
state.safetensors   state of the adaptation and samples of the incomplete window; plain arrays
inputs.safetensors  the samples that are still in the log, by number of the chunk
events.jsonl        the predictions that are still stored, one window a line
"""


@dataclass(frozen=True)
class StoredSession:
    """A wearer at one moment, without its events."""

    info: Mapping[str, Any]  # description of the wearer, with the adaptation
    header: Mapping[str, Any]  # what the state belongs to
    arrays: Mapping[str, Array]  # the state
    inputs: Sequence[tuple[int, bytes]]  # logged chunks as the store keeps them
    offset: int  # is subtracted from their numbers


class ArchiveWriter:
    """Zip archive of a wearer; each method returns the bytes that are ready."""

    def __init__(self, session: StoredSession) -> None:
        self.session = session
        self._parts = _Parts()
        self._archive = zipfile.ZipFile(cast(IO[bytes], self._parts), "w", zipfile.ZIP_DEFLATED)

    def start(self) -> bytes:
        session = self.session
        files = {
            "README.txt": README.encode(),
            "wearer.json": json.dumps(session.info, indent=2).encode(),
            "state.safetensors": tensorfile.pack(session.arrays, serialisation.STATE_KEY, session.header),
            "inputs.safetensors": bytes(safetensors.numpy.save(self._inputs())),
        }
        for name, content in files.items():
            self._archive.writestr(name, content)
        self._events = self._archive.open("events.jsonl", "w", force_zip64=True)
        return self._parts.take()

    def add(self, events: Sequence[Event]) -> bytes:
        classes = self.session.info["classes"]
        self._events.write("".join(json.dumps(as_json(event, classes)) + "\n" for event in events).encode())
        return self._parts.take()

    def finish(self) -> bytes:
        self._events.close()
        self._archive.close()
        return self._parts.take()

    def _inputs(self) -> dict[str, Array]:
        inputs: dict[str, Array] = {}
        for seq, sealed in self.session.inputs:
            values, time_s = serialisation.unpack_inputs(self.session.info["wearer"], seq, sealed)
            number = seq - self.session.offset
            inputs[f"{number}.values"] = values
            if time_s is not None:
                inputs[f"{number}.time_s"] = time_s
        return inputs


class _Parts:
    """Collects what is written, until it is taken; cannot be sought in, so nothing written is changed later."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)
