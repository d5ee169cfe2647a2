"""`load`: a trained classifier by its name or from a file."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from sight.base import Source
from sight.models.bundled import resolve


def load(model: str | Path, *, threads: int | None = 1) -> Source:
    """Load a source model.

    Parameters
    ----------
    model
        Name of a bundled model such as "wrist" (see `sight.models.bundled.names`), or the path of an exported file
        (.onnx) or a checkpoint (.safetensors, requires torch).
    threads
        Number of threads that encode batches of windows of an exported model; predictions do not depend on it. None
        uses the environment variable SIGHT_THREADS, or else all cores that the process may use.

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
        from sight.models.onnx import OnnxSource

        return OnnxSource(path, threads or _usable_threads())
    if suffix == ".safetensors":
        return import_torch_module("torch").TorchSource.load(path)  # type: ignore[no-any-return]
    hint = "load it with torch and use sight.wrap(model)" if suffix in (".pt", ".pth", ".ckpt") else "check the path"
    raise ValueError(f"Expected a model file that ends with .safetensors or .onnx, got {path.name!r}; {hint}.")


def _usable_threads() -> int:
    given = os.environ.get("SIGHT_THREADS", "")
    if given:
        if not given.isdecimal() or int(given) < 1:
            raise ValueError(f"Expected a number of threads from 1 on in SIGHT_THREADS, got {given!r}.")
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def import_torch_module(name: str) -> Any:
    """Import a module of this package that requires torch; raise with the remedy if torch is not installed."""
    try:
        return import_module(f"sight.models.{name}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "This model needs torch, which is not installed; pip install 'sight-har[train]', or export it to ONNX.",
            name="torch",
        ) from None
