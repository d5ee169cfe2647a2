"""`wrap`: models of other tools as source models."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sight.models.card import OWN, ModelCard
from sight.models.given_features import FeatureSource
from sight.models.load import import_torch_module
from sight.models.onnx import OnnxSource, serialise
from sight.types import SourceStats


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
