"""Source model for a torch module that was not built by sight; its last layer must be linear."""

import inspect
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from sight._util.text import choices
from sight.models.card import ModelCard
from sight.models.torch import TorchSource
from sight.types import Array, SourceStats

#: Names of the parts of a model that are used if none are given.
DEFAULTS = {"encoder": "features", "head": "classifier"}


class WrappedNetwork(nn.Module):
    """A model under the names that `TorchSource` uses: `features`, `head`, `forward`; see `sight.wrap`."""

    def __init__(self, model: nn.Module, encoder: Any, head: Any, time_first: bool = False) -> None:
        super().__init__()
        self.model = model
        encoder, head = _part_name(model, encoder, "encoder"), _part_name(model, head, "head")
        self.encoder_name, self.head_name, self.time_first = encoder, head, time_first
        last = _resolve(model, head, "head")
        if not isinstance(last, nn.Linear):
            raise TypeError(
                f"Expected head {head!r} to be a torch.nn.Linear, got {type(last).__name__}; name the last layer. "
                f"Methods need logits = weight · features + bias: write a cosine head as a Linear whose rows have the "
                f"length of its scale, and normalise the features in the encoder."
            )
        if not callable(_resolve(model, encoder, "encoder")):
            raise TypeError(f"Expected encoder {encoder!r} to be a submodule or a method, got a value.")

    @property
    def head(self) -> nn.Linear:
        """Linear layer of the model; looked up, because a second registration would duplicate it in the state dict."""
        return cast(nn.Linear, _resolve(self.model, self.head_name, "head"))

    def oriented(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2) if self.time_first else x

    def features(self, x: Tensor) -> Tensor:
        z: Any = _resolve(self.model, self.encoder_name, "encoder")(self.oriented(x))
        if not isinstance(z, Tensor):
            raise TypeError(
                f"Expected encoder {self.encoder_name!r} to return one tensor (B, {self.head.in_features}), got "
                f"{_describe(z)}; name a method of the model that returns the features alone."
            )
        if z.ndim != 2 or z.shape[1] != self.head.in_features:
            raise ValueError(
                f"Expected encoder {self.encoder_name!r} to return (B, {self.head.in_features}), the input of the "
                f"head, got {tuple(z.shape)}; {self.remedy}."
            )
        return z

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits

    @property
    def remedy(self) -> str:
        return f"name the submodule or method whose output is the input of {self.head_name!r}"


class WrappedSource(TorchSource):
    """Source model that compares the split model with the whole one, on the first window it gets."""

    network: WrappedNetwork

    def __init__(
        self,
        model: nn.Module,
        *,
        encoder: Any,
        head: Any,
        time_first: bool = False,
        classes: Sequence[str] | None = None,
        stats: SourceStats | None = None,
    ) -> None:
        network = WrappedNetwork(model, encoder, head, time_first)
        names = classes or [f"class {k}" for k in range(network.head.out_features)]
        super().__init__(network, classes=names, stats=stats)
        self._split_checked = False

    def describe(self, card: ModelCard) -> None:
        """Set the card, and try the model with a random window."""
        self.card = card
        self._check(np.random.default_rng(0).normal(size=(1, len(card.channels), card.length)))

    def save(self, path: str | Path) -> NoReturn:
        raise TypeError(
            f"A wrapped network cannot be rebuilt from a checkpoint such as {path}; write it as ONNX with "
            f"sight.export(source, 'model.onnx')."
        )

    def _check(self, x: Array) -> None:
        super()._check(x)
        if not self._split_checked and len(x):
            self._check_split(torch.from_numpy(np.array(x[:1], dtype=np.float32)).to(self.device))
            self._split_checked = True

    @torch.inference_mode()
    def _check_split(self, x: Tensor) -> None:
        network = self.network
        try:
            whole: Any = network.model(network.oriented(x))
        except (RuntimeError, ValueError, IndexError) as error:
            shape = "(B, T, C)" if network.time_first else "(B, C, T)"
            other = "remove time_first=True" if network.time_first else "pass time_first=True if it takes (B, T, C)"
            raise ValueError(
                f"The model cannot process windows {shape} = {tuple(network.oriented(x).shape)}: "
                f"{' '.join(str(error).split())[:200]}; {other}, or check rate, window length and channels."
            ) from None
        if not isinstance(whole, Tensor):
            raise TypeError(
                f"Expected the model to return logits or probabilities (B, K), got {_describe(whole)}; "
                f"wrap a module whose forward returns the logits alone."
            )
        features, logits = network.features(x), network(x)
        outputs = (logits, logits.softmax(dim=1), logits.log_softmax(dim=1))  # the model may end in a softmax
        if whole.shape == logits.shape and any(torch.allclose(y, whole, rtol=1e-3, atol=1e-4) for y in outputs):
            return
        differs = f"{network.head_name}({network.encoder_name}(x)) differs from the output of the model"
        head = network.head
        cosines = F.normalize(features) @ F.normalize(head.weight).T
        if (factor := _ratio(logits, whole)) is not None:
            raise ValueError(
                f"{differs} by the factor {factor:.4g}, a temperature after the head; multiply weight and bias of "
                f"{network.head_name!r} by it, and remove it from the model."
            )
        if (factor := _ratio(cosines, whole)) is not None:
            raise ValueError(
                f"{differs}: it is {factor:.4g} times the cosine of features and weights; normalise the features "
                f"in the encoder, set the rows of {network.head_name!r} to length {factor:.4g}, and its bias to 0."
            )
        raise ValueError(f"{differs}, so the model is split at the wrong place; {network.remedy}.")


def _ratio(ours: Tensor, whole: Tensor) -> float | None:
    if ours.shape != whole.shape:
        return None
    factor = float((ours * whole).sum() / (ours * ours).sum().clamp_min(1e-12))
    return factor if abs(factor) > 1e-3 and torch.allclose(factor * ours, whole, rtol=1e-3, atol=1e-4) else None


def _describe(value: object) -> str:
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, tuple | list) else type(value).__name__


def _part_name(model: nn.Module, part: Any, role: str) -> str:
    """Return the name of a part of a model that is given by name, as module, as bound method or as None.

    The leading layers of a `Sequential`, as in ``model[:-1]``, have the name "[:n]". Parts are looked up by name, so
    that a copy of the model uses its own.
    """
    layers = list(model.named_children()) if isinstance(model, nn.Sequential) else []
    if part is None:
        usual = DEFAULTS[role]
        if hasattr(model, usual) or not (layers and isinstance(layers[-1][1], nn.Linear)):
            return usual
        return layers[-1][0] if role == "head" else f"[:{len(layers) - 1}]"
    if isinstance(part, str):
        return part
    if getattr(part, "__self__", None) is model:
        return str(part.__name__)
    for name, module in model.named_modules():
        if name and module is part:
            return str(name)
    if isinstance(part, nn.Sequential) and layers and list(part) == [layer for _, layer in layers[: len(part)]]:
        return f"[:{len(part)}]"
    raise ValueError(
        f"Expected the {role} to be a part of the model, got a {type(part).__name__} that is none; give a submodule or "
        f"its name, for the encoder also a method; {choices('', _part_names(model, role))}"
    )


def _part_names(model: nn.Module, role: str) -> list[str]:
    """Return the submodules of a model, and for the encoder the methods that its class adds to those of torch."""
    own = [cls for cls in type(model).__mro__ if not cls.__module__.startswith("torch.")]
    defined = {key: value for cls in reversed(own) for key, value in vars(cls).items() if cls is not object}
    methods = [
        key for key, value in defined.items() if inspect.isfunction(value) and key[0] != "_" and key != "forward"
    ]
    return [name for name, _ in model.named_modules() if name] + (methods if role == "encoder" else [])


def _resolve(model: nn.Module, path: str, role: str) -> Any:
    """Return the attribute of a model at a dotted path, or the leading layers of a Sequential at "[:n]"."""
    if path.startswith("[:") and isinstance(model, nn.Sequential):
        leading = list(model)[: int(path[2:-1])]
        return lambda x: reduce(lambda value, layer: layer(value), leading, x)
    value: Any = model
    for name in path.split("."):
        if not hasattr(value, name):
            raise ValueError(f"The model has no {role} {path!r}; {choices(path, _part_names(model, role))}")
        value = getattr(value, name)
    return value
