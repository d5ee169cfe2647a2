"""Runner for fused graphs, which hold encoder and method in one ONNX file; needs only onnxruntime."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sight._util.array_checks import check_gap
from sight.methods.compiled import StateLayout
from sight.methods.ops import relax
from sight.models.onnx import FUSED, open_session, read_head
from sight.registry import get
from sight.types import Array

#: Version of the metadata `sight.fused`, increased by one whenever hosts would have to change.
FORMAT = 2


def graph_facts(method: str, params: Mapping[str, Any], layout: StateLayout) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "method": method,
        "params": dict(params),
        "state": list(layout.entries),
        "state_version": layout.version,
        "gap_clears": layout.gap_clears,
        "class_frequencies": layout.frequencies,
    }


def _read_facts(texts: Mapping[str, str], path: object) -> dict[str, Any]:
    try:
        facts = json.loads(texts[FUSED])
        if isinstance(facts["method"], str) and isinstance(facts["params"], dict) and "state_version" in facts:
            return dict(facts)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ValueError(f"{path}: the metadata of its method are damaged; export the model again.")


class FusedSession:
    """One wearer's session with a graph written by `sight.models.export.fused.export_fused`.

    `state` returns the state of the adapter, so that a wearer can move between the two. Hosts in other languages do
    what `step` and `gap` do: pass the window and the state tensors, and keep the returned ones.
    """

    def __init__(self, path: str | Path, threads: int = 1) -> None:
        self._session = open_session(Path(path), threads)
        texts = self._session.get_modelmeta().custom_metadata_map
        if FUSED not in texts:
            raise ValueError(f"{path} holds no method; write one with sight export --fused, or use sight.load.")
        facts, head = _read_facts(texts, path), read_head(texts, path)
        cls = get("methods", facts["method"])
        versions = (facts.get("format"), facts["state_version"])
        if versions != (FORMAT, cls.layout.version):
            raise ValueError(
                f"{path}: expected format {FORMAT} and version {cls.layout.version} of the state of {facts['method']}, "
                f"got {versions[0]} and {versions[1]}; export the model again."
            )
        self.method: str = facts["method"]
        self.params: Mapping[str, Any] = facts["params"]
        self.classes: tuple[str, ...] = head.classes
        self.shape: tuple[int, int] = tuple(self._session.get_inputs()[0].shape[1:])
        self._layout: StateLayout = cls.layout
        adapter = cls(**self.params).bind(head)
        self._sizes = (*head.weight.shape, getattr(adapter, "channels", 0))
        self._initial = self._to_graph(adapter.state())
        self.reset()

    def reset(self) -> None:
        self._state = dict(self._initial)

    def step(self, window: Array) -> tuple[Array, Array, float]:
        """Return refined and raw probabilities (K,) and the surprise of one window (C, T), then adapt."""
        x = np.ascontiguousarray(window, np.float32).reshape(-1, *np.shape(window)[-2:])
        if x.shape != (1, *self.shape):
            raise ValueError(f"Expected one window {self.shape}, got {np.shape(window)}; pass windows one by one.")
        if not np.isfinite(x).all():
            raise ValueError("The window holds NaN or infinity; drop it or fill it before adapting.")
        q, p, surprise, *state = self._session.run(None, {"x": x, **self._state})
        self._state = dict(zip(self._layout.entries, state, strict=True))
        return q[0], p[0], float(surprise[0])

    def gap(self, seconds: float) -> None:
        check_gap(self.method, seconds)
        if self._state["count"][0]:
            self._state["belief"] = relax(self._state["belief"], seconds, self.params["gap_half_life_s"])
        if seconds > 0:
            self._state |= {name: np.zeros_like(self._state[name]) for name in self._layout.gap_clears}

    def state(self) -> dict[str, Array]:
        return self._layout.from_graph(self._state)

    def restore(self, state: Mapping[str, Array]) -> None:
        self._state = self._to_graph(state)

    def _to_graph(self, state: Mapping[str, Array]) -> dict[str, Array]:
        return self._layout.to_graph(state, *self._sizes)
