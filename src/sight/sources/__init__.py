"""Source models (trained classifiers): torch networks, ONNX files and cached features, with one interface."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sight.base import Source
from sight.models import resolve
from sight.sources.features import FeatureSource
from sight.sources.inspection import inspect
from sight.types import SourceStats

if TYPE_CHECKING:
    from sight.sources.torch import TorchSource

__all__ = ["FeatureSource", "inspect", "load", "wrap"]


def load(model: str | Path) -> Source:
    """Load a source model.

    Parameters
    ----------
    model
        Name of a bundled model such as "wrist" (see `sight.models.names`), or the path of an exported file (.onnx) or
        a checkpoint (.safetensors, requires torch).

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If there is no bundled model of that name, or the file is not a model of sight.

    Examples
    --------
    >>> source = load("wrist")
    >>> source.card.channels
    ('x', 'y', 'z')
    """
    path = resolve(model)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}; check the path.")
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        from sight.sources.onnx import OnnxSource

        return OnnxSource(path)
    if suffix == ".safetensors":
        return _import_torch_module("torch").TorchSource.load(path)  # type: ignore[no-any-return]
    hint = "load it with torch and use sight.wrap(model)" if suffix in (".pt", ".pth", ".ckpt") else "check the path"
    raise ValueError(f"Expected a model file that ends with .safetensors or .onnx, got {path.name!r}; {hint}.")


def wrap(
    model: Any,
    *,
    encoder: str = "features",
    head: str = "classifier",
    classes: Sequence[str] | None = None,
    stats: SourceStats | None = None,
) -> TorchSource:
    """Return a source model for a torch module whose last layer is linear.

    Parameters
    ----------
    model
        A `torch.nn.Module`; put in evaluation mode, otherwise unchanged.
    encoder
        Name of the submodule or method that maps windows to the input of the head; dots address nested modules.
    head
        Name of the `torch.nn.Linear` that returns the logits.
    classes
        Names of the classes; "class 0", "class 1", ... if None.
    stats
        Statistics of the training data, for methods that use them.

    Notes
    -----
    `encode` passes its first window through the whole model too, and raises ValueError if ``head(encoder(x))`` differs
    from ``model(x)``, that is, if the model is split at the wrong place. Methods that adapt the network work on a copy:
    the encoder must be a submodule or a method of the class, not a function assigned to the model that refers to it.

    Examples
    --------
    >>> import numpy as np
    >>> from collections import OrderedDict
    >>> from torch import nn
    >>> features = nn.Sequential(nn.Flatten(), nn.Linear(60, 8), nn.ReLU())
    >>> model = nn.Sequential(OrderedDict(features=features, classifier=nn.Linear(8, 3)))
    >>> z, p = wrap(model, classes=("sit", "walk", "run")).encode(np.zeros((4, 3, 20)))
    >>> z.shape, p.shape
    ((4, 8), (4, 3))
    """
    wrapped = _import_torch_module("wrapped")
    source: TorchSource = wrapped.WrappedSource(model, encoder=encoder, head=head, classes=classes, stats=stats)
    return source


def _import_torch_module(name: str) -> Any:
    """Import a module of this package that requires torch; raise with the remedy if torch is not installed."""
    try:
        return import_module(f"sight.sources.{name}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "This model needs torch, which is not installed; pip install 'sight-har[train]', or export it to ONNX.",
            name="torch",
        ) from None
