"""Statistics of batch normalisation as an input of an ONNX graph, and moments of the layers as an output."""

from typing import Any

import numpy as np

from sight.models.onnx import MOMENTS, STATISTICS
from sight.types import NormLayers


def add_statistics(model: Any, layers: NormLayers) -> None:
    """Add the input `STATISTICS` (2, C) and the output `MOMENTS` (B, 2, C) to a graph of `export_onnx`, in place.

    The input has the trained statistics as its default. Moments are computed by global average pools, for which
    onnxruntime has kernels in the layout of its convolutions.
    """
    from onnx import TensorProto, helper, numpy_helper, shape_inference

    graph, widths = model.graph, layers.widths
    _flatten_windows(graph)
    values = shape_inference.infer_shapes(model).graph.value_info
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    constants = {
        STATISTICS: layers.trained,
        f"{STATISTICS}.flat": np.array([-1]),
        f"{STATISTICS}.widths": np.array([*widths.values()] * 2),
        f"{MOMENTS}.shape": np.array([-1, 2, layers.trained.shape[1]]),
    }
    parts = [[f"{name}.{kind}" for name in widths] for kind in ("mean", "var")]
    nodes = [
        helper.make_node("Reshape", [STATISTICS, f"{STATISTICS}.flat"], [f"{STATISTICS}.all"]),
        helper.make_node("Split", [f"{STATISTICS}.all", f"{STATISTICS}.widths"], [*parts[0], *parts[1]], axis=0),
    ]
    trained = {f"network.{name}.running_mean": name for name in widths}
    seen: dict[str, str] = {}  # input of each layer
    for node in graph.node:
        if node.op_type == "BatchNormalization" and node.input[3] in trained:
            name = trained[node.input[3]]
            seen[name], node.input[3], node.input[4] = node.input[0], f"{name}.mean", f"{name}.var"
        nodes.append(node)
    if missing := [name for name in widths if name not in seen]:
        raise RuntimeError(
            f"Expected batch normalisations {missing} in the exported graph, found none; use plain keel."
        )
    flat = len({ranks[value] for value in seen.values()}) > 1  # only tensors of one rank can be joined
    moments: list[list[str]] = [[], []]
    for name in widths:
        square = f"{name}.square"
        nodes.append(helper.make_node("Mul", [seen[name]] * 2, [square]))
        for value, kind in zip((seen[name], square), moments, strict=True):
            last = value
            for operator in (["GlobalAveragePool"] if ranks[seen[name]] > 2 else []) + ["Flatten"] * flat:
                nodes.append(helper.make_node(operator, [last], [f"{last}.{operator}"]))
                last = f"{last}.{operator}"
            kind.append(last)
    nodes.append(helper.make_node("Concat", [*moments[0], *moments[1]], [f"{MOMENTS}.all"], axis=1))
    nodes.append(helper.make_node("Reshape", [f"{MOMENTS}.all", f"{MOMENTS}.shape"], [MOMENTS]))
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept + [numpy_helper.from_array(array, name) for name, array in constants.items()])
    graph.input.append(helper.make_tensor_value_info(STATISTICS, TensorProto.FLOAT, layers.trained.shape))
    sizes = [graph.input[0].type.tensor_type.shape.dim[0].dim_param, *constants[f"{MOMENTS}.shape"][1:].tolist()]
    graph.output.append(helper.make_tensor_value_info(MOMENTS, TensorProto.FLOAT, sizes))


def _flatten_windows(graph: Any) -> None:
    """Replace reshapes to (batch, size), for which the exporter computes the batch size in four nodes, by Flatten."""
    from onnx import helper

    makers = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        shape = makers.get(node.input[1]) if node.op_type == "Reshape" else None
        if shape is None or shape.op_type != "Concat" or len(shape.input) != 2:
            continue
        first = makers.get(shape.input[0])
        while first is not None and first.op_type in ("Reshape", "Squeeze"):
            first = makers.get(first.input[0])
        if first is not None and first.op_type == "Shape" and first.input[0] == "x":
            node.CopyFrom(helper.make_node("Flatten", [node.input[0]], [node.output[0]], axis=1))
    used = {value.name for value in graph.output}
    for node in reversed(list(graph.node)):
        if used.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            used.update(node.input)
