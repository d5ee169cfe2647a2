"""From torch to ONNX: one file that runs anywhere onnxruntime does, checked against the network before it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sight.atomic import write_atomic
from sight.sources.onnx import metadata
from sight.sources.onnx_graph import prepared, to_graph
from sight.sources.torch import TorchSource
from sight.types import Array


def export_onnx(source: TorchSource, path: str | Path, *, shape: tuple[int, int] | None = None) -> Path:
    """Write a source as .onnx: input ``x`` (B, C, T) in raw units; outputs ``features``, ``logits``, ``probabilities``.

    Parameters
    ----------
    source
        Trained or wrapped; a network on another device is exported from there.
    path
        Where to write.
    shape
        (C, T) of a window, for wrapped networks; a trained one knows.

    Notes
    -----
    The exporter's optimiser stays off: it takes an addition of 1e-8 for one of nothing and drops it, and networks that
    rely on such a guard then divide by zero. onnxruntime optimises when it loads.
    """
    if shape is None and source.card is None:
        raise ValueError("Expected shape=(C, T) for a wrapped network, got None; say what its windows look like.")
    shape = shape or (len(source.card.channels), source.card.length)  # type: ignore[union-attr]
    texts = metadata(
        classes=source.classes, weight=source.weight, bias=source.bias, card=source.card, stats=source.stats
    )
    model = _graph(source, shape)
    for key, value in texts.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    data: bytes = model.SerializeToString()
    _compare(source, data, _windows(source, shape))
    return write_atomic(path, data)


class _Outputs(nn.Module):
    """The three answers of a network under the names of the file."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.network.features(x)  # type: ignore[operator]
        logits = self.network.head(features)  # type: ignore[operator]
        return features, logits, torch.softmax(logits, dim=1)


def _graph(source: TorchSource, shape: tuple[int, int]) -> Any:
    return to_graph(
        _Outputs(prepared(source.network, shape)),
        (torch.zeros(2, *shape, device=source.device),),
        inputs=["x"],
        outputs=["features", "logits", "probabilities"],
        dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
    )


def _windows(source: TorchSource, shape: tuple[int, int]) -> Array:
    """Make windows of the size that training saw."""
    noise = np.random.default_rng(0).normal(size=(4, *shape))
    if source.card is not None:
        noise = noise * np.array(source.card.std)[:, None] + np.array(source.card.mean)[:, None]
    return noise.astype(np.float32)


def _compare(source: TorchSource, data: bytes, x: Array) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    answers = session.run(["features", "probabilities"], {"x": x})
    for name, ours, theirs in zip(("features", "probabilities"), source.encode(x), answers, strict=True):
        worst = float(np.abs(ours - theirs).max()) / max(1.0, float(np.abs(ours).max()))
        if not worst <= 1e-5:
            raise RuntimeError(
                f"The exported graph answers other {name} than the network, by {worst:.1e} where 1e-5 was expected; "
                f"nothing was written. Does the network do something onnx cannot express?"
            )
