"""What a model file is, where it can be cut into features and head, and if it cannot, why."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

from sight.card import ModelCard
from sight.sources.checkpoint import KEY
from sight.sources.onnx import CARD, CLASSES, FUSED, OnnxSource, open_session
from sight.tensorfile import read_header

#: What may stand between a linear layer and the output without changing the cut.
_AFTER_HEAD = {"Softmax", "LogSoftmax", "Identity", "Cast"}


def inspect(path: str | Path) -> dict[str, Any]:
    """Tell facts of a model file: what it is, what it wants, where it can be cut ("cut"), and if not, "why_not"."""
    path = Path(path)
    tell = {".safetensors": _checkpoint, ".onnx": _onnx}.get(path.suffix.lower())
    if tell is None:
        raise ValueError(f"Expected a .safetensors or .onnx file, got {path.name!r}; sight reads no other models.")
    facts = tell(path)
    return {"file": str(path), "size_bytes": path.stat().st_size} | facts


def _checkpoint(path: Path) -> dict[str, Any]:
    header, shapes = read_header(path, KEY)
    if header is None:
        return {
            "kind": "tensors without a model card",
            "values": sum(map(math.prod, shapes.values())),
            "tensors": {name: list(shape) for name, shape in shapes.items()},
            "cut": None,
            "why_not": "a file of tensors does not say which network they belong to; load it into its network and "
            "use sight.wrap(network, encoder=..., head=...)",
        }
    card = ModelCard.from_dict(header)
    k, d = shapes["network.head.weight"]
    buffers = ("running_mean", "running_var", "num_batches_tracked")
    learned = [n for n in shapes if n.startswith("network.") and not n.endswith(buffers)]
    facts = {
        "kind": "checkpoint of sight",
        "parameters": sum(math.prod(shapes[name]) for name in learned),
        "stats": "stats.prior" in shapes,
        "fisher": any(name.startswith("fisher.") for name in shapes),
        "cut": f"features ({d}) | head (Linear {d} to {k})",
    }
    return facts | _card(card)


def _onnx(path: Path) -> dict[str, Any]:
    session = open_session(path)
    if FUSED in session.get_modelmeta().custom_metadata_map:
        return _fused(session)
    if CLASSES in session.get_modelmeta().custom_metadata_map:
        source = OnnxSource(path)
        k, d = source.weight.shape
        facts = {
            "kind": "ONNX model of sight",
            "stats": source.stats is not None,
            "window": list(source.shape),
            "cut": f"features ({d}) | head (Linear {d} to {k})",
        }
        return facts | (_card(source.card) if source.card else {"classes": list(source.classes)})
    facts = {
        "kind": "ONNX model of somebody else",
        "inputs": {value.name: value.shape for value in session.get_inputs()},
        "outputs": {value.name: value.shape for value in session.get_outputs()},
    }
    return facts | _foreign_cut(path)


def _fused(session: Any) -> dict[str, Any]:
    found = session.get_modelmeta().custom_metadata_map
    card = _card(ModelCard.from_json(found[CARD])) if CARD in found else {"classes": json.loads(found[CLASSES])}
    return {
        "kind": "fused graph of sight: (window, state) to (answers, new state)",
        "adaptation": json.loads(found[FUSED]),
        "inputs": {value.name: f"{value.shape} {value.type}" for value in session.get_inputs()},
        "outputs": {value.name: f"{value.shape} {value.type}" for value in session.get_outputs()},
    } | card


def _foreign_cut(path: Path) -> dict[str, Any]:
    """Look for a linear layer at the end of a graph that we did not write."""
    if importlib.util.find_spec("onnx") is None:
        return {"cut": None, "why_not": "looking into a foreign graph needs the package onnx; pip install onnx"}
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    makers = {output: node for node in graph.node for output in node.output}
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    for output in graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type in _AFTER_HEAD:
            node = makers.get(node.input[0])
        if node is not None and node.op_type == "Add":  # a bias, added to the product
            products = [makers[name] for name in node.input if name in makers]
            node = next((maker for maker in products if maker.op_type == "MatMul"), None)
        if node is not None and node.op_type in ("Gemm", "MatMul") and node.input[1] in constants:
            return {
                "cut": f"before {node.op_type} {node.name or node.output[0]!r}: features are {node.input[0]!r}, "
                f"head weights {node.input[1]!r}",
                "why_not": "sight reads its own ONNX files only; wrap the torch model and export it, or pass these "
                "features to sight.refine",
            }
    return {"cut": None, "why_not": "no output is a linear layer of the graph (Gemm or MatMul with constant weights)"}


def _card(card: ModelCard) -> dict[str, Any]:
    names = ("encoder", "rate_hz", "window_s", "stride_s", "dataset", "sight_version")
    facts: dict[str, Any] = {name: getattr(card, name) for name in names}
    lists = {name: list(getattr(card, name)) for name in ("classes", "channels", "units")}
    return facts | lists | {"fills_nan": card.fill is not None, "training": dict(card.training)}
