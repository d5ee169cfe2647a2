"""Toy source, network, card and stream for tests and examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sight.methods.ops import softmax
from sight.models.card import ModelCard
from sight.registry import get
from sight.types import Array, SourceStats, Windows

if TYPE_CHECKING:
    from sight.models.torch import TorchSource


class ToySource:
    """Nearest-mean classifier of K classes on a random projection of windows (C, T) to D features; numpy only.

    Examples
    --------
    >>> source = ToySource()
    >>> z, p = source.encode(toy_stream(source, n=7).x)
    >>> z.shape, p.shape
    ((7, 16), (7, 5))
    """

    def __init__(
        self,
        classes: int = 5,
        channels: int = 3,
        length: int = 20,
        dims: int = 16,
        seed: int = 0,
        dtype: Any = "float32",
    ) -> None:
        rng = np.random.default_rng(seed)
        self.shape = (channels, length)
        self.centres = rng.normal(size=(classes, channels, length))
        self.projection = rng.normal(size=(channels * length, dims)).astype(dtype) / np.sqrt(channels * length)
        self.classes = tuple(f"activity {k}" for k in range(classes))
        means = self._features(self.centres).astype(dtype)
        self.weight: Array = 2 * (means - means.mean(axis=0))
        self.bias: Array = -(means * means).sum(axis=1)
        self.bias -= self.bias.mean()
        self.card: ModelCard | None = None
        self.stats: SourceStats | None = SourceStats(
            prior=np.full(classes, 1 / classes, dtype), feature_mean=means.mean(axis=0), class_means=means, count=1000
        )

    def _features(self, x: Array) -> Array:
        features: Array = np.tanh(x.reshape(len(x), -1).astype(self.projection.dtype) @ self.projection)
        return features

    def encode(self, x: Array) -> tuple[Array, Array]:
        if x.shape[1:] != self.shape:
            raise ValueError(f"Expected windows (B, {self.shape[0]}, {self.shape[1]}), got {x.shape}.")
        z = self._features(x)
        return z, softmax(z @ self.weight.T + self.bias)

    def module(self) -> NoReturn:
        raise TypeError("The toy source has no network; use toy_network() for methods that need gradients.")


def toy_stream(source: ToySource | None = None, n: int = 200, seed: int = 1, noise: float = 1.0) -> Windows:
    """Return windows of a wearer who differs a little from the source; activities last about 12 windows.

    Examples
    --------
    >>> windows = toy_stream(n=50)
    >>> windows.x.shape, bool((windows.label >= 0).all())
    ((50, 3, 20), True)
    """
    source = source or ToySource()
    rng = np.random.default_rng(seed)
    label = np.zeros(n, dtype=np.int64)
    for t in range(1, n):
        label[t] = rng.integers(len(source.classes)) if rng.random() < 1 / 12 else label[t - 1]
    shift = 0.3 * rng.normal(size=source.shape)
    x = source.centres[label] + shift + noise * rng.normal(size=(n, *source.shape))
    return Windows(
        x=x.astype(np.float32),
        time_s=np.arange(n, dtype=np.float64),
        label=label,
        gap_before_s=np.zeros(n),
        window_s=2.0,
        stride_s=1.0,
    )


def toy_card(**changes: Any) -> ModelCard:
    """Return a model card for the windows of `toy_stream`, with some fields changed.

    Units, mean, std and the arguments of the encoder follow the channels and classes unless they are given.
    """
    fields: dict[str, Any] = {"classes": ToySource().classes, "channels": ("x", "y", "z")} | changes
    channels = len(fields["channels"])
    defaults: dict[str, Any] = {
        "encoder": "cnn",
        "encoder_args": {"channels": channels, "classes": len(fields["classes"])},
        "units": ("g",) * channels,
        "rate_hz": 10.0,
        "window_s": 2.0,
        "stride_s": 1.0,
        "mean": (0.0,) * channels,
        "std": (1.0,) * channels,
    }
    return ModelCard(**defaults | fields)


def toy_network(encoder: str = "cnn", classes: int = 5, seed: int = 0) -> TorchSource:
    """Return a torch source for the windows of `toy_stream`: a random encoder with a nearest-mean head.

    Torch's global generator is not changed.
    """
    import torch

    from sight.models.source_statistics import source_stats
    from sight.models.torch import TorchSource

    toy = ToySource(classes=classes)
    rng = np.random.default_rng(seed)
    label = np.tile(np.arange(classes), 256 // classes)
    x = torch.from_numpy((toy.centres[label] + rng.normal(size=(len(label), *toy.shape))).astype(np.float32))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        network = get("encoders", encoder)(channels=toy.shape[0], classes=classes)
        for _ in range(20):  # lets the statistics of batch normalisation converge
            network.train().features(x)
        z = network.eval().features(x).numpy()
        means = np.stack([z[label == k].mean(axis=0) for k in range(classes)])
        scale = 5 / ((means - means.mean(axis=0)) ** 2).sum(axis=1).mean()
        squares = (means * means).sum(axis=1)
        network.head.weight.copy_(torch.from_numpy(scale * 2 * (means - means.mean(axis=0))))
        network.head.bias.copy_(torch.from_numpy(scale * (squares.mean() - squares)))
    card = toy_card(encoder=encoder, encoder_args=network.encoder_args, classes=toy.classes)
    source = TorchSource(network, classes=toy.classes, card=card)
    source.stats = source_stats(source, x.numpy(), label, subjects=1)
    return source
