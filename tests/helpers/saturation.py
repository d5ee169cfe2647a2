"""The 8-bit convolution of processors without VNNI, emulated: sums of two products saturate at 16 bits.

AVX2 multiplies unsigned activations by signed weights with ``pmaddubsw``, which adds neighbouring products in int16 and
clips the sum. onnxruntime packs the weights by position, then by input channel, so that pairs are neighbouring
channels. With fewer than four channels positions are joined, and pairs are neighbours in that order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from sight.types import Array

LARGEST = np.iinfo(np.int16).max


def conv_weights(path: Path) -> list[Array]:
    """Return the weights (O, C, 1, T) of the quantised convolutions of a graph, all but the first."""
    graph = onnx.load(path).graph
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made_by = {node.output[0]: node for node in graph.node}
    quantised = [node for node in graph.node if node.op_type == "Conv" and node.input[1] in made_by]
    return [arrays[made_by[node.input[1]].input[0]] for node in quantised]


def largest_pair(weight: Array) -> int:
    """Return the largest sum of two products that any activations, 0 to 255, can reach with neighbouring weights."""
    pairs = _pairs(weight.astype(np.int64))
    return int(255 * np.maximum(np.maximum(pairs, 0).sum(axis=-1), -np.minimum(pairs, 0).sum(axis=-1)).max())


def run(path: Path, x: Array, saturate: bool) -> Array:
    """Return the probabilities of windows (B, C, T) with exact or saturating convolutions."""
    graph = onnx.load(path).graph
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer} | {"x": x}
    made_by = {node.output[0]: node for node in graph.node}
    for node in graph.node:
        if node.op_type == "Conv" and node.input[1] in made_by:
            activation, weight = ([values[name] for name in made_by[n].input] for n in node.input[:2])
            products = _convolve(activation, weight, _attribute(node, "pads"), saturate)
            outputs = [products + values[node.input[2]][:, None, None]]
        else:
            outputs = ReferenceEvaluator(node).run(None, {name: values[name] for name in node.input if name})
        values |= dict(zip(node.output, outputs, strict=True))
    return values["probabilities"]


def _convolve(activation: list[Array], weight: list[Array], pads: list[int], saturate: bool) -> Array:
    """Convolve with stride 1 in integers, and return the dequantised result (B, O, 1, T)."""
    (a, a_scale, a_zero), (w, w_scale, _) = activation, weight
    size = w.shape[-1]
    padded = np.pad(a[:, :, 0], ((0, 0), (0, 0), (pads[1], pads[3])), constant_values=a_zero)
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=2)  # (B, C, T, size)
    left = _pairs(windows.transpose(0, 2, 1, 3)[:, :, :, None].astype(np.int32))  # (B, T, P, 2)
    right = _pairs(w.astype(np.int32))  # (O, P, 2)
    total = np.zeros((*left.shape[:2], len(right)), np.int64)
    for pair in range(right.shape[1]):
        sums = left[:, :, pair] @ right[:, pair].T
        total += np.clip(sums, -LARGEST - 1, LARGEST) if saturate else sums
    total -= int(a_zero) * w.astype(np.int64).sum(axis=(1, 2, 3))  # the zero point is subtracted after the sum
    return (total * (a_scale * w_scale)).transpose(0, 2, 1)[:, :, None].astype(np.float32)


def _pairs(values: Array) -> Array:
    """Return values (..., C, 1, T) by position, then by channel, in pairs (..., P, 2)."""
    flat = np.moveaxis(values[..., 0, :], -1, -2).reshape(*values.shape[:-3], -1)
    padding = [(0, 0)] * (flat.ndim - 1) + [(0, flat.shape[-1] % 2)]
    return np.pad(flat, padding).reshape(*flat.shape[:-1], -1, 2)


def _attribute(node: onnx.NodeProto, name: str) -> list[int]:
    return next(list(attribute.ints) for attribute in node.attribute if attribute.name == name)
