"""Trained classifiers behind one contract: torch, ONNX, cached features; one file format for all."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sight.base import Source
from sight.sources.features import FeatureSource
from sight.types import SourceStats

if TYPE_CHECKING:
    from sight.sources.torch import TorchSource

__all__ = ["FeatureSource", "inspect", "load", "wrap"]


def load(path: str | Path) -> Source:
    """Load a trained model: a checkpoint (.safetensors, needs torch) or an exported one (.onnx, needs no torch)."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}; check the path.")
    kind = path.suffix.lower()
    if kind == ".onnx":
        from sight.sources.onnx import OnnxSource

        return OnnxSource(path)
    if kind == ".safetensors":
        return _with_torch("torch").TorchSource.load(path)  # type: ignore[no-any-return]
    hint = "load it with torch and use sight.wrap(model)" if kind in (".pt", ".pth", ".ckpt") else "check the path"
    raise ValueError(f"Expected a model file that ends with .safetensors or .onnx, got {path.name!r}; {hint}.")


def wrap(
    model: Any,
    *,
    encoder: str = "features",
    head: str = "classifier",
    classes: Sequence[str] | None = None,
    stats: SourceStats | None = None,
) -> TorchSource:
    """Make a source of any torch module with a linear last layer; see `sight.sources.wrapped.wrap`."""
    made: TorchSource = _with_torch("wrapped").wrap(model, encoder=encoder, head=head, classes=classes, stats=stats)
    return made


def inspect(path: str | Path) -> dict[str, Any]:
    """Tell facts of a model file; see `sight.sources.inspection.inspect`."""
    from sight.sources.inspection import inspect as tell

    return tell(path)


def _with_torch(name: str) -> Any:
    """Import a neighbour that needs torch."""
    try:
        return import_module(f"sight.sources.{name}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "This model needs torch, which is not installed; pip install 'sight-har[train]', or export it to ONNX.",
            name="torch",
        ) from None
