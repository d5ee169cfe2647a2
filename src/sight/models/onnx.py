"""Source model of an exported ONNX file, run by onnxruntime without torch, and the metadata of such files."""

import base64
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from threading import Timer
from typing import Any, NoReturn

import numpy as np
import safetensors
import safetensors.numpy

from sight.base import NormEncoder, Source
from sight.methods.ops import softmax
from sight.models.card import ModelCard
from sight.models.checkpoint import pack_stats, unpack_stats
from sight.models.given_features import FeatureSource
from sight.types import Array, NormLayers

#: Metadata keys of an exported file.
CLASSES, CARD, TENSORS = "sight.classes", "sight.card", "sight.tensors"
#: Metadata key of a fused graph: method, hyper-parameters and version of the state.
FUSED = "sight.fused"
#: Metadata key of a file whose batch normalisations take statistics: names of the layers.
NORMS = "sight.norms"
#: Metadata key of a file with the range of each layer, as bundled models have it: scale and zero point of 8 bits.
RANGES = "sight.ranges"

OUTPUTS = ("features", "probabilities")
#: Input and output of such a file: statistics (2, C) of all layers, and moments (B, 2, C) of their inputs.
STATISTICS, MOMENTS = "norm_statistics", "norm_moments"
#: Windows that are encoded at once, if that changes no bit.
BATCH = 64
#: Largest number of channels or samples of a window.
MAX_SIZE = 1 << 20
#: Bytes that all graphs of a process may hold at a time; one that needs more is refused.
MAX_BYTES = 4 << 30
#: Seconds that a graph may take for a test window; one that loops for ever is refused.
TEST_S = 60.0


class OnnxSource:
    """Source model written by `sight.models.export.onnx.export_onnx`, from a file or its content.

    Many windows are run in batches of 64, by `threads` threads, if that gives the same bits as one by one, which is
    tested once on random windows. In larger batches matrix products may add in another order, which changes the last
    bits of the Transformer's predictions. So a prediction depends on its window only, not on the chunk size or threads.
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
                f"export it with sight.models.export.onnx.export_onnx (run sight inspect for details)."
            )
        if FUSED in metadata:
            raise ValueError(
                f"{path} is a fused graph that includes the adaptation; run it with "
                f"sight.models.fused_model.FusedSession (docs/onnx.md), or export the model without --fused "
                f"to use it with a method."
            )
        head = read_head(metadata, path)
        self.classes, self.card, self.stats = head.classes, head.card, head.stats
        self.weight, self.bias = head.weight, head.bias
        self.norm_layers = head.norm_layers
        self.shape: tuple[int, int] = tuple(self._session.get_inputs()[0].shape[1:])
        self._check_graph()

    def encode(self, x: Array) -> tuple[Array, Array]:
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

    def graph(self) -> Any:
        """Return the ONNX model; needs the package onnx."""
        import onnx

        content = self.content
        return onnx.load_model_from_string(content) if isinstance(content, bytes) else onnx.load(str(content))

    def norm_encoder(self) -> NormEncoder:
        return _StatisticsEncoder(self._session, self.shape, self.weight.shape, self.norm_layers)

    @cached_property
    def _batches_are_exact(self) -> bool:
        x = random_windows(self.card, BATCH, self.shape)
        together = self._session.run(OUTPUTS, {"x": x})
        alone = [self._session.run(OUTPUTS, {"x": x[t : t + 1]}) for t in range(BATCH)]
        return all(np.array_equal(whole, np.concatenate(rows)) for whole, *rows in zip(together, *alone, strict=True))

    def _check_graph(self) -> None:
        card, shape = self.card, self.shape
        if not all(isinstance(size, int) and 0 < size < MAX_SIZE for size in shape) or len(shape) != 2:
            raise ValueError(f"{self.path}: expected a graph for windows (B, C, T), got (B, {shape}); export it again.")
        if card is not None and (card.classes != self.classes or shape != (len(card.channels), card.length)):
            raise ValueError(
                f"{self.path}: the card describes windows {(len(card.channels), card.length)} and classes "
                f"{list(card.classes)}, the graph has {shape} and {list(self.classes)}; export the model again."
            )
        try:
            x = random_windows(self.card, 1, self.shape)
            z, p = run_for(TEST_S, self._session, OUTPUTS, {"x": x})
            fits = np.allclose(softmax(z @ self.weight.T + self.bias), p, atol=1e-3)
            if self.norm_layers is not None:
                fits = fits and np.allclose(self.norm_encoder()(x, self.norm_layers.trained)[1], p, atol=1e-3)
        except Exception:  # onnxruntime raises a dozen private types
            fits = False
        if not fits:
            raise ValueError(
                f"{self.path}: the head in the metadata does not give the probabilities of the graph for a test "
                f"window, they are not finite, or the graph takes longer than {TEST_S:g} s or more than "
                f"{MAX_BYTES >> 30} GiB of memory; export the model again."
            )

    def module(self) -> NoReturn:
        raise TypeError(
            "An ONNX source has no network to adapt; load the checkpoint it was exported from (sight.load of the "
            ".safetensors file), or choose a method that works on features, such as keel."
        )


class _StatisticsEncoder:
    """Encoder of single windows with given statistics; inputs and outputs keep their memory, which saves time."""

    def __init__(self, session: Any, shape: tuple[int, int], head: tuple[int, ...], layers: NormLayers | None) -> None:
        if layers is None:
            raise TypeError("This ONNX file takes no statistics of batch normalisation; export it with --norms.")
        from onnxruntime import OrtValue

        sizes = {
            "x": (1, *shape),
            STATISTICS: layers.trained.shape,
            OUTPUTS[0]: (1, head[1]),
            OUTPUTS[1]: (1, head[0]),
            MOMENTS: (1, *layers.trained.shape),
        }
        arrays = {name: np.zeros(size, np.float32) for name, size in sizes.items()}
        self._x, self._statistics, *self._outputs = arrays.values()
        self._session, self._binding = session, session.io_binding()
        for name, array in arrays.items():
            given = name in ("x", STATISTICS)
            bind = self._binding.bind_ortvalue_input if given else self._binding.bind_ortvalue_output
            bind(name, OrtValue.ortvalue_from_numpy(array))  # on a CPU it uses the memory of the array

    def __call__(self, x: Array, statistics: Array) -> tuple[Array, Array, Array]:
        self._x[:], self._statistics[:] = x, statistics
        self._session.run_with_iobinding(self._binding)
        z, p, moments = self._outputs
        return z, p, moments[0]


def random_windows(card: ModelCard | None, count: int, shape: tuple[int, int]) -> Array:
    """Return windows (count, C, T), with the mean and deviation of the training data if there is a card."""
    x = np.random.default_rng(0).normal(size=(count, *shape))
    if card is not None:
        x = x * np.array(card.std)[:, None] + np.array(card.mean)[:, None]
    return x.astype(np.float32)


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
        head.norm_layers = _read_norm_layers(metadata, tensors) if NORMS in metadata else None
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path}: the metadata of sight are damaged ({' '.join(str(error).split())[:200]}); export the model again."
        ) from None
    return head


def _read_norm_layers(metadata: Mapping[str, str], tensors: Mapping[str, Array]) -> NormLayers:
    widths = {str(name): int(width) for name, width in json.loads(metadata[NORMS]).items()}
    trained = tensors[STATISTICS]
    if trained.shape != (2, sum(widths.values())) or not np.isfinite(trained).all():
        raise ValueError(f"the statistics of layers are not (2, {sum(widths.values())}) finite numbers")
    return NormLayers(widths=widths, trained=trained)


def serialise(
    model: Any, source: Source, extra: Mapping[str, str] | None = None, norms: NormLayers | None = None
) -> bytes:
    """Return an ONNX model as bytes, with classes, head, statistics, card and `extra` texts in its metadata.

    `norms` are the layers whose statistics the graph takes.
    """
    tensors = {"head.weight": source.weight, "head.bias": source.bias} | pack_stats(source.stats)
    if norms is not None:
        tensors[STATISTICS] = norms.trained
    metadata = {
        **({NORMS: json.dumps(dict(norms.widths))} if norms is not None else {}),
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


def run_for(seconds: float, session: Any, outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
    """Run a graph; raise an error of onnxruntime if that takes longer than some seconds."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    timer = Timer(seconds, setattr, (options, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        found: list[Array] = session.run(outputs, inputs, options)
        return found
    finally:
        timer.cancel()


@cache
def _limit_memory(n_bytes: int) -> None:
    """Limit the memory of all sessions of this process together: a small file can request any amount."""
    import onnxruntime

    kind, use = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, onnxruntime.OrtMemType.DEFAULT
    arena = onnxruntime.OrtArenaCfg({"max_mem": n_bytes})
    onnxruntime.create_and_register_allocator(onnxruntime.OrtMemoryInfo("Cpu", kind, 0, use), arena)


def open_session(model: Path | bytes, threads: int = 1) -> Any:
    """Open an onnxruntime session on the CPU; raise ValueError if the file is not an ONNX model."""
    import onnxruntime

    if isinstance(model, Path) and not model.is_file():
        raise FileNotFoundError(f"There is no model file {model}; check the path.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # 8-bit weights beyond -64 to 64, as other tools write them, saturate on processors without VNNI; this avoids it.
    options.add_session_config_entry("session.x64quantprecision", "1")
    _limit_memory(MAX_BYTES)
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.log_severity_level = 3  # its warnings concern its own optimiser; users cannot act on them
    content = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:  # onnxruntime raises a dozen private types
        name = model if isinstance(model, Path) else "The graph"
        raise ValueError(f"{name} is not an ONNX model that onnxruntime can read, or is cut short: {error}") from None
