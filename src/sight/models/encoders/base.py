"""Base class of encoders: normalisation, features, linear head and constructor arguments."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sight.types import Array


class Encoder(nn.Module, ABC):
    """Network with features and a linear head: ``forward(x) = head(features(x))``.

    A subclass builds its layers in `__init__` and implements `_features` for normalised windows. It passes on the
    number D of features (`dims`), the dropout rate before the head and, as `args`, all its other constructor arguments
    by name, including `channels` and `classes`. They are stored as `encoder_args`, from which a checkpoint rebuilds the
    network. `mean`, `std` and `fill` are stored in the model card, not among the tensors of a checkpoint: they are
    buffers outside the state dict.
    """

    name: ClassVar[str]
    mean: Tensor  # (C, 1)
    std: Tensor  # (C, 1)
    fill: Tensor | None  # (C, 1), replaces NaN

    def __init__(self, *, dims: int, dropout: float, **args: Any) -> None:
        super().__init__()
        self.encoder_args: dict[str, Any] = args | {"dropout": dropout}
        self.channels: int = args["channels"]
        self.register_buffer("mean", torch.zeros(self.channels, 1), persistent=False)
        self.register_buffer("std", torch.ones(self.channels, 1), persistent=False)
        self.register_buffer("fill", None, persistent=False)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(dims, args["classes"])

    def normalise(self, mean: Array, std: Array, fill: Array | None = None) -> None:
        """Set the mean and standard deviation of each channel, and the value that replaces NaN, all (C,)."""
        for key, values in (("mean", mean), ("std", std), ("fill", fill)):
            if values is not None:
                column = torch.from_numpy(np.array(values, dtype=np.float32).reshape(self.channels, 1))
                setattr(self, key, column.to(self.mean.device))

    def features(self, x: Tensor) -> Tensor:
        """Map windows (B, C, T) in the units of the sensor to features (B, D)."""
        if x.ndim != 3 or x.shape[1] != self.channels:
            raise ValueError(f"{self.name}: expected windows (B, {self.channels}, T), got {tuple(x.shape)}.")
        return self._features(self._normalised(x))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.dropout(self.features(x)))
        return logits

    def _normalised(self, x: Tensor) -> Tensor:
        if self.fill is not None:
            x = torch.where(torch.isnan(x), self.fill, x)
        return (x - self.mean) / self.std

    @abstractmethod
    def _features(self, x: Tensor) -> Tensor:
        """Map normalised windows (B, C, T) to features (B, D)."""
