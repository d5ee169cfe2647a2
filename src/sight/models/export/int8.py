"""Quantisation of an exported encoder to 8 bits: a quarter of the size, faster on some processors."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from sight._util.atomic import write_atomic
from sight.types import Array


def quantise(path: str | Path, out: str | Path, windows: Array) -> Path:
    """Write an exported model with its convolutions in int8; the head and the layers after it stay float32.

    `windows` (N, C, T) in the units of the sensor, a few hundred that include every activity, set the range of each
    layer; no labels are needed.

    Static quantisation with quantise-dequantise pairs and one scale per channel of the weights. Weights have 7 bits
    (-64 to 64): processors with AVX2 and without VNNI add two products in 16 bits and clip the sum. With 7 bits no sum
    is clipped (2 x 255 x 64 = 32,640), so that predictions are the same with and without VNNI. The loss of accuracy
    depends on the model and the wearer; ``python -m benchmarks.speed methods`` measures it on real data.
    """
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    windows = np.ascontiguousarray(windows, np.float32)
    if windows.ndim != 3 or not len(windows) or not np.isfinite(windows).all():
        raise ValueError(f"Expected finite calibration windows (N, C, T), got shape {windows.shape}.")
    inputs = iter([{"x": window[None]} for window in windows])
    with tempfile.TemporaryDirectory() as folder:
        folded, small = Path(folder) / "folded.onnx", Path(folder) / "int8.onnx"
        quant_pre_process(str(path), str(folded), skip_symbolic_shape=True)
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
        )
        model = onnx.load(small)
    del model.metadata_props[:]
    model.metadata_props.extend(onnx.load(path).metadata_props)
    return write_atomic(out, model.SerializeToString())
