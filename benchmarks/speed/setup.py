"""Models and streams for timing, at the shapes of two datasets of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from sight.base import Adapter
from sight.models.export.int8 import quantise
from sight.models.export.onnx import export_onnx
from sight.models.onnx import OnnxSource
from sight.models.torch import TorchSource
from sight.models.train import train
from sight.types import Array


class Shape(NamedTuple):
    """Size and rate of a dataset's windows."""

    name: str
    channels: int
    length: int
    classes: int
    rate_hz: float
    stride_s: float


SHAPES = (
    Shape("harth", channels=3, length=100, classes=5, rate_hz=50.0, stride_s=1.0),
    Shape("capture24", channels=3, length=1000, classes=4, rate_hz=100.0, stride_s=10.0),
)


class TimingSetup(NamedTuple):
    """One network on three runtimes, and a stream."""

    shape: Shape
    torch: TorchSource
    onnx: OnnxSource
    int8: OnnxSource
    x: Array  # (N, C, T)


def make_setup(shape: Shape, windows: int, folder: Path) -> TimingSetup:
    """Train the paper's CNN briefly on sine waves of several rates, export it, and generate a stream of such waves.

    The training is long enough for certain predictions: SAR and EATA learn from certain windows only.
    """
    rng = np.random.default_rng(0)
    x, y = waves(shape, 24 * shape.classes, rng, segment=1)
    names = tuple(f"activity {k}" for k in range(shape.classes))
    source = train((x, y), names, epochs=6, rate_hz=shape.rate_hz, stride_s=shape.stride_s)
    path = export_onnx(source, folder / f"{shape.name}.onnx")
    small = quantise(path, folder / f"{shape.name}.int8.onnx", x[:100])
    stream, _ = waves(shape, windows, rng, segment=12)
    return TimingSetup(shape, source, OnnxSource(path), OnnxSource(small), stream)


def waves(shape: Shape, windows: int, rng: np.random.Generator, segment: int) -> tuple[Array, Array]:
    """Generate windows (N, C, T) whose class is the rate of a noisy sine wave, and their classes (N,)."""
    y = np.repeat(rng.permutation(-(-windows // segment)) % shape.classes, segment)[:windows]
    time_s = np.arange(shape.length) / shape.rate_hz
    phase = rng.uniform(0, 2 * np.pi, size=(windows, shape.channels, 1))
    wave = np.sin(2 * np.pi * (0.7 + y)[:, None, None] * time_s + phase)
    noise = rng.normal(size=(windows, shape.channels, shape.length))
    return (wave + 0.5 * noise).astype(np.float32), y


def counted_state(adapter: Adapter) -> dict[str, int]:
    """Return the bytes of a bound adapter by kind, of the kinds that the paper counts for its method (`MEMORY_SUM`)."""
    kinds = {kind: size for kind, size in adapter.state_bytes().items() if size}
    return {kind: kinds[kind] for kind in getattr(adapter, "MEMORY_SUM", kinds) if kind in kinds}
