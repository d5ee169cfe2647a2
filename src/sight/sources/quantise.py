"""An exported encoder in 8 bits: a quarter of the bytes, for processors where integers are quicker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sight.atomic import write_atomic
from sight.types import Array


def quantise(path: str | Path, out: str | Path, windows: Array) -> Path:
    """Write an exported encoder with its convolutions in int8; the head and everything after it stay float32.

    Parameters
    ----------
    path
        An .onnx file of `sight.sources.onnx_export.export_onnx`.
    out
        Where to write.
    windows
        Typical windows (N, C, T) in the units of the sensor, a few hundred and of every activity: they decide the range
        of each layer. No labels.

    Notes
    -----
    Static, with quantise-dequantise pairs, weights by channel. What it costs in accuracy depends on model and wearer;
    ``sight bench speed`` tells for real data.
    """
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    windows = np.ascontiguousarray(windows, np.float32)
    if windows.ndim != 3 or not len(windows) or not np.isfinite(windows).all():
        raise ValueError(f"Expected finite calibration windows (N, C, T), got shape {windows.shape}.")
    with tempfile.TemporaryDirectory() as folder:
        folded, small = Path(folder) / "folded.onnx", Path(folder) / "int8.onnx"
        quant_pre_process(str(path), str(folded), skip_symbolic_shape=True)
        quantize_static(
            str(folded),
            str(small),
            _Calibration(windows),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["Conv", "MaxPool"],
        )
        model = onnx.load(small)
    del model.metadata_props[:]
    model.metadata_props.extend(onnx.load(path).metadata_props)
    return write_atomic(out, model.SerializeToString())


class _Calibration:
    """Windows one by one, as onnxruntime's calibration asks for them."""

    def __init__(self, windows: Array) -> None:
        self._windows: Iterator[Array] = iter(windows)

    def get_next(self) -> dict[str, Any] | None:
        window = next(self._windows, None)
        return None if window is None else {"x": window[None]}
