"""Metadata that sight adds to an ONNX file: classes, head, statistics and model card. Needs no torch."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import safetensors.numpy

from sight.base import Source
from sight.models.checkpoint import pack_stats
from sight.models.onnx import CARD, CLASSES, NORMS, STATISTICS, TENSORS
from sight.types import NormLayers


def serialise(
    model: Any, source: Source, extra: Mapping[str, str] | None = None, norms: NormLayers | None = None
) -> bytes:
    """Return an ONNX model as bytes, with classes, head, statistics, card and `extra` texts in its metadata.

    Moments of layers are left out unless they are those of `norms`, whose statistics the graph takes.
    """
    stats, layers = source.stats, {}
    tensors = {"head.weight": source.weight, "head.bias": source.bias}
    if norms is not None and stats is not None and stats.norms is not None:
        layers = {name: stats.norms[name] for name in norms.widths}
        tensors[STATISTICS] = norms.trained
    tensors |= pack_stats(replace(stats, norms=layers or None) if stats else None)
    metadata = {
        **({NORMS: json.dumps([*layers])} if layers else {}),
        CLASSES: json.dumps(source.classes),
        TENSORS: base64.b64encode(safetensors.numpy.save(tensors)).decode("ascii"),
    }
    metadata |= ({CARD: source.card.to_json()} if source.card else {}) | dict(extra or {})
    kept = [entry for entry in model.metadata_props if entry.key not in metadata]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    data: bytes = model.SerializeToString()
    return data
