"""Layers of an encoder as the C source has them: signals (length, channels), convolutions, pools, means over bins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np

from sight.types import Array


@dataclass(eq=False)
class Signal:
    """What a layer reads or writes, (length, channels); with a scale it is stored in bytes."""

    name: str
    length: int
    channels: int
    scale: float | None = None  # value of one step of a byte; None for float32
    zero: int = 0  # byte that stands for 0

    @property
    def size(self) -> int:
        return self.length * self.channels

    @property
    def nbytes(self) -> int:
        return self.size if self.scale else 4 * self.size


@dataclass(eq=False)
class Conv:
    """Convolution over time with everything that follows it: batch normalisation, residual and ReLU."""

    kind: ClassVar[str] = "conv"
    name: str
    input: Signal
    output: Signal
    weight: Array  # (outputs, kernel, inputs), float or int8
    bias: Array  # (outputs,), in real values
    stride: int
    padding: int
    weight_scale: Array | None = None  # (outputs,), of int8 weights
    relu: bool = False
    residual: Signal | None = None  # added before the ReLU

    @property
    def inputs(self) -> list[Signal]:
        return [self.input] if self.residual is None else [self.input, self.residual]

    @property
    def kernel(self) -> int:
        return int(self.weight.shape[1])

    @property
    def multiply_adds(self) -> int:
        return self.output.length * int(self.weight.size)

    def run(self, x: Array, residual: Array | None) -> Array:
        weight = self.weight if self.weight_scale is None else self.weight * self.weight_scale[:, None, None]
        padded = np.pad(x, ((self.padding, self.padding), (0, 0)))
        starts = range(0, self.stride * self.output.length, self.stride)
        y: Array = np.array([np.tensordot(weight, padded[t : t + self.kernel], 2) for t in starts]) + self.bias
        y = y if residual is None else y + residual
        return np.maximum(y, 0) if self.relu else y


@dataclass(eq=False)
class Pool:
    """Largest value or mean of each channel under a kernel; what lies outside the signal does not count."""

    kind: str  # max_pool or average_pool
    name: str
    input: Signal
    output: Signal
    kernel: int
    stride: int
    padding: int

    multiply_adds: ClassVar[int] = 0

    @property
    def inputs(self) -> list[Signal]:
        return [self.input]

    def run(self, x: Array, _: Array | None) -> Array:
        first = np.arange(self.output.length) * self.stride - self.padding
        parts = [x[max(t, 0) : t + self.kernel] for t in first]
        return np.array([part.max(axis=0) if self.kind == "max_pool" else part.mean(axis=0) for part in parts])


Layer: TypeAlias = Conv | Pool


@dataclass(kw_only=True)
class Encoder:
    """Everything of an encoder: scaling of the input, layers, means over bins, head."""

    input: Signal
    mean: Array  # (C,)
    std: Array  # (C,)
    fill: Array | None = None  # (C,), replaces NaN
    layers: list[Layer] = field(default_factory=list)
    last: Signal  # whose means over bins are the features
    bins: Sequence[tuple[int, int]]  # first sample and end of each bin
    weight: Array  # (K, D) of the head
    bias: Array  # (K,)

    @property
    def int8(self) -> bool:
        return any(isinstance(layer, Conv) and layer.weight_scale is not None for layer in self.layers)

    @property
    def signals(self) -> list[Signal]:
        return [self.input, *(layer.output for layer in self.layers)]

    @property
    def multiply_adds(self) -> int:
        return sum(layer.multiply_adds for layer in self.layers) + int(self.weight.size)

    def features(self, x: Array) -> Array:
        """Return the features (D,) of a window (C, T), computed in float; bytes are not rounded."""
        values = {self.input: (x.T - self.mean) / self.std}
        for layer in self.layers:
            residual = values[layer.inputs[1]] if len(layer.inputs) > 1 else None
            values[layer.output] = layer.run(values[layer.input], residual)
        means: Array = np.array([values[self.last][first:end].mean(axis=0) for first, end in self.bins])
        return means.T.reshape(-1)
