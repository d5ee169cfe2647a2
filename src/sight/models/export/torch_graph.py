"""Conversion of a torch network to an ONNX graph that is fast on a CPU, with unchanged outputs.

onnxruntime has blocked kernels for 2-D convolutions but not for 1-D ones, and folds batch normalisation only into 2-D
convolutions. Signals are therefore treated as images of height one. An adaptive pool, which the exporter writes as
about forty nodes, becomes a product with a constant matrix.
"""

import copy
import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

#: Operators whose attributes need one more axis for images.
SHAPED = ("Conv", "MaxPool", "AveragePool")
#: Operators that are the same for signals and images.
UNSHAPED = ("Identity", "BatchNormalization", "Relu", "LeakyRelu", "Gelu", "Sigmoid", "Tanh", "Add")
#: End of the names of images and of weights for them.
WIDE = ".wide"


def to_graph(
    module: nn.Module, args: tuple[Tensor, ...], inputs: Sequence[str], outputs: Sequence[str], **options: Any
) -> Any:
    """Export a module as an ONNX model with these input and output names, its 1-D convolutions made 2-D.

    The exporter's optimiser stays off: it treats an addition of 1e-8 as an addition of zero and removes it, so that
    networks that rely on such a guard would divide by zero. onnxruntime optimises the graph when it loads it.
    """
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside torch's exporter
            program = torch.onnx.export(
                module.eval(),
                args,
                input_names=list(inputs),
                output_names=list(outputs),
                dynamo=True,
                optimize=False,
                verbose=False,
                **options,
            )
    finally:
        logger.setLevel(level)
    return strip_metadata(_Widening(program.model_proto).run())  # type: ignore[union-attr]


def strip_metadata(model: Any) -> Any:
    """Remove the exporter's notes from an ONNX model, in place; they are long and contain local paths."""
    graph = model.graph
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del part.metadata_props[:]
    return model


class BinAverage(nn.Module):
    """Adaptive average pool for signals of one fixed length, as a product with a matrix."""

    def __init__(self, length: int, bins: int) -> None:
        super().__init__()
        matrix = torch.zeros(length, bins)
        for k in range(bins):
            first, last = k * length // bins, -(-(k + 1) * length // bins)
            matrix[first:last, k] = 1 / (last - first)
        self.register_buffer("matrix", matrix, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.matrix  # type: ignore[operator]


def prepare_network(network: nn.Module, shape: tuple[int, int]) -> nn.Module:
    """Return a copy of a network for the export with windows of one shape (C, T).

    Adaptive average pools become `BinAverage`. Convolutions without bias get a bias of zeros: the exporter would
    compute one in every call, and onnxruntime folds batch normalisation only into a constant bias.
    """
    network = copy.deepcopy(network).eval()
    for module in network.modules():
        if isinstance(module, nn.Conv1d) and module.bias is None:
            module.bias = nn.Parameter(module.weight.new_zeros(module.out_channels))
    pools = {name: pool for name, pool in network.named_modules() if isinstance(pool, nn.AdaptiveAvgPool1d)}
    device = next(network.parameters()).device
    lengths = _input_lengths(network, pools, torch.zeros(1, *shape, device=device))
    for name, pool in pools.items():
        parent, _, child = name.rpartition(".")
        bins = pool.output_size if isinstance(pool.output_size, int) else pool.output_size[0]
        setattr(network.get_submodule(parent), child, BinAverage(lengths[name], bins).to(device))
    return network


def _input_lengths(network: nn.Module, layers: Mapping[str, nn.Module], window: Tensor) -> dict[str, int]:
    lengths: dict[str, int] = {}
    hooks = [
        layer.register_forward_pre_hook(lambda _, args, name=name: lengths.update({name: args[0].shape[-1]}))
        for name, layer in layers.items()
    ]
    with torch.no_grad():
        network(window)
    for hook in hooks:
        hook.remove()
    return lengths


class _Widening:
    """Turns signals of a graph into images, in place; `wide` maps the name of a signal to that of its image."""

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
            self.graph.initializer.append(self.numpy.from_array(np.array([2], np.int64), self._axis))
            _replace(self.graph.node, self.nodes)
            _replace(self.graph.value_info, [])
            used = {name for node in self.graph.node for name in node.input}
            _replace(self.graph.initializer, [tensor for tensor in self.graph.initializer if tensor.name in used])
        return self.model

    def _is_signal(self, node: Any) -> bool:
        if node.op_type == "Conv":
            weight = self.constants.get(node.input[1])
            return weight is not None and len(weight.dims) == 3
        if node.op_type in SHAPED:
            return node.input[0] in self.wide
        return node.op_type in UNSHAPED and all(name in self.wide for name in self._signals(node))

    def _signals(self, node: Any) -> list[str]:
        return list(node.input) if node.op_type == "Add" else [node.input[0]]

    def _widen(self, node: Any) -> None:
        for slot, name in enumerate(self._signals(node)):
            node.input[slot] = self._image(name)
        if node.op_type in SHAPED:
            self._add_height(node)
        for slot, name in enumerate(list(node.output)):
            if name:
                node.output[slot] = self.wide[name] = f"{name}{WIDE}"
        self.nodes.append(node)

    def _add_height(self, node: Any) -> None:
        if node.op_type == "Conv":
            weight = self.numpy.to_array(self.constants[node.input[1]])
            name = f"{node.input[1]}{WIDE}"
            if name not in self.constants:
                self.constants[name] = self.numpy.from_array(weight[:, :, None], name)
                self.graph.initializer.append(self.constants[name])
            node.input[1] = name
        for attribute in node.attribute:
            if attribute.name in ("kernel_shape", "strides", "dilations"):
                attribute.ints.insert(0, 1)
            elif attribute.name == "pads":
                before, after = attribute.ints
                attribute.ints[:] = [0, before, 0, after]

    def _image(self, name: str) -> str:
        if name not in self.wide:
            self.wide[name] = f"{name}{WIDE}"
            self.narrowed.add(name)
            self.nodes.append(self.helper.make_node("Unsqueeze", [name, self._axis], [self.wide[name]]))
        return self.wide[name]

    def _narrow(self, name: str) -> None:
        if name in self.wide and name not in self.narrowed:
            self.narrowed.add(name)
            self.nodes.append(self.helper.make_node("Squeeze", [self.wide[name], self._axis], [name]))


def _replace(field: Any, values: Sequence[Any]) -> None:
    del field[:]
    field.extend(values)
