"""Export of a torch source model to ONNX, checked against the network before the file is written."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from sight._util.atomic import write_atomic
from sight.models.export.onnx_norms import add_statistics
from sight.models.export.torch_graph import prepare_network, to_graph
from sight.models.onnx import MOMENTS, OUTPUTS, OnnxSource, open_session, random_windows, serialise
from sight.models.torch import TorchSource
from sight.types import Array, NormLayers


def export_onnx(
    source: TorchSource, path: str | Path, *, shape: tuple[int, int] | None = None, norms: bool = False
) -> Path:
    """Write a source model as .onnx: input ``x`` (B, C, T); outputs ``features``, ``logits``, ``probabilities``.

    Inputs are in the units of the sensor. `shape` (C, T) is required for a wrapped network without a card. With `norms`
    there is an input ``norm_statistics`` (2, C), the statistics of batch normalisation with the trained ones as
    default, and an output ``norm_moments`` (B, 2, C), mean and mean square of the layers' inputs, for keel-norm.
    """
    shape = window_shape(source, shape)
    layers = _require_layers(source) if norms else None
    model = to_graph(
        _ExportOutputs(prepare_network(source.network, shape)),
        (torch.zeros(2, *shape, device=source.device),),
        inputs=["x"],
        outputs=["features", "logits", "probabilities"],
        dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
    )
    if layers is not None:
        add_statistics(model, layers)
    data = serialise(model, source, norms=layers)
    x = random_windows(source.card, 4, shape)
    exported = open_session(data).run(OUTPUTS, {"x": x})
    for name, expected, output in zip(OUTPUTS, source.encode(x), exported, strict=True):
        check_agreement(name, expected, output, tolerance=1e-5)
    if layers is not None:
        moved = layers.trained * np.array([[0.9], [1.2]], np.float32)
        encoders = (model.norm_encoder() for model in (source, OnnxSource(data)))
        expected_outputs, outputs = (encode(x[:1], moved) for encode in encoders)
        for name, expected, output in zip((*OUTPUTS, MOMENTS), expected_outputs, outputs, strict=True):
            check_agreement(f"{name} with other statistics", expected, output, tolerance=1e-5)
    return write_atomic(path, data)


def _require_layers(source: TorchSource) -> NormLayers:
    if not source.norm_layers.widths:
        raise ValueError(
            "Expected a network with batch normalisation, found none; export it without norms and use keel."
        )
    return source.norm_layers


def window_shape(source: TorchSource, shape: tuple[int, int] | None) -> tuple[int, int]:
    """Return `shape`, or (C, T) of the model card if it is None; raise ValueError if both are missing."""
    if shape is not None:
        return shape
    if source.card is None:
        raise ValueError(
            "Expected shape=(C, T) for a wrapped network without a card, got None; pass the shape of its windows, or "
            "rate_hz, channels, units and window_s to sight.wrap."
        )
    return len(source.card.channels), source.card.length


def check_agreement(name: str, expected: Array, exported: Array, *, tolerance: float) -> None:
    """Raise RuntimeError if an output of an exported graph differs from the original by more than `tolerance`."""
    difference = float(np.abs(expected - exported).max()) / max(1.0, float(np.abs(expected).max()))
    if not difference <= tolerance:
        raise RuntimeError(
            f"Expected {name} of the exported graph within {tolerance:.0e} of the original, got {difference:.1e}; "
            f"nothing was written. The network may contain an operation that ONNX cannot express."
        )


class _ExportOutputs(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.network.features(x)  # type: ignore[operator]
        logits = self.network.head(features)  # type: ignore[operator]
        return features, logits, torch.softmax(logits, dim=1)
