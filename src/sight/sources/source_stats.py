"""What training leaves for adaptation: figures of the source, never its data."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import Tensor
from torch.func import functional_call, grad, vmap

from sight.methods._norms import norm_parameters
from sight.sources.torch import TorchSource
from sight.types import Array, SourceStats

#: Windows that the Fisher information is averaged over, at most.
FISHER_WINDOWS = 2_000


def source_stats(source: TorchSource, x: Array, y: Array) -> SourceStats:
    """Count classes and average features over labelled windows (N, C, T) with labels (N,)."""
    z = source.encode(x)[0].astype(np.float64)
    one_hot = np.eye(len(source.classes))[y]  # (N, K)
    count = one_hot.sum(axis=0)
    overall = z.mean(axis=0)
    means = np.where(count[:, None] > 0, one_hot.T @ z / np.maximum(count, 1)[:, None], overall)
    return SourceStats(
        prior=(count / count.sum()).astype(np.float32),
        feature_mean=overall.astype(np.float32),
        class_means=means.astype(np.float32),
        count=len(y),
    )


@torch.no_grad()  # the transform below differentiates by itself; no second graph is wanted
def fisher_information(source: TorchSource, x: Array, *, seed: int = 0) -> dict[str, Array]:
    """Mean squared gradient of the loss towards the network's own answers, for each parameter of a norm layer.

    Gradients are taken window by window, over at most 2,000 windows chosen by `seed`.
    """
    network, chosen = source.network, norm_parameters(source.network)
    parameters = {name: value.detach() for name, value in chosen.items()}
    few = np.sort(np.random.default_rng(seed).permutation(len(x))[:FISHER_WINDOWS])

    def loss(values: dict[str, Tensor], window: Tensor) -> Tensor:
        logits: Tensor = functional_call(network, values, (window.unsqueeze(0),))
        return F.cross_entropy(logits, logits.detach().argmax(dim=1))

    gradients = vmap(grad(loss), in_dims=(None, 0))
    total = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for piece in np.array_split(few, -(-len(few) // 64)):
        for name, each in gradients(parameters, torch.from_numpy(x[piece]).to(source.device)).items():
            total[name] += each.square().sum(dim=0)
    return {name: (value / len(few)).cpu().numpy() for name, value in total.items()}
