"""A method in one ONNX graph with its model: encoder, head and adaptation, state in and state out.

Runs from any language that has ONNX Runtime; `sight.sources.fused.FusedSession` is the runner in Python, and
`sight.sources.fused.LAYOUTS` names the state of each method that can be fused.

Inputs are `x` (1, C, T) in the units of the sensor and the state; outputs are `q` (1, K) refined, `p` (1, K) raw,
`surprise` (1,), and each tensor of the state as `next_NAME`. Where `count` is 0 the graph starts a new wearer and
ignores the rest of the state, so zeros of the right shape are a fresh one.

A gap of s seconds is the host's to apply, before the next window, if count > 0:
``belief = 1 / K + (belief - 1 / K) * 2 ** (-s / half_life)``, and if s > 0 the tensors that ``gap_clears`` names become
0. The metadata ``sight.fused`` tells ``method``, ``params`` with the half-life ``gap_half_life_s`` (null means that
beliefs do not fade), ``state``, ``state_version`` and ``gap_clears``.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from sight.atomic import write_atomic
from sight.base import Adapter
from sight.registry import RECOMMENDED, method
from sight.sources.fused import LAYOUTS, FusedSession
from sight.sources.onnx import FUSED
from sight.sources.onnx_export import check_agreement, serialise, window_shape
from sight.sources.onnx_graph import prepare_network, to_graph
from sight.sources.quantise import quantise
from sight.sources.torch import TorchSource
from sight.steps import KeelStep, SightStep, Step

__all__ = ["SightStep", "export_fused", "quantise"]

STEPS: dict[str, type[Step]] = {"sight": SightStep, "keel": KeelStep}


def export_fused(
    source: TorchSource, path: str | Path, adapter: Adapter | None = None, *, shape: tuple[int, int] | None = None
) -> Path:
    """Write a source and a method as one graph, (window, state) to (answers, new state); see the module for the layout.

    Parameters
    ----------
    source
        Trained or wrapped.
    path
        Where to write.
    adapter
        SIGHT or Keel with the settings to bake in; the recommended one of them, as it is, if None.
    shape
        (C, T) of a window, for wrapped networks; a trained one knows.
    """
    adapter = method(RECOMMENDED) if adapter is None else adapter
    if adapter.name not in STEPS:
        raise TypeError(
            f"Expected SIGHT or Keel for a fused graph, got {adapter.name}; other methods run on the plain export."
        )
    shape = window_shape(source, shape)
    bound, layout = dataclasses.replace(adapter).bind(source), LAYOUTS[adapter.name]
    step = STEPS[adapter.name].of(prepare_network(source.network, shape).cpu(), bound)
    fresh = [torch.from_numpy(zeros) for zeros in layout.zeros(*source.weight.shape).values()]
    inputs, outputs = ("x", *layout.names), ("q", "p", "surprise", *(f"next_{name}" for name in layout.names))
    model = to_graph(step, (torch.zeros(1, *shape), *fresh), inputs, outputs)
    facts = {"method": adapter.name, "params": adapter.params(), **layout.facts()}
    data = serialise(model, source, {FUSED: json.dumps(facts)})
    _compare(bound, data, shape)
    return write_atomic(path, data)


def _compare(adapter: Adapter, data: bytes, shape: tuple[int, int]) -> None:
    """Raise RuntimeError if the graph and the adapter predict differently."""
    x = np.random.default_rng(0).normal(size=(8, *shape)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        session = FusedSession(write_atomic(Path(folder) / "trial.onnx", data))
        fused = np.array([session.step(window)[0] for window in x])
    check_agreement("probabilities", adapter.step(x), fused, tolerance=1e-4)
