"""Metadata that sight adds to an ONNX file: classes, head, statistics and model card. Needs no torch."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import safetensors.numpy

from sight.base import Source
from sight.sources.checkpoint import pack_stats
from sight.sources.onnx import CARD, CLASSES, TENSORS


def serialise(model: Any, source: Source, extra: Mapping[str, str] | None = None) -> bytes:
    """Return an ONNX model as bytes, with classes, head, statistics, card and `extra` texts in its metadata.

    Moments of layers are left out, because only methods that need the torch network use them.
    """
    stats = replace(source.stats, norms=None) if source.stats else None
    tensors = {"head.weight": source.weight, "head.bias": source.bias} | pack_stats(stats)
    metadata = {
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
