"""Make an exported network quick on a processor, without changing what it answers.

onnxruntime has blocked kernels for convolutions of images and none for those of signals, and folds normalisation into
image convolutions only; so a signal becomes an image of height one. An adaptive pool, which the exporter spells out in
some forty nodes, becomes the product with a constant matrix that it is.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

#: Operators that work on images as they do on signals, once their attributes have one more axis.
SHAPED = ("Conv", "MaxPool", "AveragePool")
SAME = ("Identity", "BatchNormalization", "Relu", "LeakyRelu", "Gelu", "Sigmoid", "Tanh", "Add")


def to_graph(
    module: nn.Module, given: tuple[Tensor, ...], inputs: Sequence[str], outputs: Sequence[str], **options: Any
) -> Any:
    """Export a module as an ONNX model with these names, its convolutions widened and nothing noted beside them.

    The exporter's optimiser stays off: it takes an addition of 1e-8 for one of nothing and drops it, and what relies on
    such a guard then divides by zero. onnxruntime optimises when it loads.
    """
    quiet = logging.getLogger("torch.onnx")
    level = quiet.level
    try:
        quiet.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside torch's own exporter
            program = torch.onnx.export(
                module.eval(),
                given,
                input_names=list(inputs),
                output_names=list(outputs),
                dynamo=True,
                optimize=False,
                verbose=False,
                **options,
            )
    finally:
        quiet.setLevel(level)
    return without_notes(widen(program.model_proto))  # type: ignore[union-attr]


def without_notes(model: Any) -> Any:
    """Drop what the exporter wrote about its own work, in place: long texts, some with folders of this machine."""
    graph = model.graph
    for noted in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del noted.metadata_props[:]
    return model


class BinAverage(nn.Module):
    """An adaptive average pool for signals of one length, as a product with a matrix."""

    def __init__(self, length: int, bins: int) -> None:
        super().__init__()
        matrix = torch.zeros(length, bins)
        for k in range(bins):
            first, last = k * length // bins, -(-(k + 1) * length // bins)
            matrix[first:last, k] = 1 / (last - first)
        self.register_buffer("matrix", matrix, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Signals (B, C, L) to their averages (B, C, bins)."""
        return x @ self.matrix  # type: ignore[operator]


def prepared(network: nn.Module, shape: tuple[int, int]) -> nn.Module:
    """Copy a network for the export of windows of one shape (C, T).

    Adaptive average pools become `BinAverage`. Convolutions without bias get one of zeros: the exporter would compute
    it anew in every call, and onnxruntime folds normalisation only into a bias that is constant.
    """
    network = copy.deepcopy(network).eval()
    for module in network.modules():
        if isinstance(module, nn.Conv1d) and module.bias is None:
            module.bias = nn.Parameter(module.weight.new_zeros(module.out_channels))
    pools = {name: pool for name, pool in network.named_modules() if isinstance(pool, nn.AdaptiveAvgPool1d)}
    lengths = _lengths(network, pools, shape)
    for name, pool in pools.items():
        parent, _, child = name.rpartition(".")
        bins = pool.output_size if isinstance(pool.output_size, int) else pool.output_size[0]
        setattr(network.get_submodule(parent), child, BinAverage(lengths[name], bins).to(_device(network)))
    return network


def _lengths(network: nn.Module, pools: Mapping[str, nn.Module], shape: tuple[int, int]) -> dict[str, int]:
    """Send one window through and note how long a signal each pool gets."""
    found: dict[str, int] = {}
    hooks = [
        pool.register_forward_pre_hook(lambda _, given, name=name: found.update({name: given[0].shape[-1]}))
        for name, pool in pools.items()
    ]
    with torch.no_grad():
        network(torch.zeros(1, *shape, device=_device(network)))
    for hook in hooks:
        hook.remove()
    return found


def _device(network: nn.Module) -> torch.device:
    return next(network.parameters()).device


def widen(model: Any) -> Any:
    """Turn the convolutions and pools of signals in an ONNX model into those of images of height one, in place."""
    return _Widening(model).run()


class _Widening:
    """One walk over a graph in its order; `wide` maps a signal's name to that of the image that replaces it."""

    def __init__(self, model: Any) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.numpy = helper, numpy_helper
        self.model, self.graph = model, model.graph
        self.constants = {tensor.name: tensor for tensor in self.graph.initializer}
        self.wide: dict[str, str] = {}
        self.narrowed: set[str] = set()
        self.nodes: list[Any] = []
        self._axis = "sight.height_axis"

    def run(self) -> Any:
        axis = self.numpy.from_array(np.array([2], np.int64), self._axis)
        for node in list(self.graph.node):
            if self._is_signal(node):
                self._widen(node)
            else:
                for name in node.input:
                    self._narrow(name)
                self.nodes.append(node)
        for output in self.graph.output:
            self._narrow(output.name)
        if self.wide:
            self.graph.initializer.append(axis)
            del self.graph.node[:]
            self.graph.node.extend(self.nodes)
            del self.graph.value_info[:]
            self._drop_unused()
        return self.model

    def _drop_unused(self) -> None:
        used = {name for node in self.graph.node for name in node.input}
        kept = [tensor for tensor in self.graph.initializer if tensor.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)

    def _is_signal(self, node: Any) -> bool:
        if node.op_type == "Conv":
            weight = self.constants.get(node.input[1])
            return weight is not None and len(weight.dims) == 3
        if node.op_type in SHAPED:
            return node.input[0] in self.wide
        return node.op_type in SAME and all(name in self.wide for name in self._signals(node))

    def _signals(self, node: Any) -> list[str]:
        return list(node.input) if node.op_type == "Add" else [node.input[0]]

    def _widen(self, node: Any) -> None:
        for slot, name in enumerate(self._signals(node)):
            node.input[slot] = self._image(name)
        if node.op_type in SHAPED:
            self._give_height(node)
        for slot, name in enumerate(list(node.output)):
            if name:
                node.output[slot] = self.wide[name] = f"{name}.wide"
        self.nodes.append(node)

    def _give_height(self, node: Any) -> None:
        if node.op_type == "Conv":
            weight = self.numpy.to_array(self.constants[node.input[1]])
            name = f"{node.input[1]}.wide"
            if name not in self.constants:
                self.constants[name] = self.numpy.from_array(weight[:, :, None], name)
                self.graph.initializer.append(self.constants[name])
            node.input[1] = name
        neutral = {"kernel_shape": (1,), "strides": (1,), "dilations": (1,)}
        for attribute in node.attribute:
            if attribute.name in neutral:
                attribute.ints.insert(0, 1)
            elif attribute.name == "pads":
                before, after = attribute.ints
                attribute.ints[:] = [0, before, 0, after]

    def _image(self, name: str) -> str:
        if name not in self.wide:
            self.wide[name] = f"{name}.wide"
            self.narrowed.add(name)
            self.nodes.append(self.helper.make_node("Unsqueeze", [name, self._axis], [self.wide[name]]))
        return self.wide[name]

    def _narrow(self, name: str) -> None:
        if name in self.wide and name not in self.narrowed:
            self.narrowed.add(name)
            self.nodes.append(self.helper.make_node("Squeeze", [self.wide[name], self._axis], [name]))
