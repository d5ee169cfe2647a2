"""Untrained networks of every kind, with card and statistics."""

from __future__ import annotations

import numpy as np
import torch

from sight import registry
from sight.models.torch import TorchSource
from sight.testing import toy_card
from sight.types import SourceStats

NAMES = list(registry.TABLES["encoders"])
CLASSES = ("lie", "sit", "walk", "run")


def make(name: str, *, stats: bool = True, fill: bool = False) -> TorchSource:
    """Return an untrained network with a card, statistics and non-trivial norm layers."""
    torch.manual_seed(3)
    network = registry.get("encoders", name)(channels=3, classes=4)
    network(torch.randn(16, 3, 1 if name == "mlp" else 40))  # moves running statistics
    mean, std = np.float32([0.1, -0.2, 9.81]), np.float32([0.5, 1.5, 3.0])
    card = toy_card(
        encoder=name,
        encoder_args=network.encoder_args,
        classes=CLASSES,
        rate_hz=20.0,
        window_s=0.05 if name == "mlp" else 2.0,
        mean=tuple(mean.tolist()),
        std=tuple(std.tolist()),
        fill=(0.5, 0.25, 9.0) if fill else None,
        dataset="made up",
        training={"epochs": 0},
    )
    network.normalise(mean, std, card.fill)
    dims, rng = network.head.in_features, np.random.default_rng(0)
    left = SourceStats(
        prior=np.float32([0.1, 0.2, 0.3, 0.4]),
        feature_mean=rng.normal(size=dims).astype(np.float32),
        class_means=rng.normal(size=(4, dims)).astype(np.float32),
        count=77,
        subjects=5,
    )
    return TorchSource(network, classes=CLASSES, card=card, stats=left if stats else None)


def windows(source: TorchSource, n: int = 9) -> np.ndarray:
    """Return random windows of the shape that a source takes."""
    return np.random.default_rng(5).normal(size=(n, 3, source.card.length)).astype(np.float32)
