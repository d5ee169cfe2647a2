"""Shared parts of steps that are exported with their model as one ONNX graph; torch."""

from typing import Any

import torch
from torch import Tensor, nn


class FusedStep(nn.Module):
    """Encoder, head and one step of a method: (window, state) to (q, p, surprise, next state).

    A subclass writes `forward`, which takes a window (1, C, T) and the entries of the method's `StateLayout`, in its
    order and in the shapes of `StateLayout.graph_zeros`. It returns refined probabilities (1, K), raw probabilities
    (1, K), the surprise (1,) and the next state. Where ``count`` is 0 it ignores the rest of the state and starts a new
    wearer. No branch may depend on a value. `adapter` is the method, bound to the network.
    """

    def __init__(self, network: nn.Module, adapter: Any) -> None:  # noqa: ARG002 - for subclasses
        super().__init__()
        self.network = network

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the feature (D,) and the probabilities (1, K) of one window (1, C, T)."""
        z = self.network.features(x)  # type: ignore[operator]
        return z[0], torch.softmax(self.network.head(z), dim=1)  # type: ignore[operator]


def length(vectors: Tensor) -> Tensor:
    """Return the length along the last axis, which is kept."""
    return (vectors * vectors).sum(-1, keepdim=True).sqrt()


def unit(vectors: Tensor, floor: float) -> Tensor:
    """Scale to length 1 along the last axis; shorter vectors than `floor` are divided by it."""
    return vectors / length(vectors).clamp_min(floor)
