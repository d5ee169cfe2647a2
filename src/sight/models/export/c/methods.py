"""Methods in C: the constants of a bound adapter, and its state as 32-bit words."""

import dataclasses
import inspect
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sight._util.hashing import arrays_sha256
from sight.methods import ops, sticky
from sight.methods.compiled import CompiledAdapter
from sight.methods.keel import state as keel_state
from sight.methods.sight import state as sight_state
from sight.types import Array

#: Words that a hyper-parameter can be, by method and name; the C source compares with names that end with them.
WORDS = {
    "sight": {
        "surprise": ("geometric", "distance", "constant"),
        "habit": ("sqrt", "raw", "off"),
        "prototypes": ("soft", "hard", "off"),
    }
}
KEEL_CONSTANTS = (
    "TINY", "STILL", "LOWEST", "HIGHEST", "HIGHEST_RAISE", "LEAST_COVERAGE",
    "FIRST_WINDOWS", "FIRST_PAIRS", "FIRST_VARIANCE", "CERTAIN",
)  # fmt: skip


def _keel(adapter: Any) -> dict[str, Any]:
    terms, params = adapter.constants
    values: dict[str, Any] = params._asdict() | {name: getattr(keel_state, name) for name in KEEL_CONSTANTS}
    values["norm_floor"] = inspect.signature(ops.unit).parameters["eps"].default
    values |= {"prior": terms.prior, "expected": terms.expected}
    if terms.share:
        values |= {"share": terms.share, "scale": terms.scale, "origin": terms.origin, "directions": terms.directions}
    return values | {"uses_features": bool(terms.share)}


def _sight(adapter: Any) -> dict[str, Any]:
    anchors, params = adapter.constants
    floors = {"sum_floor": sight_state.SUM_FLOOR, "prior_floor": sight_state.PRIOR_FLOOR}
    values: dict[str, Any] = params._asdict() | floors
    return values | {"anchors": anchors, "uses_features": True}


def _plain(adapter: Any) -> dict[str, Any]:
    fields = {field.name: getattr(adapter, field.name) for field in dataclasses.fields(adapter)}
    return fields | {"uses_features": False}


def _sticky_learned(adapter: Any) -> dict[str, Any]:
    return _plain(adapter) | {"least_stay": sticky.LEAST_STAY, "most_stay": sticky.MOST_STAY}


#: Function from a bound adapter to its constants, by the name of the method. Its C source is method_NAME.c.
METHODS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "keel": _keel,
    "sight": _sight,
    "sticky": _plain,
    "sticky-learned": _sticky_learned,
    "ema": _plain,
}


def constants(adapter: Any) -> dict[str, Any]:
    """Return the constants of a bound adapter: numbers, truth values, words and arrays."""
    values = METHODS[adapter.name](adapter)
    values["gap_half_life_s"] = adapter.gap_half_life_s or 0.0  # 0 keeps the belief
    return values


def state_words(adapter: Any, state: Mapping[str, Any] | None = None) -> dict[str, Array]:
    """Return a state, by default the adapter's own, as the C source has it: float32 and uint32 in the struct's order.

    Sums of a compiled method are means here, as in its fused graph.
    """
    state = adapter.state() if state is None else state
    if isinstance(adapter, CompiledAdapter):
        tensors = adapter.layout.to_graph(state, *adapter.source.weight.shape)
    else:
        tensors = {name: np.asarray(value) for name, value in state.items()}
    return {name: value.astype(np.float32 if value.dtype.kind == "f" else np.uint32) for name, value in tensors.items()}


def from_words(adapter: Any, words: Mapping[str, Array]) -> dict[str, Array]:
    """Return the state of an adapter, given the words of the C source."""
    if isinstance(adapter, CompiledAdapter):
        return adapter.layout.from_graph(words)
    return {name: words[name].astype(own.dtype).reshape(own.shape) for name, own in adapter.state().items()}


def state_id(adapter: Any) -> int:
    """Return a number of 32 bits that stands for the model, the method and the layout of its state."""
    source = adapter.source
    facts = {
        "method": adapter.name,
        "version": adapter.layout.version if isinstance(adapter, CompiledAdapter) else 1,
        "state": {name: list(words.shape) for name, words in state_words(adapter).items()},
        "model": arrays_sha256([source.weight, source.bias], header=json.dumps(source.classes))[:16],
    }
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())
