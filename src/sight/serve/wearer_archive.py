"""Export of all stored data of one wearer as a zip archive of plain files."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence

import safetensors.numpy

from sight import tensorfile
from sight.serve import serialization
from sight.serve.store import StoredWearer
from sight.serve.wearer_session import WearerSession
from sight.stream.event_json import as_json
from sight.types import Array, Event

README = """wearer.json         model, method, hyper-parameters, progress, and a summary of the adaptation
state.safetensors   state of the adaptation and samples of the incomplete window; plain arrays
events.jsonl        the predictions that are still stored, one window a line
inputs.safetensors  the samples that are still in the log, by number of the chunk
"""


def archive(session: WearerSession, stored: StoredWearer, events: Sequence[Event]) -> bytes:
    """Return a zip archive of a wearer's session, logged samples and events."""
    wearer, classes = session.wearer, session.model.card.classes
    inputs: dict[str, Array] = {}
    for seq, sealed in stored.inputs:
        values, time_s = serialization.unpack_inputs(wearer, seq, sealed)
        number = seq - session.offset
        inputs[f"{number}.values"] = values
        if time_s is not None:
            inputs[f"{number}.time_s"] = time_s
    files = {
        "README.txt": README.encode(),
        "wearer.json": json.dumps(session.info(adaptation=True), indent=2).encode(),
        "state.safetensors": tensorfile.pack(session.arrays(), serialization.STATE_KEY, session.header()),
        "events.jsonl": "".join(json.dumps(as_json(event, classes)) + "\n" for event in events).encode(),
        "inputs.safetensors": bytes(safetensors.numpy.save(inputs)),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return buffer.getvalue()
