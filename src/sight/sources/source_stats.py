"""Statistics of the training data that adaptation methods use; no training data is kept."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor
from torch.func import functional_call, grad, vmap

from sight.methods._norms import norm_parameters
from sight.sources.torch import TorchSource
from sight.types import Array, SourceStats

#: Maximum number of windows for the Fisher information.
FISHER_WINDOWS = 2_000


def compute_stats(source: TorchSource, x: Array, y: Array) -> SourceStats:
    """Return class frequencies and mean features of labelled windows (N, C, T) with labels (N,)."""
    z = source.encode(x)[0].astype(np.float64)
    one_hot = np.eye(len(source.classes))[y]  # (N, K)
    count = one_hot.sum(axis=0)
    feature_mean = z.mean(axis=0)
    class_means = np.where(count[:, None] > 0, one_hot.T @ z / np.maximum(count, 1)[:, None], feature_mean)
    return SourceStats(
        prior=(count / count.sum()).astype(np.float32),
        feature_mean=feature_mean.astype(np.float32),
        class_means=class_means.astype(np.float32),
        count=len(y),
    )


@torch.no_grad()  # torch.func.grad differentiates by itself; no second graph is needed
def fisher_information(source: TorchSource, x: Array, *, seed: int = 0) -> dict[str, Array]:
    """Return the diagonal Fisher information of each parameter of a norm layer, by name.

    It is the mean over windows of the squared gradient of the cross-entropy towards the predicted class, over at most
    2,000 windows chosen by `seed`.
    """
    network = source.network
    parameters = {name: value.detach() for name, value in norm_parameters(network).items()}
    chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[:FISHER_WINDOWS])

    def loss(values: dict[str, Tensor], window: Tensor) -> Tensor:
        logits: Tensor = functional_call(network, values, (window.unsqueeze(0),))
        return F.cross_entropy(logits, logits.detach().argmax(dim=1))

    gradients = vmap(grad(loss), in_dims=(None, 0))
    total = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for batch in np.array_split(chosen, -(-len(chosen) // 64)):
        for name, gradient in gradients(parameters, torch.from_numpy(x[batch]).to(source.device)).items():
            total[name] += gradient.square().sum(dim=0)
    return {name: (value / len(chosen)).cpu().numpy() for name, value in total.items()}
