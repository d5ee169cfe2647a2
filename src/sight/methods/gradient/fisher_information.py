"""Fisher information of the norm layers of a source model, which EATA uses."""

import copy

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from sight.methods.gradient.norms import StatsNorm, norm_parameters, replace_batch_norms
from sight.types import Array

#: Maximum number of windows for the Fisher information, and windows of a batch; both are EATA's.
FISHER_WINDOWS, FISHER_BATCH = 2_000, 64


def fisher_information(network: nn.Module, x: Array, *, seed: int = 0) -> dict[str, Array]:
    """Return the diagonal Fisher information of the parameters of norm layers, by kind and name.

    Both kinds average the squared gradient of the cross-entropy towards the predicted class, over at most 2,000 windows
    chosen by `seed`. Keys are "authors.NAME" and "per_window.NAME".

    - "authors", as in EATA's public code: the gradient of the mean over each shuffled batch of 64 windows, under the
      statistics of the batch.
    - "per_window", the definition: the gradient of each window, under the statistics of the source.

    The two differ by orders of magnitude, in either direction: gradients of a batch cancel before they are squared, and
    batch statistics make a network less certain of its training data.
    """
    chosen = np.random.default_rng(seed).permutation(len(x))[:FISHER_WINDOWS]
    found = {"authors": _of_batches(network, x, chosen), "per_window": _of_windows(network, x, np.sort(chosen))}
    return {f"{kind}.{name}": value.cpu().numpy() for kind, own in found.items() for name, value in own.items()}


def _of_batches(network: nn.Module, x: Array, chosen: Array) -> dict[str, Tensor]:
    network = copy.deepcopy(network).requires_grad_(False)
    replace_batch_norms(network, lambda layer: StatsNorm(layer, "batch"))
    parameters = {name: parameter.requires_grad_() for name, parameter in norm_parameters(network).items()}
    batches = [chosen[first : first + FISHER_BATCH] for first in range(0, len(chosen), FISHER_BATCH)]
    total = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for batch in batches:
        logits = network(_on_device(network, x[batch]))
        loss = F.cross_entropy(logits, logits.detach().argmax(dim=1))
        for name, gradient in zip(total, torch.autograd.grad(loss, list(parameters.values())), strict=True):
            total[name] += gradient.square() / len(batches)
    return {name: value.detach() for name, value in total.items()}


@torch.no_grad()  # torch.func.grad differentiates by itself; no second graph is needed
def _of_windows(network: nn.Module, x: Array, chosen: Array) -> dict[str, Tensor]:
    parameters = {name: value.detach() for name, value in norm_parameters(network).items()}

    def loss(values: dict[str, Tensor], window: Tensor) -> Tensor:
        logits: Tensor = functional_call(network, values, (window.unsqueeze(0),))
        return F.cross_entropy(logits, logits.detach().argmax(dim=1))

    gradients = vmap(grad(loss), in_dims=(None, 0))
    total = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for batch in np.array_split(chosen, -(-len(chosen) // FISHER_BATCH)):
        for name, gradient in gradients(parameters, _on_device(network, x[batch])).items():
            total[name] += gradient.square().sum(dim=0) / len(chosen)
    return total


def _on_device(network: nn.Module, x: Array) -> Tensor:
    return torch.from_numpy(x).to(next(network.parameters()).device)
