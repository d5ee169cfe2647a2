"""A source from anybody's torch module, as long as its last layer is linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from sight.ops import choices
from sight.sources.torch import TorchSource
from sight.types import Array, SourceStats


def wrap(
    model: nn.Module,
    *,
    encoder: str = "features",
    head: str = "classifier",
    classes: Sequence[str] | None = None,
    stats: SourceStats | None = None,
) -> TorchSource:
    """Make a source of any torch module with a linear last layer.

    Parameters
    ----------
    model
        Left as it is, but for evaluation mode.
    encoder
        Name of the submodule or method that turns windows into what the head receives; dots reach inside.
    head
        Name of the `torch.nn.Linear` that gives the logits.
    classes
        Names of the classes; "class 0" and so on where nobody says.
    stats
        What training left, for methods that can use it.

    Notes
    -----
    The first window encoded is also sent through the model itself: where ``head(encoder(x))`` answers otherwise, the
    cut is wrong, and an error says so.

    Examples
    --------
    >>> from collections import OrderedDict
    >>> flat = nn.Sequential(nn.Flatten(), nn.Linear(60, 8), nn.ReLU())
    >>> model = nn.Sequential(OrderedDict(features=flat, classifier=nn.Linear(8, 3)))
    >>> z, p = wrap(model, classes=("sit", "walk", "run")).encode(np.zeros((4, 3, 20)))
    >>> z.shape, p.shape
    ((4, 8), (4, 3))
    """
    network = Wrapped(model, encoder, head)
    names = classes or [f"class {k}" for k in range(network.head.out_features)]
    return _WrappedSource(network, classes=names, stats=stats)


class Wrapped(nn.Module):
    """A foreign model under the names that everything else uses: `features`, `head`, `forward`."""

    def __init__(self, model: nn.Module, encoder: str, head: str) -> None:
        super().__init__()
        self.model = model
        self.encoder_name, self.head_name = encoder, head
        last = _named(model, head, "head")
        if not isinstance(last, nn.Linear):
            raise TypeError(
                f"Expected head {head!r} to be a torch.nn.Linear, got {type(last).__name__}; name the last layer."
            )
        if not callable(_named(model, encoder, "encoder")):
            raise TypeError(f"Expected encoder {encoder!r} to be a submodule or a method, got what cannot be called.")

    @property
    def head(self) -> nn.Linear:
        """The linear layer of the model; looked up, for registered twice it would be twice in the state dict."""
        return cast(nn.Linear, _named(self.model, self.head_name, "head"))

    def features(self, x: Tensor) -> Tensor:
        """Windows (B, C, T) to features (B, D)."""
        z: Tensor = _named(self.model, self.encoder_name, "encoder")(x)
        if z.ndim != 2 or z.shape[1] != self.head.in_features:
            raise ValueError(
                f"Expected encoder {self.encoder_name!r} to give (B, {self.head.in_features}) as the head wants, "
                f"got {tuple(z.shape)}; {self.remedy}."
            )
        return z

    def forward(self, x: Tensor) -> Tensor:
        """Windows (B, C, T) to logits (B, K)."""
        logits: Tensor = self.head(self.features(x))
        return logits

    @property
    def remedy(self) -> str:
        """What to do about a wrong cut."""
        return f"name the submodule or method whose answer goes straight into {self.head_name!r}"


class _WrappedSource(TorchSource):
    """Compares the cut with the uncut model before the first answer."""

    _proved = False

    def _check(self, x: Array) -> None:
        super()._check(x)
        if not self._proved and len(x):
            self._prove(torch.from_numpy(np.array(x[:1], dtype=np.float32)).to(self.device))

    @torch.inference_mode()
    def _prove(self, x: Tensor) -> None:
        network = cast(Wrapped, self.network)
        logits, whole = network(x), network.model(x)
        answers = (logits, logits.softmax(dim=1), logits.log_softmax(dim=1))  # a model may end in a softmax
        if not any(torch.allclose(answer, whole, rtol=1e-3, atol=1e-4) for answer in answers):
            raise ValueError(
                f"{network.head_name}({network.encoder_name}(x)) does not give what the model itself answers, "
                f"so the cut is wrong; {network.remedy}."
            )
        self._proved = True


def _named(model: nn.Module, path: str, role: str) -> Any:
    found: Any = model
    for name in path.split("."):
        if not hasattr(found, name):
            submodules = [known for known, _ in model.named_modules() if known]
            methods = [known for known in vars(type(model)) if not known.startswith("_")]
            raise ValueError(f"The model has no {role} {path!r}; {choices(path, submodules + methods)}")
        found = getattr(found, name)
    return found
