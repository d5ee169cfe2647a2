"""Quantisation of an exported encoder to 8 bits: a quarter of the size, faster on some processors."""

import json
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from sight._util.atomic import write_atomic
from sight.models.onnx import RANGES
from sight.types import Array

#: Percentile of the values of a layer that 8 bits cover; larger ones are clipped.
PERCENTILE = 99.99


def quantise(path: str | Path, out: str | Path, windows: Array | None = None) -> Path:
    """Write an exported model with its convolutions in int8, except the first one; the head stays float32.

    The first convolution, 1 % of the multiplications, stays float32: 8 bits are too coarse for samples of a sensor. The
    range of a layer leaves out the largest values (`PERCENTILE`), so that all others have finer steps.

    `windows` (N, C, T) in the units of the sensor, a few hundred that include every activity, set the range of each
    layer; no labels are needed. None takes the ranges that the file contains, as bundled models do (`store_ranges`).

    Static quantisation with quantise-dequantise pairs and one scale per channel of the weights. Weights have 7 bits
    (-64 to 64): processors with AVX2 and without VNNI add two products in 16 bits and clip the sum. With 7 bits no sum
    is clipped (2 x 255 x 64 = 32,640), so that predictions are the same with and without VNNI. The loss of accuracy
    depends on the model and the wearer; ``python -m benchmarks.speed methods`` measures it on real data.
    """
    import onnx

    stored: Mapping[str, Any] = {}
    if windows is None:
        stored, windows = read_ranges(path), _any_window(path)
    model = _quantised(path, windows, stored)
    del model.metadata_props[:]
    model.metadata_props.extend(onnx.load(path).metadata_props)
    return write_atomic(out, model.SerializeToString())


def store_ranges(path: str | Path, windows: Array) -> Path:
    """Write the range of each layer for `windows` (N, C, T) into an exported model; `quantise` then needs no data."""
    import onnx
    from onnx import numpy_helper

    graph = _quantised(path, windows, {}).graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    ranges = {
        node.input[0]: [float(constants[node.input[1]]), int(constants[node.input[2]])]
        for node in graph.node
        if node.op_type == "QuantizeLinear"
    }
    model = onnx.load(path)
    kept = [entry for entry in model.metadata_props if entry.key != RANGES]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    model.metadata_props.add(key=RANGES, value=json.dumps(ranges))
    return write_atomic(path, model.SerializeToString())


def read_ranges(path: str | Path) -> dict[str, tuple[float, int]]:
    """Return scale and zero point of each layer that an exported model contains; raise ValueError if it has none."""
    import onnx

    texts = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    if RANGES not in texts:
        raise ValueError(
            f"{path} contains no ranges of its layers, as bundled models do; give a recording to calibrate on."
        )
    return {name: (float(scale), int(zero)) for name, (scale, zero) in json.loads(texts[RANGES]).items()}


def _any_window(path: str | Path) -> Array:
    """Return one window of the graph's shape: where ranges are given, calibration needs a window but no values."""
    import onnx

    shape = [dim.dim_value for dim in onnx.load(path).graph.input[0].type.tensor_type.shape.dim[1:]]
    return np.zeros((1, *shape), np.float32)


def _quantised(path: str | Path, windows: Array, stored: Mapping[str, tuple[float, int]]) -> Any:
    import onnx
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    windows = np.ascontiguousarray(windows, np.float32)
    if windows.ndim != 3 or not len(windows) or not np.isfinite(windows).all():
        raise ValueError(f"Expected finite calibration windows (N, C, T), got shape {windows.shape}.")
    inputs = iter([{"x": window[None]} for window in windows])
    overrides = {
        name: [{"scale": np.array(scale, np.float32), "zero_point": np.array(zero, np.uint8)}]
        for name, (scale, zero) in stored.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        folded, small = Path(folder) / "folded.onnx", Path(folder) / "int8.onnx"
        quant_pre_process(str(path), str(folded), skip_symbolic_shape=True)
        first = next(node.name for node in onnx.load(folded).graph.node if node.op_type == "Conv")
        with redirect_stdout(StringIO()):  # its calibration prints what it does
            quantize_static(
                str(folded),
                str(small),
                SimpleNamespace(get_next=lambda: next(inputs, None)),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                reduce_range=True,
                op_types_to_quantize=["Conv", "MaxPool"],
                nodes_to_exclude=[first],
                calibrate_method=CalibrationMethod.Percentile,
                extra_options={"TensorQuantOverrides": overrides, "CalibPercentile": PERCENTILE},
            )
        return onnx.load(small)
