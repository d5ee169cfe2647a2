"""All that is stored of one wearer, as files that other programs read."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import safetensors.numpy

from sight.serve import serialization
from sight.serve.store import Stored
from sight.serve.wearer_session import Resident
from sight.stream.event_json import as_json
from sight.types import Array, Event

README = """facts.json          how the wearer is served, and how far
state.safetensors   what adaptation has learned and the samples that wait for a window to be complete; plain arrays
events.jsonl        the answers that are still kept, one window a line
inputs.safetensors  the samples that are still logged, by number of the chunk
"""


def archive(facts: Mapping[str, Any], one: Resident, stored: Stored, events: Sequence[Event]) -> bytes:
    """Pack a wearer into a zip archive."""
    classes = one.model.card.classes
    files = {
        "README.txt": README.encode(),
        "facts.json": json.dumps({**facts, "picture": one.picture()}, indent=2).encode(),
        "state.safetensors": serialization.pack_state(one.arrays(), one.header()),
        "events.jsonl": "".join(json.dumps(as_json(event, classes)) + "\n" for event in events).encode(),
        "inputs.safetensors": bytes(safetensors.numpy.save(_inputs(one.wearer, stored))),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return buffer.getvalue()


def _inputs(wearer: str, stored: Stored) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for seq, sealed in stored.inputs:
        values, time_s = serialization.unpack_inputs(serialization.unseal(sealed, wearer, "inputs", seq))
        arrays[f"{seq}.values"] = values
        if time_s is not None:
            arrays[f"{seq}.time_s"] = time_s
    return arrays
