"""Multi-layer perceptron for windows that are feature vectors."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from sight.models.encoders.base import Encoder


class MLP(Encoder):
    """Linear layers with batch normalisation and ReLU for windows that are vectors (T = 1); D = 128 by default.

    Parameters
    ----------
    channels, classes
        Length of the vector, and K.
    hidden
        Width of each layer; the last is D.
    dropout
        Dropout rate after each layer and before the head, in training only.

    Notes
    -----
    91,781 parameters with 225 inputs and five classes. Layers are convolutions over a single sample, so that norm
    layers get (B, C, T) as in every other encoder and methods that adapt them work unchanged.

    Examples
    --------
    >>> import torch
    >>> mlp = MLP(channels=225, classes=5)
    >>> mlp.features(torch.zeros(2, 225, 1)).shape, sum(p.numel() for p in mlp.parameters())
    (torch.Size([2, 128]), 91781)
    """

    name = "mlp"

    def __init__(
        self, *, channels: int, classes: int, hidden: Sequence[int] = (256, 128), dropout: float = 0.1
    ) -> None:
        super().__init__(dims=hidden[-1], dropout=dropout, channels=channels, classes=classes, hidden=list(hidden))
        layers = [
            nn.Sequential(nn.Conv1d(inputs, outputs, 1, bias=False), nn.BatchNorm1d(outputs), nn.ReLU())
            for inputs, outputs in pairwise((channels, *hidden))
        ]
        self.layers = nn.ModuleList(layers)

    def _features(self, x: Tensor) -> Tensor:
        if x.shape[2] != 1:
            raise ValueError(f"mlp: expected feature vectors (B, {self.channels}, 1), got {tuple(x.shape)}.")
        for position, layer in enumerate(self.layers):
            x = layer(self.dropout(x) if position else x)
        return x.flatten(1)
