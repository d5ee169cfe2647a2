"""A runner for the fused graph: encoder and SIGHT in one file, onnxruntime alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from sight.kernels.reference import NORM_FLOOR
from sight.ops import relaxed, unit
from sight.sources.onnx import CLASSES, FUSED, TENSORS, open_session
from sight.types import Array

#: Raised by one whenever names, shapes or meaning of the state change.
STATE_VERSION = 1
STATE = ("prototypes", "habit", "belief", "count")


class FusedSession:
    """One wearer through a graph written by `sight.export.export_fused`.

    Parameters
    ----------
    path
        The .onnx file.
    threads
        Threads of one call.

    Notes
    -----
    `state` is that of the SIGHT adapter, so a wearer can move between the two. Hosts in other languages do what `step`
    does: pass the window and the four state tensors, keep the four that come back.
    """

    def __init__(self, path: str | Path, threads: int = 1) -> None:
        self._session = open_session(Path(path), threads)
        found = self._session.get_modelmeta().custom_metadata_map
        if FUSED not in found:
            raise ValueError(f"{path} holds no adaptation; write one with sight export --fused, or use sight.load.")
        facts = json.loads(found[FUSED])
        if facts["state_version"] != STATE_VERSION:
            raise ValueError(
                f"{path} keeps its state in version {facts['state_version']}, this sight knows {STATE_VERSION}; "
                f"export the model again."
            )
        self.settings: Mapping[str, Any] = facts["settings"]
        self.classes: tuple[str, ...] = tuple(json.loads(found[CLASSES]))
        self.shape: tuple[int, int] = tuple(self._session.get_inputs()[0].shape[1:])
        floor = NORM_FLOOR if self.settings["variant"] == "authors" else self.settings["eps"]
        self._anchors = unit(safetensors.numpy.load(base64.b64decode(found[TENSORS]))["head.weight"], floor)
        self.reset()

    def reset(self) -> None:
        """Forget the wearer."""
        uniform = np.full(len(self.classes), 1 / len(self.classes), np.float32)
        self._state = {
            "prototypes": self._anchors,
            "habit": uniform,
            "belief": uniform,
            "count": np.zeros(1, np.int32),
        }

    def step(self, window: Array) -> tuple[Array, Array, float]:
        """Answer one window (C, T) with refined and raw probabilities (K,) and the surprise, then adapt."""
        x = np.ascontiguousarray(window, np.float32).reshape(-1, *np.shape(window)[-2:])
        if x.shape != (1, *self.shape):
            raise ValueError(f"Expected one window {self.shape}, got {np.shape(window)}; pass them one by one.")
        if not np.isfinite(x).all():
            raise ValueError("The window holds NaN or infinity; drop it or fill it before adapting.")
        q, p, surprise, *state = self._session.run(None, {"x": x, **self._state})
        self._state = dict(zip(STATE, state, strict=True))
        return q[0], p[0], float(surprise[0])

    def gap(self, seconds: float) -> None:
        """Tell that the wearer was away: the belief relaxes, knowledge stays."""
        if not (np.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"Expected a gap of zero or more seconds, got {seconds}.")
        if self._state["count"][0]:
            self._state["belief"] = relaxed(self._state["belief"], seconds, self.settings["gap_half_life_s"])

    def state(self) -> dict[str, Array]:
        """Copy everything needed to resume, as the adapter's `state` gives it."""
        count = np.array(self._state["count"][0], np.int64)
        return {name: np.array(self._state[name]) for name in STATE[:3]} | {"count": count}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Resume from `state`, this runner's or the adapter's."""
        if set(state) != set(STATE):
            raise ValueError(f"Expected state with {sorted(STATE)}, got {sorted(state)}.")
        given: dict[str, Array] = {name: np.array(state[name], np.float32) for name in STATE[:3]}
        given["count"] = np.array([state["count"]], np.int32).reshape(1)
        for name, value in given.items():
            if value.shape != self._state[name].shape or not np.isfinite(value).all():
                raise ValueError(
                    f"Expected finite {name!r} of shape {self._state[name].shape}, got {value.shape}; "
                    f"was it saved by another model?"
                )
        self._state = given
