"""Source model for a torch module that was not built by sight; its last layer must be linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from sight.ops import choices
from sight.sources.torch import TorchSource
from sight.types import Array, SourceStats


class WrappedNetwork(nn.Module):
    """A model under the names that `TorchSource` uses: `features`, `head`, `forward`; see `sight.wrap`."""

    def __init__(self, model: nn.Module, encoder: str, head: str) -> None:
        super().__init__()
        self.model = model
        self.encoder_name, self.head_name = encoder, head
        last = _resolve(model, head, "head")
        if not isinstance(last, nn.Linear):
            raise TypeError(
                f"Expected head {head!r} to be a torch.nn.Linear, got {type(last).__name__}; name the last layer."
            )
        if not callable(_resolve(model, encoder, "encoder")):
            raise TypeError(f"Expected encoder {encoder!r} to be a submodule or a method, got a value.")

    @property
    def head(self) -> nn.Linear:
        """Linear layer of the model; looked up, because a second registration would duplicate it in the state dict."""
        return cast(nn.Linear, _resolve(self.model, self.head_name, "head"))

    def features(self, x: Tensor) -> Tensor:
        """Map windows (B, C, T) to features (B, D)."""
        z: Tensor = _resolve(self.model, self.encoder_name, "encoder")(x)
        if z.ndim != 2 or z.shape[1] != self.head.in_features:
            raise ValueError(
                f"Expected encoder {self.encoder_name!r} to return (B, {self.head.in_features}), the input of the "
                f"head, got {tuple(z.shape)}; {self.remedy}."
            )
        return z

    def forward(self, x: Tensor) -> Tensor:
        """Map windows (B, C, T) to logits (B, K)."""
        logits: Tensor = self.head(self.features(x))
        return logits

    @property
    def remedy(self) -> str:
        """Advice for a model that is split at the wrong place."""
        return f"name the submodule or method whose output is the input of {self.head_name!r}"


class WrappedSource(TorchSource):
    """Source model that compares the split model with the whole one on the first window it encodes."""

    network: WrappedNetwork

    def __init__(
        self, model: nn.Module, *, encoder: str, head: str, classes: Sequence[str] | None, stats: SourceStats | None
    ) -> None:
        network = WrappedNetwork(model, encoder, head)
        names = classes or [f"class {k}" for k in range(network.head.out_features)]
        super().__init__(network, classes=names, stats=stats)
        self._split_checked = False

    def _check(self, x: Array) -> None:
        super()._check(x)
        if not self._split_checked and len(x):
            self._check_split(torch.from_numpy(np.array(x[:1], dtype=np.float32)).to(self.device))
            self._split_checked = True

    @torch.inference_mode()
    def _check_split(self, x: Tensor) -> None:
        network = self.network
        logits, expected = network(x), network.model(x)
        outputs = (logits, logits.softmax(dim=1), logits.log_softmax(dim=1))  # the model may end in a softmax
        if not any(torch.allclose(output, expected, rtol=1e-3, atol=1e-4) for output in outputs):
            raise ValueError(
                f"{network.head_name}({network.encoder_name}(x)) differs from the output of the model, "
                f"so the model is split at the wrong place; {network.remedy}."
            )


def _resolve(model: nn.Module, path: str, role: str) -> Any:
    """Return the attribute of a model at a dotted path."""
    value: Any = model
    for name in path.split("."):
        if not hasattr(value, name):
            submodules = [key for key, _ in model.named_modules() if key]
            methods = [key for key in vars(type(model)) if not key.startswith("_")]
            raise ValueError(f"The model has no {role} {path!r}; {choices(path, submodules + methods)}")
        value = getattr(value, name)
    return value
