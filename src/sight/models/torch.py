"""Source model with a torch network."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sight import registry
from sight.methods.gradient.norms import RecordingEncoder
from sight.models import checkpoint
from sight.models.card import ModelCard
from sight.types import Array, NormLayers, SourceStats

#: Windows per forward pass.
BATCH = 256


class TorchSource:
    """Source model with a torch network in evaluation mode; its weights are never changed.

    The network has ``features(x)`` and a linear ``head``; ``forward(x)`` is ``head(features(x))``. Torch selects
    kernels by batch size, so the chunk size changes the last bits of predictions (1e-6 or less). Predictions of
    `sight.models.onnx.OnnxSource` do not depend on it.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        classes: Sequence[str],
        card: ModelCard | None = None,
        stats: SourceStats | None = None,
        fisher: Mapping[str, Array] | None = None,
    ) -> None:
        self.network = network.eval()
        self.classes = tuple(classes)
        self.card = card
        self.stats = stats
        self.fisher = fisher
        head = cast(nn.Linear, network.head)
        self.weight: Array = head.weight.detach().cpu().numpy().copy()
        self.bias: Array = (
            np.zeros_like(self.weight[:, 0]) if head.bias is None else head.bias.detach().cpu().numpy().copy()
        )
        if len(self.classes) != len(self.weight):
            raise ValueError(
                f"Expected {len(self.weight)} class names, one per row of the head, got {len(self.classes)}."
            )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        loaded = checkpoint.read(path)
        card = loaded.card
        build = registry.get("encoders", card.encoder)
        try:
            with torch.device("meta"):  # compare shapes before memory of any size is allocated
                expected = {
                    name: tuple(tensor.shape) for name, tensor in build(**card.encoder_args).state_dict().items()
                }
            _check_shapes(expected, {name: array.shape for name, array in loaded.network.items()})
            network = build(**card.encoder_args)
            network.load_state_dict({name: torch.from_numpy(array) for name, array in loaded.network.items()})
            network.normalise(card.mean, card.std, card.fill)
            return cls(network, classes=card.classes, card=card, stats=loaded.stats, fisher=loaded.fisher)
        except (RuntimeError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            reason = " ".join(str(error).split())[:300]
            raise ValueError(
                f"{path}: tensors do not fit the encoder {card.encoder!r} of its header: {reason}"
            ) from None

    def save(self, path: str | Path) -> Path:
        if self.card is None:
            raise TypeError(
                "A wrapped network cannot be rebuilt from a checkpoint; export it to ONNX instead (sight export)."
            )
        network = {name: value.cpu().numpy() for name, value in self.network.state_dict().items()}
        content = checkpoint.Checkpoint(card=self.card, network=network, stats=self.stats, fisher=self.fisher)
        return checkpoint.save(path, content)

    @property
    def device(self) -> torch.device:
        return cast(nn.Linear, self.network.head).weight.device

    def to(self, device: str | torch.device) -> Self:
        self.network.to(device)
        return self

    def module(self) -> nn.Module:
        """Return the network itself; copy it before you change it."""
        return self.network

    @property
    def norm_layers(self) -> NormLayers:
        """The batch normalisations with statistics; without any, there is nothing to adapt."""
        layers = {
            name: torch.stack((layer.running_mean, layer.running_var))
            for name, layer in self.network.named_modules()
            if isinstance(layer, _BatchNorm) and layer.running_mean is not None and layer.running_var is not None
        }
        trained = torch.cat([torch.zeros(2, 0, device=self.device), *layers.values()], dim=1)
        return NormLayers(widths={name: part.shape[1] for name, part in layers.items()}, trained=trained.cpu().numpy())

    def norm_encoder(self) -> RecordingEncoder:
        return RecordingEncoder(self.network, self.norm_layers.widths)

    def encode(self, x: Array) -> tuple[Array, Array]:
        self._check(x)
        head = cast(nn.Linear, self.network.head)
        features = cast(Callable[[Tensor], Tensor], self.network.features)
        z = np.empty((len(x), self.weight.shape[1]), np.float32)
        p = np.empty((len(x), self.weight.shape[0]), np.float32)
        with torch.inference_mode():
            for first in range(0, len(x), BATCH):
                rows = slice(first, first + BATCH)
                batch = features(torch.from_numpy(np.array(x[rows], dtype=np.float32)).to(self.device))
                z[rows] = batch.cpu().numpy()
                p[rows] = torch.softmax(head(batch), dim=1).cpu().numpy()
        return z, p

    def _check(self, x: Array) -> None:
        if self.card is not None and x.shape[1:] != (len(self.card.channels), self.card.length):
            raise ValueError(
                f"Expected windows (B, {len(self.card.channels)}, {self.card.length}) as in training "
                f"({self.card.window_s:g} s at {self.card.rate_hz:g} Hz), got {x.shape}; "
                f"use the same rate and window length."
            )
        if x.ndim != 3:
            raise ValueError(f"Expected windows (B, C, T), got {x.shape}; add the missing axis.")


def _check_shapes(expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> None:
    for name in sorted({*expected, *found}):
        if expected.get(name) != found.get(name):
            raise ValueError(f"expected {name} of shape {expected.get(name)}, got {found.get(name)}")
