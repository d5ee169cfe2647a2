"""Layers of an encoder, read from an exported ONNX graph, plain or quantised; needs the package onnx."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from sight.models.export.c.layers import Conv, Encoder, Layer, Pool, Signal
from sight.types import Array

#: Largest number of a byte.
TOP = 255
#: Operators that keep the values of a signal as the C source stores it.
COPIES = ("Identity", "Dropout", "Unsqueeze", "Squeeze", "DequantizeLinear")
#: Operators that compute the shape of the features, which is known.
SHAPES = ("Shape", "Concat", "Constant")


def read_encoder(model: Any) -> Encoder:
    """Return the layers of a graph of `sight.models.export.onnx` or `sight.models.export.int8`.

    Raises
    ------
    ValueError
        If the graph has an operator that the C source does not have.
    """
    return _Reader(model.graph).read()


class _Reader:
    def __init__(self, graph: Any) -> None:
        from onnx import numpy_helper

        self.graph = graph
        self.constants: dict[str, Array] = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = _constant(node)
        self.scales: dict[str, Array] = {}  # of quantised weights
        self.uses: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self.uses.setdefault(name, []).append(node)
        self.signals: dict[str, Signal] = {}
        self.layers: list[Layer] = []
        self.steps: Mapping[str, Callable[[Any], None]] = {
            "Sub": self._subtract, "Div": self._divide, "IsNaN": self._skip, "Where": self._fill,
            "QuantizeLinear": self._quantise, "Conv": self._conv, "BatchNormalization": self._fold, "Relu": self._relu,
            "Add": self._add, "MaxPool": self._pool, "AveragePool": self._pool, "ReduceMean": self._mean,
            "MatMul": self._bins, "Reshape": self._flatten, "Flatten": self._flatten, "Gemm": self._skip,
            "Softmax": self._skip,
        }  # fmt: skip

    def read(self) -> Encoder:
        channels, length = (dim.dim_value for dim in self.graph.input[0].type.tensor_type.shape.dim[1:])
        self.input = Signal("window", length, channels)
        self.signals[self.graph.input[0].name] = self.input
        self.mean, self.std = np.zeros(channels), np.ones(channels)
        self.fill: Array | None = None
        self.last: Signal | None = None
        for node in self.graph.node:
            if node.op_type in SHAPES:
                continue
            if node.op_type == "DequantizeLinear" and node.input[0] in self.constants:
                self._dequantise(node)
            elif node.op_type in COPIES:
                self._copy(node)
            elif node.op_type in self.steps:
                self.steps[node.op_type](node)
            else:
                self._refuse(node, f"the operator {node.op_type}")
        head = next(node for node in self.graph.node if node.op_type == "Gemm")
        if self.last is None:
            raise ValueError("Expected means over time before the head of the graph, found none; export the adapter.")
        return Encoder(
            input=self.input, mean=self.mean, std=self.std, fill=self.fill, layers=self.layers, last=self.last,
            bins=self.parts, weight=self.constants[head.input[1]], bias=self.constants[head.input[2]],
        )  # fmt: skip

    def _refuse(self, node: Any, what: str) -> NoReturn:
        raise ValueError(
            f"Expected an encoder of convolutions, batch normalisation, ReLU, additions and pools for C, found {what} "
            f"at {node.output[0]!r}; export the adapter alone (--adapter-only) and run the encoder with another tool."
        )

    def _skip(self, node: Any) -> None:
        """Leave out what is done elsewhere."""

    def _copy(self, node: Any) -> None:
        if node.input[0] in self.signals:
            self.signals[node.output[0]] = self.signals[node.input[0]]

    def _input(self, node: Any) -> Signal:
        if node.input[0] not in self.signals:
            self._refuse(node, f"an unknown input {node.input[0]!r}")
        return self.signals[node.input[0]]

    def _normalises(self, node: Any) -> Array:
        """Return the constant of a normalisation of the input, (C,)."""
        value = self.constants.get(node.input[1])
        if self._input(node) is not self.input or self.layers or value is None:
            self._refuse(node, f"{node.op_type} behind the first layer")
        self._copy(node)
        return np.broadcast_to(value.reshape(-1), self.input.channels).astype(np.float64)

    def _subtract(self, node: Any) -> None:
        self.mean = self._normalises(node)

    def _divide(self, node: Any) -> None:
        self.std = self._normalises(node)

    def _fill(self, node: Any) -> None:
        if node.input[1] not in self.constants or self.signals.get(node.input[2]) is not self.input:
            self._refuse(node, "Where behind the first layer")
        self.fill = np.broadcast_to(self.constants[node.input[1]].reshape(-1), self.input.channels)
        self.signals[node.output[0]] = self.input

    def _dequantise(self, node: Any) -> None:
        values, scale = self.constants[node.input[0]], self.constants[node.input[1]]
        self.scales[node.output[0]] = scale
        self.constants[node.output[0]] = values * scale if values.ndim == 1 else values

    def _quantise(self, node: Any) -> None:
        signal = self.signals[node.output[0]] = self._input(node)
        maker = self._maker(signal)
        signals = [signal]
        if isinstance(maker, Pool):  # input and output of a pool are stored alike
            signals = [signal, maker.input] if maker.kind == "max_pool" and maker.input.scale is None else []
        for each in signals:
            each.scale, each.zero = float(self.constants[node.input[1]]), int(self.constants[node.input[2]])

    def _maker(self, signal: Signal) -> Layer | None:
        return next((layer for layer in self.layers if layer.output is signal), None)

    def _is_used_once(self, name: str) -> bool:
        """Return whether a tensor has one user, seen through copies and quantisation."""
        users = self.uses.get(name, [])
        if len(users) == 1 and users[0].op_type in (*COPIES, "QuantizeLinear"):
            return self._is_used_once(users[0].output[0])
        return len(users) == 1

    def _is_stored_alike(self, conv: Conv, other: str) -> bool:
        """Return whether a residual is stored as the input of a convolution is: both in bytes or both in floats."""
        return other in self.signals and (self.signals[other].scale is None) == (conv.input.scale is None)

    def _conv(self, node: Any) -> None:
        attributes, signal = _attributes(node), self._input(node)
        stored = self.constants[node.input[1]]
        weight = stored.reshape(*stored.shape[:2], stored.shape[-1]).transpose(0, 2, 1)
        kernel, padding = weight.shape[1], _padding(attributes)
        if padding is None or padding >= kernel or attributes["group"] != 1 or attributes["dilations"][-1] != 1:
            self._refuse(node, "a convolution with groups, dilation or uneven padding")
        stride = attributes["strides"][-1]
        name = self._name(node.input[1])
        output = Signal(name, (signal.length + 2 * padding - kernel) // stride + 1, len(weight))
        bias = self.constants[node.input[2]] if len(node.input) > 2 else np.zeros(len(weight), np.float32)
        scale = self.scales.get(node.input[1])
        if (scale is None) != (signal.scale is None):
            self._refuse(node, "a convolution of which either the weights or the input are quantised")
        if scale is not None and (signal.zero or signal.channels % 4):
            self._refuse(node, "an 8-bit convolution of negative values, or of channels that are no multiple of four")
        self.layers.append(Conv(name, signal, output, weight, bias, stride, padding, scale))
        self.signals[node.output[0]] = output

    def _name(self, weight: str) -> str:
        """Return a name for a convolution in C, given that of its weight: network.stem.0.weight is conv_stem_0."""
        path = weight.rsplit("network.", maxsplit=1)[-1].split(".weight", maxsplit=1)[0]
        name = "conv_" + "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in path)
        taken = sum(layer.name.split("_use_")[0] == name for layer in self.layers)  # a weight may be used twice
        return f"{name}_use_{taken + 1}" if taken else name

    def _fold(self, node: Any) -> None:
        maker = self._maker(self._input(node))
        if not isinstance(maker, Conv) or maker.relu or not self._is_used_once(node.input[0]):
            self._refuse(node, "batch normalisation that does not follow a convolution")
        scale, shift, mean, variance = (self.constants[name].astype(np.float64) for name in node.input[1:])
        factor = scale / np.sqrt(variance + _attributes(node)["epsilon"])
        maker.weight = (maker.weight * factor[:, None, None]).astype(np.float32)
        maker.bias = ((maker.bias - mean) * factor + shift).astype(np.float32)
        self._copy(node)

    def _relu(self, node: Any) -> None:
        signal = self._input(node)
        maker = self._maker(signal)
        if not isinstance(maker, Conv) or not self._is_used_once(node.input[0]):
            self._refuse(node, "a ReLU that does not follow a convolution or an addition")
        maker.relu = True
        if signal.scale:  # negative values are gone: all bytes are for positive ones
            signal.scale, signal.zero = (TOP - signal.zero) * signal.scale / TOP, 0
        self._copy(node)

    def _add(self, node: Any) -> None:
        """Make an addition part of the last of the two convolutions that it adds."""
        makers = [self._maker(self.signals[name]) if name in self.signals else None for name in node.input]
        able = [
            (self.layers.index(maker), slot)
            for slot, maker in enumerate(makers)
            if isinstance(maker, Conv) and not maker.relu and self._is_used_once(node.input[slot])
            if self._is_stored_alike(maker, node.input[1 - slot])
        ]
        if None in makers or not able:
            self._refuse(node, "an addition of something else than the output of a convolution")
        at, slot = max(able)
        conv, residual = self.layers[at], self.signals[node.input[1 - slot]]
        assert isinstance(conv, Conv)
        conv.residual = residual
        conv.output.scale, conv.output.zero = None, 0
        self.layers.append(self.layers.pop(at))
        self.signals[node.output[0]] = conv.output

    def _pool(self, node: Any) -> None:
        attributes, signal = _attributes(node), self._input(node)
        kernel, stride, padding = attributes["kernel_shape"][-1], attributes["strides"][-1], _padding(attributes)
        kind = "max_pool" if node.op_type == "MaxPool" else "average_pool"
        if padding is None or padding >= kernel or (kind == "average_pool" and padding):
            self._refuse(node, "a pool with uneven padding")
        rest = signal.length + 2 * padding - kernel
        length = (-(-rest // stride) if attributes.get("ceil_mode") else rest // stride) + 1
        number = 1 + sum(layer.kind == kind for layer in self.layers)
        output = Signal(f"{kind}_{number}", length, signal.channels, signal.scale, signal.zero)
        self.layers.append(Pool(kind, output.name, signal, output, kernel, stride, padding))
        self.signals[node.output[0]] = output

    def _mean(self, node: Any) -> None:
        self.last = self._input(node)
        self.parts = [(0, self.last.length)]

    def _bins(self, node: Any) -> None:
        """Take a product with a matrix (length, bins) whose columns are the mean over a part of the signal."""
        self.last, matrix = self._input(node), self.constants.get(node.input[1])
        if matrix is None or matrix.shape[0] != self.last.length:
            self._refuse(node, "a matrix product that is no mean over time")
        self.parts = [(int(used[0]), int(used[-1]) + 1) for used in map(np.flatnonzero, matrix.T)]
        expected = np.zeros_like(matrix)
        for column, (first, end) in zip(expected.T, self.parts, strict=True):
            column[first:end] = 1 / (end - first)
        if not np.allclose(matrix, expected):
            self._refuse(node, "a matrix product that is no mean over time")

    def _flatten(self, node: Any) -> None:
        if self.last is None and node.input[0] in self.signals:
            self._refuse(node, "features that are no means over time")


def _constant(node: Any) -> Array:
    from onnx import helper, numpy_helper

    value = helper.get_attribute_value(node.attribute[0])
    return numpy_helper.to_array(value) if hasattr(value, "dims") else np.asarray(value)


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return {"strides": [1], "dilations": [1], "group": 1} | given


def _padding(attributes: Mapping[str, Any]) -> int | None:
    """Return the samples of padding on both sides; None if they differ."""
    pads = attributes.get("pads", [0, 0])
    before, after = pads[len(pads) // 2 - 1], pads[-1]
    return int(before) if before == after else None
