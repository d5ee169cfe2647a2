"""Normalisation layers of an adapting network: finding them, and choosing the statistics they use.

BatchNorm of one-dimensional networks reduces over windows and time. Layers are replaced by ones with the same
parameter names, so that a stored network still loads. LayerNorm and GroupNorm have no statistics to choose.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sight.types import Array

Stats: TypeAlias = Literal["source", "batch", "ema", "mix"]


class StatsNorm(nn.Module):
    """Batch normalisation with a choice of statistics, always in evaluation mode; shares the layer's parameters.

    The statistics are "source": as trained; "batch": of the present windows; "mix": `rate` of the batch and 1 - `rate`
    of the source; "ema": stored ones, which move by `rate` towards each batch that the method learns from, with
    gradient (RoTTA's robust batch normalisation). Variances of a batch are biased. A batch with one value per channel
    has no variance; trained statistics are used.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, layer: _BatchNorm, stats: Stats = "source", rate: float = 0.1) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps
        for name, buffer in layer.named_buffers():
            self.register_buffer(name, buffer)
        self.stats, self.rate = stats, rate
        self.learning = False

    def forward(self, x: Tensor) -> Tensor:
        single = x.numel() == x.shape[1]
        if single or self.stats == "source" or (self.stats == "ema" and not self.learning):
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        if self.stats == "batch":
            return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)
        mean, var = batch_moments(x, unbiased=False)
        mean = (1 - self.rate) * self.running_mean + self.rate * mean
        var = (1 - self.rate) * self.running_var + self.rate * var
        if self.stats == "ema":
            self.running_mean.copy_(mean.detach())
            self.running_var.copy_(var.detach())
        return self._normalised(x, _column(mean, x), _column(var, x))

    def _normalised(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        scale = torch.rsqrt(var + self.eps)
        y = (x - mean) * scale
        return y if self.weight is None else y * _column(self.weight, x) + _column(self.bias, x)


class RecordingNorm(StatsNorm):
    """Batch normalisation as trained that keeps the moments of its last input.

    `moments` (2, B, C) are mean and mean square over time of each window.
    """

    moments: Tensor = torch.empty(2, 0, 0)

    def forward(self, x: Tensor) -> Tensor:
        time = tuple(range(3, x.ndim + 1))
        pair = torch.stack((x, x * x))
        self.moments = pair.mean(dim=time) if time else pair
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


class InstanceAwareNorm(StatsNorm):
    """NOTE's instance-aware batch normalisation: stored statistics, corrected for windows that are far from them.

    A window is corrected for what exceeds `k` standard errors of mean and variance; windows of one sample are not.
    While learning, the statistics are the batch's, and the stored ones move towards them by `rate`.
    """

    def __init__(self, layer: _BatchNorm, k: float = 4.0, rate: float = 0.01) -> None:
        super().__init__(layer, "ema", rate)
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        mean, var = (_column(moment, x) for moment in self._moments(x))
        length = x.shape[2] if x.ndim == 3 else 1
        if length > 1:
            own_mean, own_var = x.mean(dim=2, keepdim=True), x.var(dim=2, keepdim=True, unbiased=True)
            mean_error = torch.sqrt((var + self.eps) / length)
            var_error = (var + self.eps) * (2 / (length - 1)) ** 0.5
            mean = mean + _beyond(own_mean - mean, self.k * mean_error)
            var = torch.relu(var + _beyond(own_var - var, self.k * var_error))
        return self._normalised(x, mean, var)

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if not self.learning or x.numel() == x.shape[1]:
            return self.running_mean, self.running_var
        mean, var = batch_moments(x, unbiased=True)
        self.running_mean.lerp_(mean.detach(), self.rate)
        self.running_var.lerp_(var.detach(), self.rate)
        return mean, var


def replace_batch_norms(network: nn.Module, make: Callable[[_BatchNorm], nn.Module]) -> int:
    """Replace each batch normalisation with statistics by ``make(layer)``; return how many were replaced."""
    layers = [
        (parent, name, layer)
        for parent in network.modules()
        for name, layer in parent.named_children()
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None
    ]
    for parent, name, layer in layers:
        setattr(parent, name, make(layer))
    return len(layers)


def recording_copy(network: nn.Module) -> tuple[nn.Module, dict[str, RecordingNorm]]:
    """Return a copy of a network whose batch normalisations record moments, and these layers by name.

    The copy has its own statistics and shares the parameters, which must not be changed.
    """
    shared = copy.deepcopy(network, {id(parameter): parameter for parameter in network.parameters()}).eval()
    replace_batch_norms(shared, RecordingNorm)
    return shared, {name: layer for name, layer in shared.named_modules() if isinstance(layer, RecordingNorm)}


class RecordingEncoder:
    """Encoder and head with given statistics of the named batch normalisations; see `sight.base.NormSource`.

    The network, with ``features(x)`` and ``head``, is copied except for its parameters.
    """

    def __init__(self, network: nn.Module, names: Iterable[str]) -> None:
        self._network: Any
        self._network, found = recording_copy(network)
        self._layers = [found[name] for name in names]
        # All layers read their statistics from one tensor (2, C), which is written once per window.
        trained = [torch.stack((layer.running_mean, layer.running_var)) for layer in self._layers]
        self._statistics = torch.cat(trained, dim=1)
        parts = torch.split(self._statistics, [part.shape[1] for part in trained], dim=1)
        for layer, part in zip(self._layers, parts, strict=True):
            layer.running_mean, layer.running_var = part

    @torch.inference_mode()
    def __call__(self, x: Array, statistics: Array) -> tuple[Array, Array, Array]:
        self._statistics.copy_(torch.from_numpy(statistics))
        z = self._network.features(torch.as_tensor(x, dtype=torch.float32, device=self._statistics.device))
        p = torch.softmax(self._network.head(z), dim=1)
        moments = torch.cat([layer.moments for layer in self._layers], dim=2)[:, 0]
        return z.cpu().numpy(), p.cpu().numpy(), moments.cpu().numpy()


def norm_layers(network: nn.Module) -> dict[str, nn.Module]:
    """Return the normalisation layers with parameters by name, in the order of the network."""
    kinds = (StatsNorm, _BatchNorm, nn.LayerNorm, nn.GroupNorm)
    return {
        name: layer
        for name, layer in network.named_modules()
        if isinstance(layer, kinds) and next(layer.parameters(), None) is not None
    }


def norm_parameters(network: nn.Module) -> dict[str, nn.Parameter]:
    return {f"{name}.{key}": p for name, layer in norm_layers(network).items() for key, p in layer.named_parameters()}


@contextmanager
def learning(network: nn.Module) -> Iterator[None]:
    layers = [layer for layer in network.modules() if isinstance(layer, StatsNorm)]
    for layer in layers:
        layer.learning = True
    try:
        yield
    finally:
        for layer in layers:
            layer.learning = False


def batch_moments(x: Tensor, unbiased: bool) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each channel over windows and time, (C,)."""
    dims = [0, *range(2, x.ndim)]
    return x.mean(dim=dims), x.var(dim=dims, unbiased=unbiased)


def _beyond(value: Tensor, tolerance: Tensor) -> Tensor:
    return torch.sign(value) * torch.relu(value.abs() - tolerance)


def _column(values: Tensor, x: Tensor) -> Tensor:
    return values.reshape(-1, *(1,) * (x.ndim - 2))
