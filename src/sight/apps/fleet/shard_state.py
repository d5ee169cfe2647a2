"""State of all wearers of one shard, in memory and as bytes.

The bytes are a safetensors file: a JSON header with the format, the model and the method, then plain arrays. There is
no pickle, and other programs can read it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sight._util import tensorfile
from sight.apps.fleet.fleet_model import FleetModel
from sight.types import Array

#: Increased whenever an older `sight` could not read the bytes.
FORMAT = 2
KEY = "sight.shard"

#: What happened to the wearers of a stored shard: same model; new model with their state carried over; or reset.
Transition = Literal["same", "carried", "reset"]

_STATE, _CLOCK, _LENGTH = "state.", "clock.", "clock_length."


@dataclass(eq=False)
class ShardState:
    """The W wearers of a shard, in order of arrival."""

    adapters: Any  # the method of all wearers, as its `many` returns it
    wearers: list[str] = field(default_factory=list)  # names
    #: Highest row number of each wearer, (W,); a row that is not above it is late or repeated.
    number: Array = field(default_factory=lambda: np.empty(0, np.int64))
    #: Start of each wearer's latest predicted window, (W,); NaN before the first.
    time_s: Array = field(default_factory=lambda: np.empty(0, np.float64))
    #: Number of windows predicted for each wearer, under any model, (W,).
    windows: Array = field(default_factory=lambda: np.empty(0, np.int64))
    #: State of each wearer's windower, if rows are samples.
    clocks: list[dict[str, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rows = {name: row for row, name in enumerate(self.wearers)}

    def __len__(self) -> int:
        return len(self.wearers)

    def rows(self, wearers: Iterable[str]) -> Array:
        """Return the row of each wearer, -1 if there is none."""
        return np.array([self._rows.get(name, -1) for name in wearers], np.int64)

    def add(self, wearers: Iterable[str], model: FleetModel) -> None:
        new = [name for name in dict.fromkeys(wearers) if name not in self._rows]
        if not new:
            return
        larger = model.adapter.many(len(self) + len(new))
        for row in range(len(self)):
            larger.restore(row, self.adapters.state(row))
        self._rows |= {name: len(self) + i for i, name in enumerate(new)}
        self.adapters, self.wearers = larger, [*self.wearers, *new]
        self.number = np.r_[self.number, np.full(len(new), -1, np.int64)]
        self.time_s = np.r_[self.time_s, np.full(len(new), np.nan)]
        self.windows = np.r_[self.windows, np.zeros(len(new), np.int64)]
        if model.options.kind == "samples":
            self.clocks += [model.windower().state() for _ in new]


def empty(model: FleetModel) -> ShardState:
    return ShardState(model.adapter.many(0))


def pack(shard: ShardState, model: FleetModel) -> bytes:
    names = json.dumps(shard.wearers, ensure_ascii=False).encode()
    arrays = {
        "wearers": np.frombuffer(names, np.uint8),
        **{_STATE + name: array for name, array in shard.adapters.state(slice(None)).items()},
        "number": shard.number,
        "time_s": shard.time_s,
        "windows": shard.windows,
        **_join_clocks(shard.clocks),
    }
    return tensorfile.pack(arrays, KEY, {"format": FORMAT, **_identity(model)})


def unpack(data: bytes, model: FleetModel) -> tuple[ShardState, Transition]:
    """Restore a shard from `pack` and fit it to the current model.

    "carried": another model with the same classes, feature size and method wrote it, and every state continues,
    anchored to the new head. "reset": states do not fit and start again; numbers and times stay, so that no window is
    predicted twice.
    """
    header, arrays = _read(data)
    if header["shards"] != model.options.shards:
        raise ValueError(
            f"The checkpoint was started with {header['shards']} shards, got {model.options.shards}; use the same "
            f"number, or a new output folder, for wearers would lose their states."
        )
    wearers = json.loads(arrays["wearers"].tobytes())
    adapters, identity = model.adapter.many(len(wearers)), _identity(model)
    fits = all(header.get(key) == identity[key] for key in ("method", "classes", "dims"))
    transition: Transition = "reset" if not fits else "same" if header["model"] == identity["model"] else "carried"
    if fits:
        states = {name.removeprefix(_STATE): array for name, array in arrays.items() if name.startswith(_STATE)}
        adapters.restore(slice(None), states)
    if transition == "carried" and model.options.carry == "habits" and model.adapter.layout.prototypes:
        adapters.reset(names=[model.adapter.layout.prototypes])
    clocks = _split_clocks(arrays, len(wearers))
    if model.options.kind == "samples" and (transition == "reset" or len(clocks) != len(wearers)):
        clocks = [model.windower().state() for _ in wearers]
    shard = ShardState(adapters, wearers, arrays["number"], arrays["time_s"], arrays["windows"], clocks)
    return shard, transition


def _identity(model: FleetModel) -> dict[str, Any]:
    return {
        "method": model.adapter.name,
        "model": model.options.digest,
        "classes": list(model.classes),
        "dims": model.source.weight.shape[1],
        "shards": model.options.shards,
    }


def _read(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        header, arrays = tensorfile.unpack(data, KEY)
        version = int(header["format"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"Expected the stored state of a shard, got {len(data)} bytes of something else; is it the checkpoint of "
            f"another job?"
        ) from None
    if version > FORMAT:
        raise ValueError(
            f"The stored state of a shard has format {version}, newer than format {FORMAT} that this sight reads; "
            f"upgrade sight on every worker."
        )
    return header, arrays


def _join_clocks(clocks: list[dict[str, Array]]) -> dict[str, Array]:
    joined = {}
    for key in clocks[0] if clocks else ():
        arrays = [np.asarray(clock[key]) for clock in clocks]
        if arrays[0].ndim:
            joined[_LENGTH + key] = np.array([len(array) for array in arrays], np.int64)
            joined[_CLOCK + key] = np.concatenate(arrays)
        else:
            joined[_CLOCK + key] = np.stack(arrays)
    return joined


def _split_clocks(arrays: dict[str, Array], wearers: int) -> list[dict[str, Array]]:
    clocks: list[dict[str, Array]] = [{} for _ in range(wearers)]
    keys = [name.removeprefix(_CLOCK) for name in arrays if name.startswith(_CLOCK)]
    for key in keys:
        values, lengths = arrays[_CLOCK + key], arrays.get(_LENGTH + key)
        parts = values if lengths is None else np.split(values, np.cumsum(lengths)[:-1])
        for clock, part in zip(clocks, parts, strict=True):
            clock[key] = np.asarray(part)
    return clocks if keys else []
