"""Text of encoder.c and encoder_constants.h: weights, layers, and the function that runs them in order."""

from collections.abc import Mapping

import numpy as np

from sight.models.export.c import literals
from sight.models.export.c.layers import Conv, Encoder, Layer, Pool, Signal
from sight.types import Array

#: Rows of weights that the C source multiplies at once (SIGHT_ROWS_AT_ONCE of layers.h), and bytes of input.
ROWS_AT_ONCE, INPUTS_AT_ONCE = 4, 4


def encoder_constants(encoder: Encoder) -> str:
    """Return encoder_constants.h: how the input is scaled."""
    lines = ['#include "sight_config.h"', "", f"#define ENCODER_FILLS {int(encoder.fill is not None)}"]
    arrays = {"MEAN": encoder.mean, "DEVIATION": encoder.std}
    arrays |= {} if encoder.fill is None else {"FILL": encoder.fill}
    for name, values in arrays.items():
        lines.append(literals.array(f"ENCODER_{name}", values.astype(np.float32), sizes="[SIGHT_CHANNELS]"))
    comment = (
        "Mean and deviation of each channel in the training data; a value for missing ones, if they were missing\n"
        " * there too. Generated; do not edit."
    )
    return literals.header("ENCODER_CONSTANTS_H", comment, lines)


def encoder_source(encoder: Encoder, places: dict[Signal, int]) -> str:
    """Return encoder.c; layers are in order and signals have places."""
    kind = "int8" if encoder.int8 else "float32"
    parts = [
        "/* Weights and layers of the encoder, in the order in which they run. Generated; do not edit. */\n"
        f'#include "layers_{kind}.h"\n#include "sight.h"\n#include "vector_math.h"\n'
    ]
    parts += [_conv(layer) if isinstance(layer, Conv) else _pool(layer) for layer in encoder.layers]
    parts += [_bins(encoder), _head(encoder), _function(encoder, places)]
    return "\n".join(parts)


def _conv(layer: Conv) -> str:
    name, weight = layer.name.upper(), _padded(layer.weight)
    arrays = {"WEIGHTS": weight.reshape(-1)}
    if layer.weight_scale is not None:  # [rows / 4][kernel][inputs / 4][4 rows][4 inputs]
        rows, kernel, inputs = weight.shape
        blocks = weight.reshape(rows // ROWS_AT_ONCE, ROWS_AT_ONCE, kernel, inputs // INPUTS_AT_ONCE, INPUTS_AT_ONCE)
        arrays["WEIGHTS"] = blocks.transpose(0, 2, 3, 1, 4).reshape(-1)
    if layer.weight_scale is None:
        arrays["BIASES"] = _padded(layer.bias).astype(np.float32)
    else:
        scale = layer.weight_scale.astype(np.float64) * float(layer.input.scale or 0)
        arrays["BIASES"] = _padded(np.rint(layer.bias / scale).astype(np.int32))
        arrays["SCALES"] = _padded(scale).astype(np.float32)
    text = "\n".join(literals.array(f"{name}_{key}", values) for key, values in arrays.items())
    fields = {key.lower(): f"{name}_{key}" for key in arrays} | {
        "inputs": layer.input.channels,
        "outputs": layer.output.channels,
        "slide": _slide(layer),
        "relu": "true" if layer.relu else "false",
    }
    if layer.weight_scale is not None:
        fields |= {"residual_range": _range(layer.residual)} if layer.residual else {}
        fields |= {"output_range": _range(layer.output)} if layer.output.scale else {}
    kind = "sight_float_conv_t" if layer.weight_scale is None else "sight_byte_conv_t"
    return f"{text}\n{_struct(kind, name, fields)}"


def _pool(layer: Pool) -> str:
    return _struct("sight_pool_t", layer.name.upper(), {"channels": layer.input.channels, "slide": _slide(layer)})


def _slide(layer: Layer) -> str:
    lengths = f".length = {layer.input.length}, .output_length = {layer.output.length}"
    return f"{{.kernel = {layer.kernel}, .stride = {layer.stride}, .padding = {layer.padding}, {lengths}}}"


def _bins(encoder: Encoder) -> str:
    first, last = np.array(encoder.bins, np.uint16).T
    arrays = f"{literals.array('BIN_FIRST', first)}\n{literals.array('BIN_LAST', last)}\n"
    fields = {"first": "BIN_FIRST", "last": "BIN_LAST", "bins": len(first), "channels": encoder.last.channels}
    return arrays + _struct("sight_bins_t", "BINS", fields)


def _head(encoder: Encoder) -> str:
    weight = literals.array("HEAD_WEIGHTS", encoder.weight.astype(np.float32).reshape(-1))
    return f"{weight}\n{literals.array('HEAD_BIASES', encoder.bias.astype(np.float32))}\n"


def _function(encoder: Encoder, places: dict[Signal, int]) -> str:
    lines = [
        "bool sight_encode(sight_workspace_t *workspace, const float window[SIGHT_LENGTH * SIGHT_CHANNELS],",
        "                  float z[SIGHT_FEATURES], float p[SIGHT_CLASSES])",
        "{",
    ]
    for signal in encoder.signals:
        place, size = places[signal], f"{signal.length} x {signal.channels}"
        memory = f"values[{place // 4}]" if signal.scale is None else f"bytes[{place}]"
        kind = "float" if signal.scale is None else "uint8_t"
        lines.append(f"    {kind} *const {_variable(signal, encoder)} = &workspace->{memory}; /* {size} */")
    if widths := [layer.output.channels for layer in encoder.layers if _is_float_to_bytes(layer)]:
        lines.append(f"    float row[{max(widths)}]; /* one sample of a convolution in float with bytes as output */")
    lines += ["    if (!sight_scale_input(window, scaled_window)) {", "        return false;", "    }"]
    lines += [f"    {_call(layer, encoder)};" for layer in encoder.layers]
    last = _variable(encoder.last, encoder)
    if encoder.last.scale is None:
        lines.append(f"    sight_bin_means(&BINS, {last}, z);")
    else:
        lines.append(f"    sight_bin_means_of_bytes(&BINS, {last}, (sight_range_t){_range(encoder.last)}, z);")
    lines += ["    sight_head(HEAD_WEIGHTS, HEAD_BIASES, z, p);", "    return true;", "}", ""]
    return "\n".join(lines)


def _call(layer: Layer, encoder: Encoder) -> str:
    given, written = (_variable(signal, encoder) for signal in (layer.input, layer.output))
    name, kind = layer.name.upper(), "float" if layer.input.scale is None else "byte"
    if isinstance(layer, Pool):
        return f"sight_{kind}_{layer.kind}(&{name}, {given}, {written})"
    if _is_float_to_bytes(layer):
        return f"sight_float_conv_to_bytes(&{name}, {given}, (sight_range_t){_range(layer.output)}, row, {written})"
    function = "sight_byte_conv_to_values" if kind == "byte" and layer.output.scale is None else f"sight_{kind}_conv"
    residual = _variable(layer.residual, encoder) if layer.residual else "NULL"
    return f"{function}(&{name}, {given}, {residual}, {written})"


def _is_float_to_bytes(layer: Layer) -> bool:
    return layer.input.scale is None and layer.output.scale is not None


def _variable(signal: Signal, encoder: Encoder) -> str:
    return "scaled_window" if signal is encoder.input else signal.name


def _range(signal: Signal) -> str:
    return f"{{{literals.number(float(signal.scale or 0))}, {signal.zero}}}"


def _struct(kind: str, name: str, fields: Mapping[str, object]) -> str:
    body = "".join(f"    .{key} = {value},\n" for key, value in fields.items())
    return f"static const {kind} {name} = {{\n{body}}};\n"


def _padded(values: Array) -> Array:
    """Fill rows with zeros up to a multiple of `ROWS_AT_ONCE`."""
    missing = -len(values) % ROWS_AT_ONCE
    return np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])
