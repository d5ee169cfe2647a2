"""Source model of an exported ONNX file, run by onnxruntime without torch."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import safetensors.numpy

from sight.card import ModelCard
from sight.sources.checkpoint import unpack_stats
from sight.types import Array

#: Metadata keys of an exported file.
CLASSES, CARD, TENSORS = "sight.classes", "sight.card", "sight.tensors"
#: Metadata key of a fused graph: method, hyper-parameters and version of the state.
FUSED = "sight.fused"

OUTPUTS = ("features", "probabilities")


class OnnxSource:
    """Source model written by `sight.sources.onnx_export.export_onnx`.

    Parameters
    ----------
    path
        The .onnx file; it holds the head, the training statistics and the model card too.
    threads
        Number of threads per call; 1 leaves the other cores to other wearers.

    Notes
    -----
    Windows are run one by one. In larger batches matrix products may add in another order, which changes the last bits
    of the Transformer's predictions. One by one, a prediction depends on its window only, not on the chunk size.
    """

    def __init__(self, path: str | Path, threads: int = 1) -> None:
        self.path = Path(path)
        self._session = open_session(self.path, threads)
        metadata = self._session.get_modelmeta().custom_metadata_map
        if CLASSES not in metadata or TENSORS not in metadata:
            raise ValueError(
                f"{path} is an ONNX model without the metadata of sight, so its head is unknown; "
                f"export it with sight.sources.onnx_export.export_onnx (run sight inspect for details)."
            )
        if FUSED in metadata:
            raise ValueError(
                f"{path} is a fused graph that includes the adaptation; run it with sight.sources.fused.FusedSession "
                f"(docs/onnx.md), or export the model without --fused to use it with a method."
            )
        tensors = safetensors.numpy.load(base64.b64decode(metadata[TENSORS]))
        self.classes: tuple[str, ...] = tuple(json.loads(metadata[CLASSES]))
        self.card = ModelCard.from_json(metadata[CARD]) if CARD in metadata else None
        self.weight: Array = tensors["head.weight"]
        self.bias: Array = tensors["head.bias"]
        self.stats = unpack_stats(tensors)
        self.shape: tuple[int, int] = tuple(self._session.get_inputs()[0].shape[1:])

    def encode(self, x: Array) -> tuple[Array, Array]:
        """Map windows (B, C, T) to features (B, D) and probabilities (B, K)."""
        if x.ndim != 3 or x.shape[1:] != self.shape:
            raise ValueError(
                f"Expected windows (B, {self.shape[0]}, {self.shape[1]}) as in training, got {x.shape}; "
                f"use the same rate and window length."
            )
        x = np.ascontiguousarray(x, dtype=np.float32)
        if len(x) == 1:
            z, p = self._session.run(OUTPUTS, {"x": x})
            return z, p
        z = np.empty((len(x), self.weight.shape[1]), np.float32)
        p = np.empty((len(x), self.weight.shape[0]), np.float32)
        for t in range(len(x)):
            z[t : t + 1], p[t : t + 1] = self._session.run(OUTPUTS, {"x": x[t : t + 1]})
        return z, p

    def module(self) -> NoReturn:
        """Raise TypeError: an exported graph has no network to adapt."""
        raise TypeError(
            "An ONNX source has no network to adapt; load the checkpoint it was exported from (sight.load of the "
            ".safetensors file), or choose a method that works on features, such as keel."
        )


def open_session(model: Path | bytes, threads: int = 1) -> Any:
    """Open an onnxruntime session on the CPU; raise ValueError if the file is not an ONNX model."""
    import onnxruntime

    if isinstance(model, Path) and not model.is_file():
        raise FileNotFoundError(f"There is no model file {model}; check the path.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # its warnings concern its own optimiser; users cannot act on them
    content = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises a dozen private types
        name = model if isinstance(model, Path) else "The graph"
        raise ValueError(f"{name} is not an ONNX model that onnxruntime can read, or is cut short: {error}") from None
