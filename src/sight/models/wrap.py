"""Models of other tools as source models: `wrap`, `source_stats`, `export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sight._util.atomic import write_atomic
from sight.base import Adapter, Source
from sight.models.card import OWN, ModelCard
from sight.models.class_statistics import feature_stats, labelled
from sight.models.features import FeatureSource
from sight.models.load import import_torch_module
from sight.models.onnx import OnnxSource
from sight.registry import method as make_method
from sight.types import Array, SourceStats


def wrap(
    model: Any,
    *,
    encoder: Any = None,
    head: Any = None,
    features: str | None = None,
    time_first: bool = False,
    classes: Sequence[str] | None = None,
    rate_hz: float | None = None,
    channels: Sequence[str] | None = None,
    units: str | Sequence[str] | None = None,
    window_s: float | None = None,
    stride_s: float | None = None,
    dataset: str = "",
    subjects: Sequence[str] = (),
    stats: SourceStats | None = None,
) -> Any:
    """Return a source model for a torch module, or for an ONNX file of another tool, whose last layer is linear.

    Parameters
    ----------
    model
        A `torch.nn.Module`, which is put in evaluation mode and otherwise unchanged, or the path of an .onnx file, for
        example of Keras or TensorFlow. A file needs the package onnx, but not torch.
    encoder
        Torch: submodule or method that maps windows to the input of the head, or its name; dots address nested modules.
        If None, "features"; without it, all layers but the last of a `torch.nn.Sequential` that ends with a Linear.
    head
        Torch: the `torch.nn.Linear` that returns the logits, or its name. If None, "classifier", or the last layer.
    features
        ONNX: name of the output, tensor or layer that the head reads; needed if several outputs end linearly.
    time_first
        Whether the model takes windows (B, T, C); sight passes (B, C, T). Files declare it, so that it is found.
    classes
        Names of the classes, in the order of the logits; "class 0", "class 1", ... if None.
    rate_hz, channels, units, window_s, stride_s
        Input of the model for its card: sampling rate, names of the channels, a unit for each or one for all (g, mg,
        m/s^2, deg/s, rad/s), length of windows and distance between them (half a window if None). With a card, the
        exported model works in all commands. The model gets windows in these units and normalises them itself.
    dataset, subjects
        For the card: name of the dataset of the training, as in `sight train` ("folder" for files of your own), and its
        subjects. `sight evaluate` warns about them, and `sight bench run --model` leaves them out.
    stats
        Statistics of the training data, for methods that use them; see `source_stats`.

    Raises
    ------
    ValueError, TypeError
        If the model is split at the wrong place, does not take these windows, or does not end with a linear layer. With
        a card it is tried with a random window at once, otherwise with the first window that it encodes.

    Notes
    -----
    Methods that adapt the network work on a copy: the encoder must be a submodule or a method of the class, not a
    function assigned to the model that refers to it.

    Examples
    --------
    >>> import numpy as np
    >>> from collections import OrderedDict
    >>> from torch import nn
    >>> layers = nn.Sequential(nn.Flatten(), nn.Linear(60, 8), nn.ReLU())
    >>> model = nn.Sequential(OrderedDict(features=layers, classifier=nn.Linear(8, 3)))
    >>> source = wrap(model, classes=("sit", "walk", "run"), rate_hz=10, channels="xyz", units="g", window_s=2)
    >>> z, p = source.encode(np.zeros((4, 3, 20)))
    >>> z.shape, p.shape, source.card.stride_s
    ((4, 8), (4, 3), 1.0)
    """
    given = {"rate_hz": rate_hz, "channels": channels, "units": units, "window_s": window_s}
    missing = [name for name, value in given.items() if value is None]
    is_file = isinstance(model, str | Path)
    if missing and (is_file or len(missing) < len(given) or dataset or len(subjects)):
        raise ValueError(
            f"Expected {', '.join(given)} for the card of the model, got no {', '.join(missing)}; add them."
        )
    if len(subjects) and not dataset:
        raise ValueError(
            'Expected the dataset of the training subjects, got none; add dataset, "folder" for own files.'
        )
    given |= {"stride_s": stride_s, "dataset": dataset, "subjects": subjects}
    if is_file:
        return _wrap_file(Path(model), features, time_first, classes, stats, given)
    wrapped = import_torch_module("wrapped").WrappedSource
    source = wrapped(model, encoder=encoder, head=head, time_first=time_first, classes=classes, stats=stats)
    if not missing:
        source.describe(_card(source.classes, given))
    return source


def _wrap_file(
    path: Path,
    features: str | None,
    time_first: bool,
    classes: Sequence[str] | None,
    stats: SourceStats | None,
    given: dict[str, Any],
) -> OnnxSource:
    from sight.models.onnx_head import adopt
    from sight.models.onnx_metadata import serialise

    shape = len(given["channels"]), max(1, round(given["rate_hz"] * given["window_s"]))
    graph, weight, bias = adopt(path, shape, features, time_first)
    head = FeatureSource(weight, bias, tuple(classes) if classes else None, stats)
    head.card = _card(head.classes, given)
    return OnnxSource(serialise(graph, head))


def _card(classes: tuple[str, ...], given: dict[str, Any]) -> ModelCard:
    channels, units, stride_s = tuple(given["channels"]), given["units"], given["stride_s"]
    subjects = [given["subjects"]] if isinstance(given["subjects"], str) else given["subjects"]
    return ModelCard(
        encoder=OWN,
        encoder_args={},
        classes=classes,
        channels=channels,
        units=(units,) * len(channels) if isinstance(units, str) else tuple(units),
        rate_hz=float(given["rate_hz"]),
        window_s=float(given["window_s"]),
        stride_s=float(given["window_s"] / 2 if stride_s is None else stride_s),
        mean=(0.0,) * len(channels),
        std=(1.0,) * len(channels),
        dataset=given["dataset"],
        training={"subjects": [str(subject) for subject in subjects]} if len(subjects) else {},
    )


def source_stats(source: Source, x: Array, y: Array, *, subjects: int | None = None) -> SourceStats:
    """Return statistics of the training data that methods such as Keel use; no data is kept.

    Parameters
    ----------
    source
        Source model.
    x, y
        Windows (N, C, T) of the training data and their class indices (N,), -1 for unlabelled windows.
    subjects
        Number of subjects in the training data; if None, that of the card, which `wrap` writes from its own `subjects`.
        Keel treats an unknown number, 0, as many.

    Examples
    --------
    >>> from sight.testing import ToySource, toy_stream
    >>> source, windows = ToySource(), toy_stream()
    >>> source.stats = source_stats(source, windows.x, windows.label)
    >>> source.stats.class_means.shape, source.stats.count
    ((5, 16), 200)
    """
    x, y = labelled(x, y, source.classes)
    if subjects is None:
        subjects = len(source.card.training.get("subjects", ())) if source.card else 0
    if not hasattr(source, "network"):
        return feature_stats(source.encode(x)[0], y, source.classes, subjects)
    stats: SourceStats = import_torch_module("source_statistics").compute_stats(source, x, y, subjects)
    return stats


def export(
    source: Source,
    path: str | Path,
    *,
    method: str | Adapter | None = None,
    shape: tuple[int, int] | None = None,
    norms: bool = False,
) -> Path:
    """Write a source model as ONNX, which all commands read and which runs without torch; return the path.

    Parameters
    ----------
    source
        Torch or ONNX source model, with its card and statistics.
    path
        The .onnx file to write.
    method
        Method to include, by name or as an adapter with hyper-parameters: the file then is a fused graph, (window,
        state) to (probabilities, new state); torch only.
    shape
        (C, T) of a window; required for a torch model without a card.
    norms
        Whether the graph takes statistics of batch normalisation and returns moments, for the method keel-norm; torch
        only. A fused graph of keel-norm needs no such option.
    """
    if isinstance(source, OnnxSource):
        if method is not None or (norms and source.norm_layers is None):
            what = "with statistics of batch normalisation as input" if method is None else "for a fused graph"
            raise TypeError(
                f"Expected a torch model {what}, got an ONNX source; export the torch model, or use this one with "
                f"sight adapt and keel."
            )
        import onnx

        from sight.models.onnx_metadata import serialise

        content = source.content
        graph = onnx.load_model_from_string(content) if isinstance(content, bytes) else onnx.load(str(content))
        return write_atomic(path, serialise(graph, source, norms=source.norm_layers))
    if not hasattr(source, "network"):
        raise TypeError(f"Expected a torch or ONNX source model, got {type(source).__name__}, which has no encoder.")
    if method is None:
        return Path(import_torch_module("export.onnx").export_onnx(source, path, shape=shape, norms=norms))
    adapter = make_method(method) if isinstance(method, str) else method
    return Path(import_torch_module("export.fused").export_fused(source, path, adapter, shape=shape))
