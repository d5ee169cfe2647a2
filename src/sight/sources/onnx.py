"""Sources for the edge: an exported model, run by onnxruntime without torch."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import safetensors.numpy

from sight.card import ModelCard
from sight.sources.checkpoint import pack_stats, unpack_stats
from sight.types import Array, SourceStats

#: Keys of the metadata of an exported file.
CLASSES, CARD, TENSORS = "sight.classes", "sight.card", "sight.tensors"
#: Key that only a fused graph has; it tells method, settings and the version of the state.
FUSED = "sight.fused"

OUTPUTS = ("features", "probabilities")


class OnnxSource:
    """A model written by `sight.sources.onnx_export.export_onnx`; head, statistics and card travel inside the file.

    Parameters
    ----------
    path
        The .onnx file.
    threads
        Threads of one call; 1 leaves the other cores to other wearers.

    Notes
    -----
    Windows pass one by one. In larger batches matrix products may add in another order, and the Transformer's answers
    then differ in the last bits; one by one, an answer depends on its window alone, however a stream is cut.
    """

    def __init__(self, path: str | Path, threads: int = 1) -> None:
        self.path = Path(path)
        self._session = open_session(self.path, threads)
        found = self._session.get_modelmeta().custom_metadata_map
        if CLASSES not in found or TENSORS not in found:
            raise ValueError(
                f"{path} is an ONNX model without the metadata of sight, so its head is unknown; "
                f"export it with sight.sources.onnx_export.export_onnx (sight inspect tells more)."
            )
        if FUSED in found:
            raise ValueError(
                f"{path} is a fused graph: it adapts by itself and is run with sight.sources.fused.FusedSession "
                f"(docs/onnx.md); export the model without --fused to use it with a method."
            )
        tensors = safetensors.numpy.load(base64.b64decode(found[TENSORS]))
        self.classes: tuple[str, ...] = tuple(json.loads(found[CLASSES]))
        self.card = ModelCard.from_json(found[CARD]) if CARD in found else None
        self.weight: Array = tensors["head.weight"]
        self.bias: Array = tensors["head.bias"]
        self.stats = unpack_stats(tensors)
        self.shape: tuple[int, int] = tuple(self._session.get_inputs()[0].shape[1:])

    def encode(self, x: Array) -> tuple[Array, Array]:
        """Windows (B, C, T) to features (B, D) and probabilities (B, K)."""
        if x.ndim != 3 or x.shape[1:] != self.shape:
            raise ValueError(f"Expected windows (B, {self.shape[0]}, {self.shape[1]}), got {x.shape}; cut them alike.")
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
        """Refuse: an exported graph has no gradients."""
        raise TypeError(
            "An ONNX source has no network to adapt by gradients; load the checkpoint it was exported from "
            "(sight.load of the .safetensors file), or choose a method that needs no gradient."
        )


def open_session(path: Path, threads: int = 1) -> Any:
    """Open an onnxruntime session on the processor; a file that is no model is refused in one sentence."""
    import onnxruntime

    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}; check the path.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # its warnings tell of its own optimiser, nothing a user could act upon
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises a dozen private types
        raise ValueError(f"{path} is not an ONNX model that onnxruntime can read, or is cut short: {error}") from None


def metadata(
    *, classes: tuple[str, ...], weight: Array, bias: Array, card: ModelCard | None, stats: SourceStats | None
) -> dict[str, str]:
    """Turn what the graph does not hold into texts for the metadata of an .onnx file."""
    tensors = {"head.weight": weight, "head.bias": bias} | pack_stats(stats)
    texts = {
        CLASSES: json.dumps(classes),
        TENSORS: base64.b64encode(safetensors.numpy.save(tensors)).decode("ascii"),
    }
    return texts | ({CARD: card.to_json()} if card else {})
