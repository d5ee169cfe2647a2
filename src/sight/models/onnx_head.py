"""The linear head at the end of an ONNX graph, and graphs of other tools rewritten to the form that sight runs.

Needs the package onnx. Keras and TensorFlow write a dense layer as MatMul and Add, torch as Gemm.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sight.types import Array

#: Operators that may follow the linear head without changing where the model splits.
AFTER_HEAD = ("Softmax", "LogSoftmax", "Identity", "Cast")
#: Operators that return their input in a trained model. Keras casts float32 to itself between all layers.
COPIES = ("Identity", "Dropout", "Cast")
PREFIX = "own/"


class Head(NamedTuple):
    """A linear layer that an output of a graph ends with."""

    node: Any  # Gemm or MatMul
    features: str  # name of the tensor that it reads
    logits: str  # name of the tensor that it returns, with the bias
    tensors: tuple[Any, Any]  # weight, and bias or None, as stored

    def arrays(self) -> tuple[Array, Array]:
        """Return weight (K, D) and bias (K,)."""
        from onnx import numpy_helper

        attributes = {entry.name: entry for entry in self.node.attribute}
        weight = np.array(numpy_helper.to_array(self.tensors[0]), np.float32)
        if not ("transB" in attributes and attributes["transB"].i):
            weight = weight.T
        bias = np.zeros(len(weight), np.float32)
        if self.tensors[1] is not None:
            bias = np.array(numpy_helper.to_array(self.tensors[1]), np.float32).ravel()
        alpha, beta = (attributes[name].f if name in attributes else 1.0 for name in ("alpha", "beta"))
        return np.ascontiguousarray(np.float32(alpha) * weight), np.float32(beta) * bias


def find_heads(graph: Any) -> Iterator[Head]:
    """Yield the linear layer of each output that ends with one, possibly followed by a softmax."""
    makers = {output: node for node in graph.node for output in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
    for output in graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type in AFTER_HEAD:
            node = makers.get(node.input[0])
        if node is None:
            continue
        logits, bias = node.output[0], None
        if node.op_type == "Add":  # a bias that is added to a matrix product
            bias = next((constants[name] for name in node.input if name in constants), None)
            products = [makers.get(_origin(name, makers)) for name in node.input]
            node = next((maker for maker in products if maker is not None and maker.op_type == "MatMul"), None)
        elif node.op_type == "Gemm" and len(node.input) > 2:
            bias = constants.get(node.input[2])
        if node is not None and node.op_type in ("Gemm", "MatMul") and node.input[1] in constants:
            yield Head(node, node.input[0], logits, (constants[node.input[1]], bias))


def adopt(path: Path, shape: tuple[int, int], features: str | None, time_first: bool) -> tuple[Any, Array, Array]:
    """Return an ONNX model of another tool with the inputs and outputs of sight's files, and its head, (K, D) and (K,).

    Windows have the shape (C, T). `features` names the output, tensor or layer that returns the input of the head, None
    if there is only one head. `time_first`, windows (B, T, C), is found out if C and T differ and the graph declares
    them.
    """
    import onnx
    from onnx import TensorProto, compose, helper

    model = onnx.load(str(path))
    head = _choose_head(model.graph, path, features)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    time_first = _is_time_first(inputs, shape, time_first, path)
    entry = inputs[0].name
    model = compose.add_prefix(model, PREFIX)
    first = helper.make_node("Transpose", ["x"], [PREFIX + entry], perm=[0, 2, 1] if time_first else [0, 1, 2])
    last = [
        helper.make_node("Identity", [PREFIX + head.features], ["features"]),
        helper.make_node("Identity", [PREFIX + head.logits], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    nodes = [first, *model.graph.node, *last]
    del model.graph.node[:], model.graph.output[:], model.graph.value_info[:]
    kept = [value for value in model.graph.input if value.name != PREFIX + entry]
    del model.graph.input[:]
    model.graph.node.extend(nodes)
    model.graph.input.extend([helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape]), *kept])
    weight, bias = head.arrays()
    classes, dims = weight.shape
    for name, size in (("features", dims), ("logits", classes), ("probabilities", classes)):
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]))
    return model, weight, bias


def _choose_head(graph: Any, path: Path, features: str | None) -> Head:
    makers = {output: node for node in graph.node for output in node.output}
    heads = {id(head.node): head for head in find_heads(graph)}
    found = [head for head in heads.values() if features is None or _matches(head.features, features, makers)]
    if len(found) == 1:
        return found[0]
    if not heads:
        raise ValueError(
            f"{path}: expected an output that ends with a linear layer, possibly followed by a softmax, got none; "
            f"sight needs logits = weight · features + bias. Otherwise pass probabilities to sight.refine."
        )
    named = " or ".join(f"{head.features!r}" for head in heads.values())
    asked = "several linear layers at the end" if features is None else f"features={features!r}"
    raise ValueError(f"{path}: expected features that one linear layer at the end reads, got {asked}; choose {named}.")


def _matches(tensor: str, name: str, makers: dict[str, Any]) -> bool:
    """Return whether a tensor is, or is a copy of, the one that a name of a tensor, output or layer refers to."""
    own, other = _origin(tensor, makers), _origin(name, makers)
    return own == other or any(name == part.partition(":")[0] for part in own.split("/"))


def _origin(tensor: str, makers: dict[str, Any]) -> str:
    while tensor in makers and makers[tensor].op_type in COPIES:
        tensor = makers[tensor].input[0]
    return tensor


def _is_time_first(inputs: list[Any], shape: tuple[int, int], time_first: bool, path: Path) -> bool:
    sizes = [
        entry.dim_value or entry.dim_param or "?" for value in inputs for entry in value.type.tensor_type.shape.dim
    ]
    is_float = len(inputs) == 1 and inputs[0].type.tensor_type.elem_type == 1
    if is_float and len(sizes) == 3 and (isinstance(sizes[0], str) or sizes[0] == 1):
        fits = [
            all(isinstance(size, str) or size == wanted for size, wanted in zip(sizes[1:], order, strict=True))
            for order in (shape, shape[::-1])
        ]
        if fits[time_first]:
            return time_first
        if fits[not time_first]:
            return not time_first
    raise ValueError(
        f"{path}: expected one float32 input for windows (B, C, T) or (B, T, C) with C = {shape[0]} and T = {shape[1]} "
        f"(rate times window length), and a free batch size, got {len(inputs)} input(s) of shape {sizes}."
    )
