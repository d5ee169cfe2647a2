"""Export of a model and a method as one ONNX graph; docs/onnx.md describes its inputs, outputs and metadata."""

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sight._util.atomic import write_atomic
from sight.base import Adapter
from sight.methods.compiled import StateLayout
from sight.models.export.onnx import check_agreement, window_shape
from sight.models.export.torch_graph import prepare_network, to_graph
from sight.models.fused_model import FusedSession, graph_facts
from sight.models.onnx import FUSED, serialise
from sight.models.torch import TorchSource
from sight.registry import RECOMMENDED, method, resolve, supporting


def export_fused(
    source: TorchSource, path: str | Path, adapter: Adapter | None = None, *, shape: tuple[int, int] | None = None
) -> Path:
    """Write a source and a method as one graph, (window, state) to (probabilities, new state); see `sight.export`.

    The method is the recommended one if `adapter` is None.
    """
    adapter = method(RECOMMENDED) if adapter is None else adapter
    if adapter.fused_step is None:
        raise TypeError(
            f"Expected {' or '.join(supporting('fused_step'))} for a fused graph, got {adapter.name}; "
            f"use other methods with the plain export."
        )
    shape = window_shape(source, shape)
    bound: Any = dataclasses.replace(adapter).bind(source)
    layout: StateLayout = bound.layout
    step = resolve(adapter.fused_step)(prepare_network(source.network, shape).cpu(), bound)
    sizes = (*source.weight.shape, getattr(bound, "channels", 0))
    zeros = [torch.from_numpy(tensor) for tensor in layout.graph_zeros(*sizes).values()]
    inputs = ("x", *layout.entries)
    outputs = ("q", "p", "surprise", *(f"next_{name}" for name in layout.entries))
    model = to_graph(step, (torch.zeros(1, *shape), *zeros), inputs, outputs)
    facts = {FUSED: json.dumps(graph_facts(adapter.name, adapter.params(), layout))}
    data = serialise(model, source, facts, source.norm_layers if hasattr(bound, "channels") else None)
    _compare(bound, data, shape)
    return write_atomic(path, data)


def _compare(adapter: Adapter, data: bytes, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).normal(size=(8, *shape)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        session = FusedSession(write_atomic(Path(folder) / "trial.onnx", data))
        fused = np.array([session.step(window)[0] for window in x])
    check_agreement("probabilities", adapter.step(x), fused, tolerance=1e-4)
