"""Proof that the copy of a network computes with its own parameters.

``copy.deepcopy`` copies a function as it is: a model whose encoder is a function that refers to the model itself
(``model.encode = lambda x: model.body(x)``) has copies that still compute with the original.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn


def check_private_copy(method: str, original: nn.Module, network: Any, x: Tensor) -> None:
    """Raise ValueError if a copy of `original` computes the features of windows with the original's parameters."""
    with _calls(original) as called, _all_trainable(network), torch.enable_grad():
        z: Tensor = network.features(x)
        head = {id(parameter) for parameter in network.head.parameters()}
        encoder = [parameter for parameter in network.parameters() if id(parameter) not in head]
        own = torch.autograd.grad(z.sum(), encoder, allow_unused=True) if encoder and z.requires_grad else ()
    if called or (encoder and all(gradient is None for gradient in own)):
        raise ValueError(
            f"{method}: expected a network whose copy computes with its own parameters, but the encoder refers to the "
            f"original, so that adaptation would have no effect; make the encoder a submodule or a method of the class "
            f"instead of a function assigned to the model (nothing was changed)."
        )


@contextmanager
def _calls(network: nn.Module) -> Iterator[list[nn.Module]]:
    called: list[nn.Module] = []
    thread = get_ident()

    def note(module: nn.Module, _: Any) -> None:
        if get_ident() == thread:
            called.append(module)

    hooks = [module.register_forward_pre_hook(note) for module in network.modules()]
    try:
        yield called
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _all_trainable(network: nn.Module) -> Iterator[None]:
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    network.requires_grad_(True)
    try:
        yield
    finally:
        network.requires_grad_(False)
        for parameter in trained:
            parameter.requires_grad_(True)
