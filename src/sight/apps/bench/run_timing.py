"""Seconds per window of training and of methods, measured on made windows, for estimates of a run."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sight.apps.bench.trials import Variant
from sight.types import Array, Windows

#: Number of made windows: for training, and for a method, two chunks of methods that predict in chunks.
TRAIN_WINDOWS, METHOD_WINDOWS = 256, 128


@dataclass(frozen=True, kw_only=True)
class Network:
    """What the time of a window depends on: the network and the shape of its input and output."""

    encoder: str
    channels: int
    length: int
    classes: int


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """Seconds of one process for one window."""

    epoch: float  # one epoch of training
    encode: float
    methods: dict[str, float]  # by registry name


def measure(network: Network, variants: Iterable[Variant], *, device: str = "cpu") -> Seconds:
    """Train a network for an epoch on made windows, and run each method on a made stream."""
    from sight.models.train import one_thread, train

    names = tuple(str(k) for k in range(network.classes))

    def fit(windows: Windows, **fields: Any) -> Any:
        return train(windows, names, encoder=network.encoder, epochs=1, **fields)

    source = fit(_made(network, METHOD_WINDOWS), device=device, fisher=True).to("cpu")
    windows = _made(network, TRAIN_WINDOWS)
    epoch = _seconds(lambda: fit(windows, device=device, stats=False)) / TRAIN_WINDOWS
    stream = _made(network, METHOD_WINDOWS)
    with one_thread():
        encoded = source.encode(stream.x)
        encode = _seconds(lambda: source.encode(stream.x)) / METHOD_WINDOWS
        methods = {variant.method: _method_seconds(variant, source, stream, encoded) for variant in variants}
    return Seconds(epoch=epoch, encode=encode, methods=methods)


def _method_seconds(variant: Variant, source: Any, stream: Windows, encoded: tuple[Array, Array]) -> float:
    """Return the seconds per window of a method; 0 if it does not run on this network, which the run then reports."""
    from sight.results.prediction_loop import run

    try:
        adapter = variant.adapter().bind(source)
        run(adapter, stream, encoded=encoded)  # the first run compiles
        return _seconds(lambda: run(adapter, stream, encoded=encoded)) / METHOD_WINDOWS
    except Exception:  # third-party methods may raise anything
        return 0.0


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _made(network: Network, count: int) -> Windows:
    """Return windows of noise, in segments of eight windows of a class."""
    shape = (count, network.channels, network.length)
    return Windows(
        x=np.random.default_rng(0).normal(size=shape).astype(np.float32),
        time_s=np.arange(count, dtype=np.float64),
        label=np.arange(count) // 8 % network.classes,
        gap_before_s=np.zeros(count),
        window_s=1.0,
        stride_s=1.0,
    )
