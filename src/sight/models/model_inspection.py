"""Inspection of model files: format, contents, and where the model splits into encoder and head."""

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

from sight._util.tensorfile import read_header
from sight.models.bundled import resolve
from sight.models.card import ModelCard
from sight.models.checkpoint import KEY
from sight.models.onnx import CARD, CLASSES, FUSED, OnnxSource, open_session
from sight.models.onnx_head import find_heads


def inspect(path: str | Path) -> dict[str, Any]:
    """Return facts about a model file or a bundled model.

    "kind" is the format, "split" where the model splits into encoder and head (None if nowhere), "why_not" the reason
    why sight cannot use the file. The other entries depend on the format.
    """
    path = resolve(path)
    readers = {".safetensors": _inspect_checkpoint, ".onnx": _inspect_onnx}
    if path.suffix.lower() not in readers:
        raise ValueError(f"Expected a .safetensors or .onnx file, got {path.name!r}; sight reads no other models.")
    try:
        facts = readers[path.suffix.lower()](path)
    except (KeyError, TypeError, IndexError, RecursionError):
        raise ValueError(f"{path}: its metadata are damaged; export or train the model again.") from None
    return {"file": str(path), "size_bytes": path.stat().st_size} | facts


def _inspect_checkpoint(path: Path) -> dict[str, Any]:
    header, shapes = read_header(path, KEY)
    if header is None:
        return {
            "kind": "tensors without a model card",
            "values": sum(map(math.prod, shapes.values())),
            "tensors": {name: list(shape) for name, shape in shapes.items()},
            "split": None,
            "why_not": "the file does not name the network of its tensors; load it into its network and use "
            "sight.wrap(network, encoder=..., head=...)",
        }
    buffers = ("running_mean", "running_var", "num_batches_tracked")
    learned = [n for n in shapes if n.startswith("network.") and not n.endswith(buffers)]
    facts = {
        "kind": "checkpoint of sight",
        "parameters": sum(math.prod(shapes[name]) for name in learned),
        "stats": "stats.prior" in shapes,
        "fisher": any(name.startswith("fisher.") for name in shapes),
        "split": _split(*shapes["network.head.weight"]),
    }
    return facts | _card_facts(ModelCard.from_dict(header))


def _inspect_onnx(path: Path) -> dict[str, Any]:
    session = open_session(path)
    metadata = session.get_modelmeta().custom_metadata_map
    if FUSED in metadata:
        card = ModelCard.from_json(metadata[CARD]) if CARD in metadata else None
        return {
            "kind": "fused graph of sight: (window, state) to (probabilities, new state)",
            "adaptation": json.loads(metadata[FUSED]),
            "inputs": {value.name: f"{value.shape} {value.type}" for value in session.get_inputs()},
            "outputs": {value.name: f"{value.shape} {value.type}" for value in session.get_outputs()},
        } | (_card_facts(card) if card else {"classes": json.loads(metadata[CLASSES])})
    if CLASSES in metadata:
        source = OnnxSource(path)
        return {
            "kind": "ONNX model of sight",
            "stats": source.stats is not None,
            "norms": source.norm_layers is not None,
            "window": list(source.shape),
            "split": _split(*source.weight.shape),
        } | (_card_facts(source.card) if source.card else {"classes": list(source.classes)})
    return {
        "kind": "ONNX model without metadata of sight",
        "inputs": {value.name: value.shape for value in session.get_inputs()},
        "outputs": {value.name: value.shape for value in session.get_outputs()},
    } | _find_split(path)


def _split(classes: int, dims: int) -> str:
    return f"features ({dims}) | head (Linear {dims} to {classes})"


def _find_split(path: Path) -> dict[str, Any]:
    if importlib.util.find_spec("onnx") is None:
        return {"split": None, "why_not": "this check needs the package onnx; pip install onnx"}
    import onnx

    for head in find_heads(onnx.load(str(path), load_external_data=False).graph):
        return {
            "split": f"before {head.node.op_type} {head.node.name or head.logits!r}: features are {head.features!r}, "
            f"head weights {head.node.input[1]!r}",
            "why_not": "the file has no card of sight; add one with sight.wrap and sight.export (docs/python.md)",
        }
    return {"split": None, "why_not": "no output is a linear layer of the graph (Gemm or MatMul with constant weights)"}


def _card_facts(card: ModelCard) -> dict[str, Any]:
    names = ("encoder", "rate_hz", "window_s", "stride_s", "dataset", "sight_version")
    facts: dict[str, Any] = {name: getattr(card, name) for name in names}
    lists = {name: list(getattr(card, name)) for name in ("classes", "channels", "units")}
    about = {"training": dict(card.training), "about": dict(card.about)}
    return facts | lists | {"fills_nan": card.fill is not None} | about
