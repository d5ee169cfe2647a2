"""Source model of an exported ONNX file, run by onnxruntime without torch."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import safetensors
import safetensors.numpy

from sight.card import ModelCard
from sight.ops import softmax
from sight.sources.checkpoint import unpack_stats
from sight.sources.features import FeatureSource
from sight.types import Array

#: Metadata keys of an exported file.
CLASSES, CARD, TENSORS = "sight.classes", "sight.card", "sight.tensors"
#: Metadata key of a fused graph: method, hyper-parameters and version of the state.
FUSED = "sight.fused"

OUTPUTS = ("features", "probabilities")
#: Windows that are encoded at once, if that changes no bit.
BATCH = 64
#: Largest number of channels or samples of a window.
MAX_SIZE = 1 << 20


class OnnxSource:
    """Source model written by `sight.sources.onnx_export.export_onnx`.

    Parameters
    ----------
    model
        The .onnx file or its content; it holds the head, the training statistics and the model card too.
    threads
        Number of threads that encode batches of windows; 1 leaves the other cores to other wearers. A single window
        is encoded by one thread.

    Notes
    -----
    Many windows are run in batches of 64 if that gives the same bits as one by one, which is tested once on random
    windows. In larger batches matrix products may add in another order, which changes the last bits of the
    Transformer's predictions. So a prediction depends on its window only, not on the chunk size or the threads.
    """

    def __init__(self, model: str | Path | bytes, threads: int = 1) -> None:
        self.content = model if isinstance(model, bytes) else Path(model)
        path = self.path = Path("model.onnx") if isinstance(model, bytes) else Path(model)
        self.threads = threads
        self._session = open_session(self.content)
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
        head = read_head(metadata, path)
        self.classes, self.card, self.stats = head.classes, head.card, head.stats
        self.weight, self.bias = head.weight, head.bias
        self.shape: tuple[int, int] = tuple(self._session.get_inputs()[0].shape[1:])
        self._check_graph()

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
        whole = len(x) - len(x) % BATCH if self._batches_are_exact else 0
        parts = [*range(0, whole, BATCH), *range(whole, len(x))]
        z = np.empty((len(x), self.weight.shape[1]), np.float32)
        p = np.empty((len(x), self.weight.shape[0]), np.float32)

        def encode_part(first: int) -> None:
            rows = slice(first, first + (BATCH if first < whole else 1))
            z[rows], p[rows] = self._session.run(OUTPUTS, {"x": x[rows]})

        if self.threads > 1 and whole > BATCH:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(encode_part, parts))
        else:
            for first in parts:
                encode_part(first)
        return z, p

    @cached_property
    def _batches_are_exact(self) -> bool:
        """Whether a batch of windows gives the same bits as its windows one by one, on this processor."""
        x = self._random_windows(BATCH)
        together = self._session.run(OUTPUTS, {"x": x})
        alone = [self._session.run(OUTPUTS, {"x": x[t : t + 1]}) for t in range(BATCH)]
        return all(np.array_equal(whole, np.concatenate(rows)) for whole, *rows in zip(together, *alone, strict=True))

    def _random_windows(self, count: int) -> Array:
        """Return windows (count, C, T) with the mean and deviation of the training data."""
        x = np.random.default_rng(0).normal(size=(count, *self.shape))
        if self.card is not None:
            x = x * np.array(self.card.std)[:, None] + np.array(self.card.mean)[:, None]
        return x.astype(np.float32)

    def _check_graph(self) -> None:
        """Raise ValueError if the metadata do not describe the graph: window, features, and head of a test window."""
        card, shape = self.card, self.shape
        if not all(isinstance(size, int) and 0 < size < MAX_SIZE for size in shape) or len(shape) != 2:
            raise ValueError(f"{self.path}: expected a graph for windows (B, C, T), got (B, {shape}); export it again.")
        if card is not None and (card.classes != self.classes or shape != (len(card.channels), card.length)):
            raise ValueError(
                f"{self.path}: the card describes windows {(len(card.channels), card.length)} and classes "
                f"{list(card.classes)}, the graph has {shape} and {list(self.classes)}; export the model again."
            )
        try:
            z, p = self._session.run(OUTPUTS, {"x": self._random_windows(1)})
            fits = np.allclose(softmax(z @ self.weight.T + self.bias), p, atol=1e-3)
        except Exception:  # onnxruntime raises a dozen private types
            fits = False
        if not fits:
            raise ValueError(
                f"{self.path}: the head in the metadata does not give the probabilities of the graph for a test "
                f"window, or they are not finite; export the model again."
            )

    def module(self) -> NoReturn:
        """Raise TypeError: an exported graph has no network to adapt."""
        raise TypeError(
            "An ONNX source has no network to adapt; load the checkpoint it was exported from (sight.load of the "
            ".safetensors file), or choose a method that works on features, such as keel."
        )


def read_head(metadata: Mapping[str, str], path: object) -> FeatureSource:
    """Return head, classes, statistics and card from the metadata of an exported file; raise ValueError if damaged."""
    try:
        tensors = safetensors.numpy.load(base64.b64decode(metadata[TENSORS]))
        weight, bias = tensors["head.weight"], tensors["head.bias"]
        classes = tuple(json.loads(metadata[CLASSES]))
        if not all(isinstance(name, str) for name in classes):
            raise ValueError("class names are not texts")
        if weight.dtype.kind != "f" or not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise ValueError("the head holds NaN or infinity")
        head = FeatureSource(weight, bias, classes, unpack_stats(tensors))
        head.card = ModelCard.from_json(metadata[CARD]) if CARD in metadata else None
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path}: the metadata of sight are damaged ({' '.join(str(error).split())[:200]}); export the model again."
        ) from None
    return head


def open_session(model: Path | bytes, threads: int = 1) -> Any:
    """Open an onnxruntime session on the CPU; raise ValueError if the file is not an ONNX model."""
    import onnxruntime

    if isinstance(model, Path) and not model.is_file():
        raise FileNotFoundError(f"There is no model file {model}; check the path.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # 8-bit weights beyond -64 to 64, as in older files, saturate on processors without VNNI; this avoids it.
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3  # its warnings concern its own optimiser; users cannot act on them
    content = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:  # onnxruntime raises a dozen private types
        name = model if isinstance(model, Path) else "The graph"
        raise ValueError(f"{name} is not an ONNX model that onnxruntime can read, or is cut short: {error}") from None
