"""All wearers of one shard: their states in one piece of memory, and the same as bytes.

The bytes are a safetensors file: a JSON header with the version of this layout, the model and the method, then plain
arrays. Nothing is ever unpickled, and other programs can read a stored state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import safetensors.numpy

from sight.fleet.plan import FleetModel
from sight.types import Array

#: Raised by one whenever an older `sight` could not read what a newer one writes.
VERSION = 2

#: What happened to the wearers of a stored block: same model, new model with their state carried over, or restarted.
Fate = Literal["same", "carried", "reset"]

_STATE, _CLOCK, _LENGTH = "state.", "clock.", "clock_length."


@dataclass(eq=False)
class Block:
    """The wearers of a shard, in the order they came.

    Parameters
    ----------
    fleet
        States of the method, as `sight.methods._compiled.CompiledAdapter.many` makes them.
    wearers
        Names, row by row.
    number
        Last number seen of each wearer's rows, (W,); what is not above it is late or a repetition.
    time_s
        When each wearer's last answered window began, (W,); NaN before the first.
    answered
        Windows answered of each wearer, whatever the model, (W,).
    clocks
        Where rows are samples: the state of each wearer's way from samples to windows.
    """

    fleet: Any
    wearers: list[str] = field(default_factory=list)
    number: Array = field(default_factory=lambda: np.empty(0, np.int64))
    time_s: Array = field(default_factory=lambda: np.empty(0, np.float64))
    answered: Array = field(default_factory=lambda: np.empty(0, np.int64))
    clocks: list[dict[str, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rows = {name: row for row, name in enumerate(self.wearers)}

    def __len__(self) -> int:
        return len(self.wearers)

    def rows(self, wearers: Iterable[str]) -> Array:
        """Find the row of each wearer, -1 for those not yet here."""
        return np.array([self._rows.get(name, -1) for name in wearers], np.int64)

    def welcome(self, wearers: Iterable[str], model: FleetModel) -> None:
        """Make room for wearers that are not yet here; those who are stay as they are."""
        new = [name for name in dict.fromkeys(wearers) if name not in self._rows]
        if not new:
            return
        bigger = model.adapter.many(len(self) + len(new))
        for row in range(len(self)):
            bigger.restore(row, self.fleet.state(row))
        self._rows |= {name: len(self) + at for at, name in enumerate(new)}
        self.fleet, self.wearers = bigger, [*self.wearers, *new]
        self.number = np.r_[self.number, np.full(len(new), -1, np.int64)]
        self.time_s = np.r_[self.time_s, np.full(len(new), np.nan)]
        self.answered = np.r_[self.answered, np.zeros(len(new), np.int64)]
        if model.plan.kind == "samples":
            self.clocks += [model.windower().state() for _ in new]


def fresh(model: FleetModel) -> Block:
    """Make the block of a shard nobody has been seen of."""
    return Block(model.adapter.many(0))


def pack(block: Block, model: FleetModel) -> bytes:
    """Write a block as bytes."""
    names = json.dumps(block.wearers, ensure_ascii=False).encode()
    tensors = {
        "wearers": np.frombuffer(names, np.uint8),
        **{_STATE + name: array for name, array in block.fleet.state(slice(None)).items()},
        "number": block.number,
        "time_s": block.time_s,
        "answered": block.answered,
        **_joined(block.clocks),
    }
    return safetensors.numpy.save(tensors, metadata=_header(model) | {"sight.block": str(VERSION)})


def unpack(data: bytes, model: FleetModel) -> tuple[Block, Fate]:
    """Read a block and fit it to the model that runs now.

    Returns
    -------
    block, fate
        "same": the model that wrote it. "carried": another with the same classes and feature size under the same
        method, so every state goes on, with the new head's directions as anchors. "reset": the states mean nothing to
        this model and begin anew; numbers and times stay, so nothing is answered twice.
    """
    header = _read_header(data)
    if header["shards"] != str(model.plan.shards):
        raise ValueError(
            f"The checkpoint was begun with {header['shards']} shards, got {model.plan.shards}; wearers would lose "
            f"their states: keep the number, or begin a new output folder."
        )
    stored = safetensors.numpy.load(data)
    wearers = json.loads(stored["wearers"].tobytes())
    fleet = model.adapter.many(len(wearers))
    wanted = _header(model)
    fits = all(header.get(key) == wanted[key] for key in ("method", "classes", "dims"))
    fate: Fate = "reset" if not fits else "same" if header["model"] == wanted["model"] else "carried"
    if fits:
        states = {name.removeprefix(_STATE): array for name, array in stored.items() if name.startswith(_STATE)}
        fleet.restore(slice(None), states)
    if fate == "carried" and model.plan.carry == "habits" and model.adapter.layout.prototypes:
        fleet.reset(names=[model.adapter.layout.prototypes])
    block = Block(fleet, wearers, stored["number"], stored["time_s"], stored["answered"], _parted(stored, len(wearers)))
    if model.plan.kind == "samples" and (fate == "reset" or len(block.clocks) != len(wearers)):
        block.clocks = [model.windower().state() for _ in wearers]
    return block, fate


def _header(model: FleetModel) -> dict[str, str]:
    return {
        "method": model.adapter.name,
        "model": model.plan.digest,
        "classes": json.dumps(model.classes),
        "dims": str(model.source.weight.shape[1]),
        "shards": str(model.plan.shards),
    }


def _read_header(data: bytes) -> dict[str, str]:
    try:
        length = int.from_bytes(data[:8], "little")
        header: dict[str, str] = json.loads(data[8 : 8 + length])["__metadata__"]
        version = int(header["sight.block"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"Expected the stored state of a shard, got {len(data)} bytes of something else; is the checkpoint "
            f"another job's?"
        ) from None
    if version > VERSION:
        raise ValueError(
            f"The stored state of a shard is of version {version}, newer than version {VERSION} that this sight reads; "
            f"upgrade sight on every worker."
        )
    return header


def _joined(clocks: list[dict[str, Array]]) -> dict[str, Array]:
    """Lay the arrays of all wearers behind each other, by name, with how long each wearer's is."""
    joined = {}
    for key in clocks[0] if clocks else ():
        arrays = [np.asarray(clock[key]) for clock in clocks]
        if arrays[0].ndim:
            joined[_LENGTH + key] = np.array([len(array) for array in arrays], np.int64)
            joined[_CLOCK + key] = np.concatenate(arrays)
        else:
            joined[_CLOCK + key] = np.stack(arrays)
    return joined


def _parted(stored: dict[str, Array], wearers: int) -> list[dict[str, Array]]:
    clocks: list[dict[str, Array]] = [{} for _ in range(wearers)]
    found = [name.removeprefix(_CLOCK) for name in stored if name.startswith(_CLOCK)]
    for key in found:
        values, lengths = stored[_CLOCK + key], stored.get(_LENGTH + key)
        parts = values if lengths is None else np.split(values, np.cumsum(lengths)[:-1])
        for clock, part in zip(clocks, parts, strict=True):
            clock[key] = np.asarray(part)
    return clocks if found else []
