"""Small torch sources for tests: real encoders, calibrated on synthetic windows without a training loop."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import torch
from torch import nn

from sight import registry
from sight.models.torch import TorchSource
from sight.testing import ToySource, toy_card
from sight.types import Array


def windows(classes: int = 5, channels: int = 3, length: int = 24, n: int = 96, seed: int = 1) -> tuple[Array, Array]:
    """Return windows of a wearer in time order and their labels; activities last about 12 windows."""
    toy = ToySource(classes=classes, channels=channels, length=length)
    rng = np.random.default_rng(seed)
    label = np.zeros(n, np.int64)
    for t in range(1, n):
        label[t] = rng.integers(classes) if rng.random() < 1 / 12 else label[t - 1]
    x = toy.centres[label] + 0.3 * rng.normal(size=toy.shape) + 0.8 * rng.normal(size=(n, *toy.shape))
    return x.astype(np.float32), label


@cache
def source(
    encoder: str = "cnn", classes: int = 5, channels: int = 3, length: int = 24, sharpness: float = 6.0
) -> TorchSource:
    """Return an encoder whose statistics and head fit synthetic windows, from a fixed seed.

    The head is a ridge regression on features: good predictions of varied certainty without training. It is made once
    and shared, as no test may change a source.
    """
    toy = ToySource(classes=classes, channels=channels, length=length)
    rng = np.random.default_rng(7)
    label = np.arange(40 * classes) % classes
    x = torch.tensor(toy.centres[label] + 0.8 * rng.normal(size=(len(label), *toy.shape)), dtype=torch.float32)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(11)
        network = registry.get("encoders", encoder)(channels=channels, classes=classes)
        network.train()
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm1d):
                layer.momentum = None
        network(x)
        z = network.eval().features(x)
        centred = z - z.mean(dim=0)
        gram = centred @ centred.T + 0.1 * len(z) * centred.var() * torch.eye(len(z))
        target = nn.functional.one_hot(torch.tensor(label), classes).float() - 1 / classes
        weight = (centred.T @ torch.linalg.solve(gram, target)).T * sharpness
        network.head.weight.copy_(weight)
        network.head.bias.copy_(-weight @ z.mean(dim=0))
    names = tuple(f"channel {c}" for c in range(channels))
    card = toy_card(
        channels=names,
        encoder=encoder,
        encoder_args=network.encoder_args,
        classes=toy.classes,
        rate_hz=1.0,
        window_s=float(length),
    )
    return TorchSource(network, classes=toy.classes, card=card)


def network_with(model: TorchSource, stats: str) -> nn.Module:
    """Copy a network in plain torch, with the source's or the batch's statistics and trainable norm layers."""
    network = copy.deepcopy(model.module()).eval().requires_grad_(False)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.requires_grad_(True)
            if stats == "batch":
                layer.running_mean = layer.running_var = None
    return network


def trainable(network: nn.Module) -> list[nn.Parameter]:
    return [p for p in network.parameters() if p.requires_grad]


def entropy_of(logits: torch.Tensor) -> torch.Tensor:
    p = torch.exp(logits) / torch.exp(logits).sum(dim=1, keepdim=True)
    return -(p * torch.log(p)).sum(dim=1)


def probabilities(network: nn.Module, x: Array) -> Array:
    with torch.no_grad():
        return torch.softmax(network(torch.from_numpy(x)), dim=1).numpy()


def close(adapter, network: nn.Module, atol: float = 1e-6) -> bool:
    """Return whether an adapter's trained parameters are close to those of a network."""
    expected = dict(network.named_parameters())
    return all(torch.allclose(p, expected[name], atol=atol) for name, p in adapter._trained.items())
