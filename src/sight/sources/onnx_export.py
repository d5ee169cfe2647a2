"""Export of a torch source model to ONNX, checked against the network before the file is written."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from torch import Tensor, nn

from sight.atomic import write_atomic
from sight.sources.checkpoint import pack_stats
from sight.sources.onnx import CARD, CLASSES, OUTPUTS, TENSORS, open_session
from sight.sources.torch import TorchSource
from sight.sources.torch_to_onnx import prepare_network, to_graph
from sight.types import Array


def export_onnx(source: TorchSource, path: str | Path, *, shape: tuple[int, int] | None = None) -> Path:
    """Write a source model as .onnx: input ``x`` (B, C, T); outputs ``features``, ``logits``, ``probabilities``.

    Parameters
    ----------
    source
        Trained or wrapped source model, on any device. Inputs are in the units of the sensor.
    path
        Output file.
    shape
        (C, T) of a window; required for wrapped networks, which have no card.
    """
    shape = window_shape(source, shape)
    model = to_graph(
        _ExportOutputs(prepare_network(source.network, shape)),
        (torch.zeros(2, *shape, device=source.device),),
        inputs=["x"],
        outputs=["features", "logits", "probabilities"],
        dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
    )
    data = serialise(model, source)
    x = _test_windows(source, shape)
    exported = open_session(data).run(OUTPUTS, {"x": x})
    for name, expected, output in zip(OUTPUTS, source.encode(x), exported, strict=True):
        check_agreement(name, expected, output, tolerance=1e-5)
    return write_atomic(path, data)


def window_shape(source: TorchSource, shape: tuple[int, int] | None) -> tuple[int, int]:
    """Return `shape`, or (C, T) of the model card if it is None; raise ValueError if both are missing."""
    if shape is not None:
        return shape
    if source.card is None:
        raise ValueError("Expected shape=(C, T) for a wrapped network, got None; pass the shape of its windows.")
    return len(source.card.channels), source.card.length


def serialise(model: Any, source: TorchSource, extra: Mapping[str, str] | None = None) -> bytes:
    """Return an ONNX model as bytes, with classes, head, statistics, card and `extra` texts in its metadata.

    Moments of layers are left out, because only methods that need the torch network use them.
    """
    stats = replace(source.stats, norms=None) if source.stats else None
    tensors = {"head.weight": source.weight, "head.bias": source.bias} | pack_stats(stats)
    metadata = {
        CLASSES: json.dumps(source.classes),
        TENSORS: base64.b64encode(safetensors.numpy.save(tensors)).decode("ascii"),
    }
    metadata |= ({CARD: source.card.to_json()} if source.card else {}) | dict(extra or {})
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    data: bytes = model.SerializeToString()
    return data


def check_agreement(name: str, expected: Array, exported: Array, *, tolerance: float) -> None:
    """Raise RuntimeError if an output of an exported graph differs from the original by more than `tolerance`."""
    difference = float(np.abs(expected - exported).max()) / max(1.0, float(np.abs(expected).max()))
    if not difference <= tolerance:
        raise RuntimeError(
            f"Expected {name} of the exported graph within {tolerance:.0e} of the original, got {difference:.1e}; "
            f"nothing was written. The network may contain an operation that ONNX cannot express."
        )


class _ExportOutputs(nn.Module):
    """Network that returns features, logits and probabilities."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.network.features(x)  # type: ignore[operator]
        logits = self.network.head(features)  # type: ignore[operator]
        return features, logits, torch.softmax(logits, dim=1)


def _test_windows(source: TorchSource, shape: tuple[int, int]) -> Array:
    """Return random windows, scaled like the training data if the source has a card."""
    noise = np.random.default_rng(0).normal(size=(4, *shape))
    if source.card is not None:
        noise = noise * np.array(source.card.std)[:, None] + np.array(source.card.mean)[:, None]
    return noise.astype(np.float32)
