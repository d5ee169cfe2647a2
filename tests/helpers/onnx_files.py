"""ONNX models made by hand, without torch: as sight exports them, and as other tools do."""

from __future__ import annotations

import base64
import json

import numpy as np
import safetensors.numpy

from sight.models.card import ModelCard
from sight.models.checkpoint import pack_stats
from sight.models.onnx import CARD, CLASSES, TENSORS
from sight.testing import toy_card
from sight.types import SourceStats

NAMES = ("sit", "walk")
WEIGHT, BIAS = np.array([[1, 0, 0.5], [0, 1, -0.5]], np.float32), np.array([0.1, -0.1], np.float32)


def small_card(**changes) -> ModelCard:
    return toy_card(**{"classes": NAMES} | changes)


def small_stats() -> SourceStats:
    return SourceStats(prior=np.full(2, 0.5, np.float32), feature_mean=WEIGHT.mean(axis=0), class_means=WEIGHT, count=9)


def write_model(path, *, card=None, tensors=None, metadata=None, graph_weight=WEIGHT, turns=None):
    """Write a model; `tensors` and `metadata` replace entries, and the features go `turns` times through a loop."""
    from onnx import TensorProto, helper, numpy_helper

    constants = [numpy_helper.from_array(graph_weight, "weight"), numpy_helper.from_array(BIAS, "bias")]
    constants.append(numpy_helper.from_array(np.array([2]), "axes"))
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["features"], keepdims=0),
        helper.make_node("Gemm", ["features", "weight", "bias"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    if turns is not None:
        state = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("before", "after")]
        flags = [helper.make_tensor_value_info(name, TensorProto.BOOL, ()) for name in ("go", "on")]
        number = helper.make_tensor_value_info("number", TensorProto.INT64, ())
        same = [helper.make_node("Identity", [a], [b]) for a, b in (("go", "on"), ("before", "after"))]
        body = helper.make_graph(same, "body", [number, flags[0], state[0]], [flags[1], state[1]])
        constants += [numpy_helper.from_array(np.array(turns), "turns"), numpy_helper.from_array(np.array(True), "yes")]
        nodes[0].output[0] = "means"
        nodes.insert(1, helper.make_node("Loop", ["turns", "yes", "means"], ["features"], body=body))
    sizes = {"x": ("B", 3, 20), "features": ("B", 3), "logits": ("B", 2), "probabilities": ("B", 2)}
    x, *outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()]
    graph = helper.make_graph(nodes, "small", [x], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    arrays = {"head.weight": WEIGHT, "head.bias": BIAS} | pack_stats(small_stats()) | (tensors or {})
    texts = {
        CLASSES: json.dumps(NAMES),
        TENSORS: base64.b64encode(safetensors.numpy.save(arrays)).decode("ascii"),
        CARD: (card or small_card()).to_json(),
    }
    helper.set_model_props(model, texts | (metadata or {}))
    path.write_bytes(model.SerializeToString())
    return path


def keras_like(path, *, gemm=False, two_heads=False, batch="N", outputs=("dense_1", "dense_2")):
    """Write a graph as tf2onnx does: input (N, T, C), MatMul and Add, scoped names, copies as outputs."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    shapes = {"mix": (3, 8), "mix_b": (8,), "out": (8, 3), "out_b": (3,)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    constants.append(numpy_helper.from_array(np.array([1]), "axes"))
    head = [
        helper.make_node("MatMul", ["m/dense_1/Relu:0", "out"], ["m/dense_2/MatMul:0"]),
        helper.make_node("Cast", ["m/dense_2/MatMul:0"], ["m/dense_2/Cast:0"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["m/dense_2/Cast:0", "out_b"], ["m/dense_2/BiasAdd:0"]),
    ]
    if gemm:
        head = [helper.make_node("Gemm", ["m/dense_1/Relu:0", "out", "out_b"], ["m/dense_2/BiasAdd:0"])]
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["m/pool"], keepdims=0),
        helper.make_node("MatMul", ["m/pool", "mix"], ["m/dense_1/MatMul:0"]),
        helper.make_node("Add", ["m/dense_1/MatMul:0", "mix_b"], ["m/dense_1/BiasAdd:0"]),
        helper.make_node("Relu", ["m/dense_1/BiasAdd:0"], ["m/dense_1/Relu:0"]),
        *head,
        helper.make_node("Softmax", ["m/dense_2/BiasAdd:0"], ["dense_2"], axis=1),
        helper.make_node("Identity", ["m/dense_1/BiasAdd:0" if two_heads else "m/dense_1/Relu:0"], ["dense_1"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 20, 3])
    made = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 8 - 5 * (name == "dense_2")]) for name in outputs
    ]
    graph = helper.make_graph(nodes, "keras", [x], made, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path
