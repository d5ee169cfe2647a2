"""Export of trained classifiers: ONNX, ONNX fused with a method, int8, C source."""

from pathlib import Path

from sight._util.atomic import write_atomic
from sight.base import Adapter, Source
from sight.models.load import import_torch_module
from sight.models.onnx import OnnxSource, serialise
from sight.registry import method as make_method


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
        state) to (probabilities, new state). Needs torch, and for an ONNX source one of a network of `sight`.
    shape
        (C, T) of a window; required for a torch model without a card.
    norms
        Whether the graph takes statistics of batch normalisation and returns moments, for the method keel-norm; as
        `method` needs torch. A fused graph of keel-norm needs no such option.
    """
    if isinstance(source, OnnxSource):
        if method is None and not (norms and source.norm_layers is None):
            return write_atomic(path, serialise(source.graph(), source, norms=source.norm_layers))
        source = import_torch_module("export.torch_from_onnx").rebuild(source)
    if not hasattr(source, "network"):
        raise TypeError(f"Expected a torch or ONNX source model, got {type(source).__name__}, which has no encoder.")
    if method is None:
        return Path(import_torch_module("export.onnx").export_onnx(source, path, shape=shape, norms=norms))
    adapter = make_method(method) if isinstance(method, str) else method
    return Path(import_torch_module("export.fused").export_fused(source, path, adapter, shape=shape))
