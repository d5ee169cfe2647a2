"""A runner for fused graphs: encoder and method in one file, onnxruntime alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from sight.kernels.reference import NORM_FLOOR
from sight.kernels.states import KEEL_NUMBERS, KEEL_VECTORS
from sight.ops import relaxed, unit
from sight.sources.onnx import CLASSES, FUSED, TENSORS, open_session
from sight.types import Array


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a graph keeps the state of a method.

    Parameters
    ----------
    axes
        Name to shape, in the order of the graph's inputs: "KD" (K, D), "K" (K,), "1" (1,) float32, "i" (1,) int32.
    dtype
        Float type of the same state in the adapter.
    means
        Sums of the adapter that are means in the graph, which float32 holds longer: name to what counts their terms.
    gap_clears
        Tensors that a gap sets to 0.
    version
        Raised by one whenever names, shapes or meaning of the state change.
    """

    axes: Mapping[str, str]
    dtype: type
    means: Mapping[str, str] = field(default_factory=dict)
    gap_clears: tuple[str, ...] = ()
    version: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the state's tensors, in the order of the graph's inputs."""
        return tuple(self.axes)

    def zeros(self, classes: int, dims: int) -> dict[str, Array]:
        """Make tensors of zeros, as the graph takes them."""
        shapes = {"KD": (classes, dims), "K": (classes,), "1": (1,), "i": (1,)}
        types = {name: np.int32 if axes == "i" else np.float32 for name, axes in self.axes.items()}
        return {name: np.zeros(shapes[axes], types[name]) for name, axes in self.axes.items()}

    def facts(self) -> dict[str, Any]:
        """Tell what a host has to know, for the metadata."""
        return {"state": self.names, "state_version": self.version, "gap_clears": self.gap_clears}

    def to_adapter(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Write the graph's state as the adapter's."""
        state = {}
        for name, axes in self.axes.items():
            value: Array = tensors[name].astype(np.int64 if axes == "i" else self.dtype)
            state[name] = value * tensors[self.means[name]][0] if name in self.means else value
        return {name: value if "K" in self.axes[name] else value[0, ...] for name, value in state.items()}

    def from_adapter(self, state: Mapping[str, Any], like: Mapping[str, Array]) -> dict[str, Array]:
        """Write the adapter's state as the graph's, refusing what does not fit."""
        if set(state) != set(self.axes):
            raise ValueError(f"Expected state with {sorted(self.axes)}, got {sorted(state)}.")
        tensors = {}
        for name, zeros in like.items():
            value = np.asarray(state[name])
            if value.shape != (zeros.shape if "K" in self.axes[name] else ()) or not np.isfinite(value).all():
                raise ValueError(
                    f"Expected finite {name!r} for {zeros.shape}, got {value.shape}; was it saved by another model?"
                )
            terms = max(int(state[self.means[name]]), 1) if name in self.means else 1
            tensors[name] = np.array(value / terms, zeros.dtype).reshape(zeros.shape)
        return tensors


#: State of each method that can be fused.
LAYOUTS = {
    "sight": Layout(axes={"prototypes": "KD", "habit": "K", "belief": "K", "count": "i"}, dtype=np.float32),
    "keel": Layout(
        axes=dict.fromkeys(KEEL_VECTORS, "K") | dict(zip(KEEL_NUMBERS, "11111iii", strict=True)),
        dtype=np.float64,
        means={"life": "count", "total": "count", "doubts": "count", "spread": "pairs"},
        gap_clears=("linked",),
    ),
}


class FusedSession:
    """One wearer through a graph written by `sight.sources.fused_export.export_fused`.

    Parameters
    ----------
    path
        The .onnx file.
    threads
        Threads of one call.

    Notes
    -----
    `state` is that of the adapter, so a wearer can move between the two. Hosts in other languages do what `step` does:
    pass the window and the tensors of the state, keep those that come back.
    """

    def __init__(self, path: str | Path, threads: int = 1) -> None:
        self._session = open_session(Path(path), threads)
        found = self._session.get_modelmeta().custom_metadata_map
        if FUSED not in found:
            raise ValueError(f"{path} holds no adaptation; write one with sight export --fused, or use sight.load.")
        facts = json.loads(found[FUSED])
        layout = LAYOUTS.get(facts["method"])
        if layout is None or facts["state_version"] != layout.version:
            known = ", ".join(f"{name} {one.version}" for name, one in LAYOUTS.items())
            raise ValueError(
                f"{path} keeps the state of {facts['method']} in version {facts['state_version']}, this sight knows "
                f"{known}; export the model again."
            )
        self.method: str = facts["method"]
        self.params: Mapping[str, Any] = facts["params"]
        self.classes: tuple[str, ...] = tuple(json.loads(found[CLASSES]))
        self.shape: tuple[int, int] = tuple(self._session.get_inputs()[0].shape[1:])
        self._layout = layout
        self._fresh = self._start(safetensors.numpy.load(base64.b64decode(found[TENSORS]))["head.weight"])
        self.reset()

    def reset(self) -> None:
        """Forget the wearer."""
        self._state = dict(self._fresh)

    def step(self, window: Array) -> tuple[Array, Array, float]:
        """Answer one window (C, T) with refined and raw probabilities (K,) and the surprise, then adapt."""
        x = np.ascontiguousarray(window, np.float32).reshape(-1, *np.shape(window)[-2:])
        if x.shape != (1, *self.shape):
            raise ValueError(f"Expected one window {self.shape}, got {np.shape(window)}; pass them one by one.")
        if not np.isfinite(x).all():
            raise ValueError("The window holds NaN or infinity; drop it or fill it before adapting.")
        q, p, surprise, *state = self._session.run(None, {"x": x, **self._state})
        self._state = dict(zip(self._layout.names, state, strict=True))
        return q[0], p[0], float(surprise[0])

    def gap(self, seconds: float) -> None:
        """Tell that the wearer was away: the belief relaxes, knowledge stays."""
        if not (np.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"Expected a gap of zero or more seconds, got {seconds}.")
        if self._state["count"][0]:
            self._state["belief"] = relaxed(self._state["belief"], seconds, self.params["gap_half_life_s"])
        if seconds > 0:
            self._state |= {name: np.zeros_like(self._state[name]) for name in self._layout.gap_clears}

    def state(self) -> dict[str, Array]:
        """Copy everything needed to resume, as the adapter's `state` gives it."""
        return self._layout.to_adapter(self._state)

    def restore(self, state: Mapping[str, Array]) -> None:
        """Resume from `state`, this runner's or the adapter's."""
        self._state = self._layout.from_adapter(state, self._fresh)

    def _start(self, weight: Array) -> dict[str, Array]:
        """State of a wearer nobody has seen, which is that of a fresh adapter."""
        tensors, uniform = self._layout.zeros(*weight.shape), np.full(len(weight), 1 / len(weight), np.float32)
        if self.method == "keel":
            return tensors | {"belief": uniform, "hazard": np.array([self.params["hazard"]], np.float32)}
        floor = NORM_FLOOR if self.params["variant"] == "authors" else self.params["eps"]
        return tensors | {"belief": uniform, "habit": uniform, "prototypes": unit(weight, floor)}
